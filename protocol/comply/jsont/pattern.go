package jsont

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Pattern is compared with a JSON value. The comparison is one-sided: the value
// may have more than the pattern asks for, because agents may extend the protocol.
//
//   - An object must have the members of the pattern; others are ignored.
//   - An array must have, for each element of the pattern, an element that matches.
//     Order does not count, and one element may match several.
//   - A string in the pattern is a regular expression that must be found in the value
//     written as text. One that does not compile is compared as it is.
//   - Any other leaf must be written like the value; 1.0 and 1 are the same.
//
// A match visits each member of the pattern once; an array costs the product of its
// length and that of the pattern. Regular expressions run in linear time.
type Pattern struct {
	kind    Kind
	text    string
	regex   *regexp.Regexp // nil if text is no regular expression, and compared
	members []patternMember
	items   []*Pattern
}

type patternMember struct {
	name  string
	value *Pattern
}

// NewPattern returns a node as a pattern in which the variables have their values.
func NewPattern(n *Node, vars Variables) *Pattern {
	p := &Pattern{kind: n.Kind, text: n.Text}
	switch n.Kind {
	case Object:
		for _, m := range n.members {
			p.members = append(p.members, patternMember{vars.Expand(m.Name), NewPattern(m.Value, vars)})
		}
	case Array:
		for _, item := range n.items {
			p.items = append(p.items, NewPattern(item, vars))
		}
	case String:
		var err error
		if p.regex, err = regexp.Compile(vars.expandPattern(n.Text)); err != nil {
			p.text = vars.Expand(n.Text)
		}
	case Number:
		p.text = numberText(n.Text)
	}
	return p
}

// literals calls f with each string of a pattern that is not a regular expression of
// Go, and the error of the compiler.
// Variables count as a letter, because their values are matched literally.
func literals(n *Node, f func(n *Node, err error)) {
	for _, m := range n.members {
		literals(m.Value, f)
	}
	for _, item := range n.items {
		literals(item, f)
	}
	if n.Kind == String {
		if _, err := regexp.Compile(variable().ReplaceAllLiteralString(n.Text, "x")); err != nil {
			f(n, err)
		}
	}
}

// A Mismatch is the first difference between a value and a pattern.
// Met orders the candidates when a report names the nearest frame: the more leaves
// matched, the likelier the frame was meant.
type Mismatch struct {
	path string // such as result.stopReason; empty for the whole value
	Want string
	Got  string
	Met  int // how many leaves had matched before
}

func (m *Mismatch) String() string {
	where := m.path
	if where == "" {
		where = "the message"
	}
	return fmt.Sprintf("%s is %s, not %s", where, m.Got, m.Want)
}

// Match returns nil if v matches.
func (p *Pattern) Match(v any) *Mismatch {
	met := 0
	return p.at("", v, &met)
}

// at compares v, which stands at path, and counts the leaves that match.
func (p *Pattern) at(path string, v any, met *int) *Mismatch {
	miss := func(want, got string) *Mismatch { return &Mismatch{path, want, got, *met} }

	switch p.kind {
	case Object:
		object, ok := v.(map[string]any)
		if !ok {
			return miss("an object", Brief(v))
		}
		for _, m := range p.members {
			inner := Join(path, m.name)
			value, ok := object[m.name]
			if !ok {
				return &Mismatch{inner, m.value.String(), "missing", *met}
			}
			if bad := m.value.at(inner, value, met); bad != nil {
				return bad
			}
		}
		return nil

	// Each item of the pattern needs an element of the array; other elements are ignored.
	case Array:
		array, ok := v.([]any)
		if !ok {
			return miss("an array", Brief(v))
		}
		for _, want := range p.items {
			if !slices.ContainsFunc(array, func(v any) bool { return want.Match(v) == nil }) {
				return miss("an array with an element like "+want.String(), Brief(v))
			}
			*met++
		}
		return nil
	}

	// A scalar is compared by its text.
	text := Stringify(v)
	ok := text == p.text
	if p.regex != nil {
		ok = p.regex.MatchString(text)
	}
	if !ok {
		return miss(p.String(), Brief(v))
	}
	*met++
	return nil
}

// String describes the pattern for people.
func (p *Pattern) String() string {
	switch {
	case p.regex != nil:
		return "/" + p.regex.String() + "/"
	case p.kind == String:
		return strconv.Quote(p.text)
	case p.kind == Object:
		var parts []string
		for _, m := range p.members {
			parts = append(parts, m.name+": "+m.value.String())
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case p.kind == Array:
		var parts []string
		for _, item := range p.items {
			parts = append(parts, item.String())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return p.text
}

// Stringify returns a value as text: the characters of a string, a number without a
// fraction of zero, any other value as compact JSON.
func Stringify(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return numberText(v.String())
	}
	return string(Encode(v))
}

// numberText writes a number without exponent and empty fraction, so that 1.0
// and 1 are the same.
// A number beyond the range of a float is compared by its digits.
func numberText(digits string) string {
	if !strings.ContainsAny(digits, ".eE") {
		return digits
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return digits
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// Brief returns a value as JSON, cut to a length that fits into a sentence.
func Brief(v any) string { return Shorten(string(Encode(v)), 200) }

// Shorten returns at most n bytes of s, with a mark if some are missing. It never
// cuts a character.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " [...]"
}

// Join returns the path of a member of the value at path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
