package effects

import (
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/pattern"
)

// A Matcher compares files with some targets. Its patterns are compiled once. It is safe for
// concurrent use.
type Matcher struct {
	files    map[string]bool // by their absolute paths
	folders  map[string]bool // everything below them matches, too
	patterns []compiled
}

// A compiled is a pattern: wildcards where all of its parts are fixed or match any text, as in a
// pathspec of git, else an expression.
type compiled struct {
	deep  bool
	wild  *wildcards
	expr  *regexp.Regexp
	steps int // of comparing one byte with expr, at most
}

// Compile returns a Matcher of the files that any of some targets names. A pattern that is not
// valid names none.
func Compile(targets ...Target) Matcher {
	m := Matcher{files: map[string]bool{}, folders: map[string]bool{}}
	for _, t := range targets {
		switch {
		case t.Glob || t.Spec:
			if c, ok := compile(t); ok {
				m.patterns = append(m.patterns, c)
			}
		default:
			m.files[t.Path] = true
			if t.Deep {
				m.folders[strings.TrimSuffix(t.Path, "/")] = true
			}
		}
	}
	return m
}

// Matches reports whether a target names a file, given by its absolute path.
func (m Matcher) Matches(file string) bool {
	steps := 0
	return m.Count(file, &steps)
}

// Count is Matches, and adds the number of steps to a counter. Comparing a file with a pathspec
// costs at most the product of their lengths.
func (m Matcher) Count(file string, steps *int) bool {
	*steps += 1 + len(m.patterns)
	if m.files[file] {
		return true
	}
	if len(m.folders) > 0 {
		for i := range len(file) {
			if file[i] == '/' && m.folders[file[:i]] {
				return true
			}
		}
	}
	return slices.ContainsFunc(m.patterns, func(c compiled) bool { return c.matches(file, steps) })
}

// compile compiles the pattern of a target.
func compile(t Target) (compiled, bool) {
	mode := pattern.EntireString
	if t.Glob {
		mode |= pattern.Filenames
	}
	text, err := pattern.Regexp(t.Path, mode)
	if err != nil {
		return compiled{}, false
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return compiled{}, false
	}
	c := compiled{deep: t.Deep}
	if c.wild = wildcardsOf(tree.Simplify()); c.wild != nil {
		return c, true
	}
	c.steps = 1 + strings.Count(t.Path, "*")
	c.expr, err = regexp.Compile(text)
	return c, err == nil
}

// matches compares a file, and for a deep target its parents, with the pattern.
func (c compiled) matches(file string, steps *int) bool {
	if c.wild != nil {
		return c.wild.match(file, c.deep, steps)
	}
	for name := file; ; name = path.Dir(name) {
		*steps += c.steps * len(name)
		if c.expr.MatchString(name) {
			return true
		}
		if !c.deep || name == path.Dir(name) {
			return false
		}
	}
}

// wildcards is a pattern of parts with any text between two of them. A part has a fixed number of
// characters, each of which is a range of possible ones.
//
// The parts are found from left to right, each at the first place after the one before it: any
// later place would leave less text to the parts that follow. So no choice is ever taken back.
type wildcards struct {
	parts []part
	least int // characters of all parts
}

// A part is a sequence of characters: for each the pairs of the first and last one that it may be.
type part [][]rune

// anyRune is the range of a character that may be any.
var anyRune = []rune{0, utf8.MaxRune}

// wildcardsOf returns the wildcards of an expression; nil if it has something else.
func wildcardsOf(tree *syntax.Regexp) *wildcards {
	list := tree.Sub
	if tree.Op != syntax.OpConcat || list[0].Op != syntax.OpBeginText || list[len(list)-1].Op != syntax.OpEndText {
		return nil
	}
	w := &wildcards{parts: make([]part, 1)}
	for _, e := range list[1 : len(list)-1] {
		last := len(w.parts) - 1
		switch {
		case e.Op == syntax.OpEmptyMatch:
		case e.Op == syntax.OpLiteral && e.Flags&syntax.FoldCase == 0:
			for _, r := range e.Rune {
				w.parts[last] = append(w.parts[last], []rune{r, r})
			}
		case e.Op == syntax.OpCharClass:
			w.parts[last] = append(w.parts[last], e.Rune)
		case e.Op == syntax.OpAnyChar:
			w.parts[last] = append(w.parts[last], anyRune)
		case e.Op == syntax.OpStar && e.Sub[0].Op == syntax.OpAnyChar:
			w.parts = append(w.parts, nil)
		default:
			return nil
		}
	}
	for _, p := range w.parts {
		w.least += len(p)
	}
	return w
}

// match compares a file, or for a deep pattern the file or one of its parents, with wildcards.
func (w *wildcards) match(file string, deep bool, steps *int) bool {
	if len(file) < w.least {
		return false
	}
	anywhere := func(int) bool { return true }
	atEnd := func(end int) bool {
		isParent := deep && end > 0 && end < len(file) && (file[end] == '/' || file[:end] == "/")
		return end == len(file) || isParent
	}

	end, ok := w.parts[0].at(file, steps)
	last := len(w.parts) - 1
	if !ok || last == 0 {
		return ok && atEnd(end)
	}
	for _, p := range w.parts[1:last] {
		if end = p.find(file, end, anywhere, steps); end < 0 {
			return false
		}
	}
	return w.parts[last].find(file, end, atEnd, steps) >= 0
}

// find returns the end of the first place of a part in a file, from an offset, whose end is
// accepted; -1 if there is none. An empty part, which any text follows, is everywhere.
func (p part) find(file string, from int, accept func(end int) bool, steps *int) int {
	if len(p) == 0 {
		return from
	}
	for {
		if n, ok := p.at(file[from:], steps); ok && accept(from+n) {
			return from + n
		}
		if len(file)-from <= len(p) {
			return -1
		}
		_, size := utf8.DecodeRuneInString(file[from:])
		from += size
	}
}

// at reports whether a text begins with a part, and returns the number of its bytes.
func (p part) at(text string, steps *int) (n int, ok bool) {
	*steps++
	for _, ranges := range p {
		*steps++
		if n == len(text) {
			return 0, false
		}
		r, size := rune(text[n]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[n:])
		}
		if !within(ranges, r) {
			return 0, false
		}
		n += size
	}
	return n, true
}

// within reports whether a character is in one of some ranges.
func within(ranges []rune, r rune) bool {
	for i := 0; i < len(ranges); i += 2 {
		if ranges[i] <= r && r <= ranges[i+1] {
			return true
		}
	}
	return false
}
