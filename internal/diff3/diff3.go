// Package diff3 merges two changed copies of a text with the text that both were made
// from, line by line.
package diff3

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"
)

// IsText reports whether content can be merged by lines: UTF-8 without NUL.
func IsText(content []byte) bool {
	return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}

// Merge returns base with the changes of a and of b. It reports false if a change of a
// and another change of b touch: they replace a common line, or lines beside each other.
//
// Merge(base, a, a) and Merge(base, base, a) are a, and Merge(base, b, a) is
// Merge(base, a, b). The cost is that of sorting the lines.
func Merge(base, a, b []byte) ([]byte, bool) {
	merged := true
	out := merge(base, a, b, func(_, _, _ [][]byte) []byte {
		merged = false
		return nil
	})
	if !merged {
		return nil, false
	}
	return out, true
}

// A Label names one of the texts of a merge in its marks.
type Label struct{ Base, A, B string }

// The beginnings of the lines that mark a conflict.
const (
	markA, markBase, markB, markEnd = "<<<<<<< ", "||||||| ", "======= ", ">>>>>>> "
)

// Mark returns what Merge returns, and in the place of changes that touch the lines of a,
// of base and of b, each below a mark.
func Mark(base, a, b []byte, label Label) []byte {
	return merge(base, a, b, func(base, a, b [][]byte) []byte {
		var out []byte
		for _, part := range []struct {
			mark  string
			lines [][]byte
		}{{markA + label.A, a}, {markBase + label.Base, base}, {markB + label.B, b}, {markEnd + "end", nil}} {
			out = append(out, part.mark+"\n"...)
			if out = append(out, bytes.Join(part.lines, nil)...); out[len(out)-1] != '\n' {
				out = append(out, '\n')
			}
		}
		return out
	})
}

// Marked returns the number of the first line that is a mark, 0 if there is none.
func Marked(text []byte) int {
	for i, line := range lines(text) {
		for _, mark := range []string{markA, markBase, markB, markEnd} {
			if bytes.HasPrefix(line, []byte(mark)) {
				return i + 1
			}
		}
	}
	return 0
}

// merge returns base with the changes of a and of b. Where they touch it has the result of
// conflict, which is given the lines of each text there.
func merge(base, a, b []byte, conflict func(base, a, b [][]byte) []byte) []byte {
	switch {
	case bytes.Equal(a, b), bytes.Equal(b, base):
		return a
	case bytes.Equal(a, base):
		return b
	}
	old := lines(base)
	mine, others := changes(old, lines(a)), changes(old, lines(b))
	all := append(slices.Clone(mine), others...)
	slices.SortStableFunc(all, func(x, y change) int { return cmp.Or(x.from-y.from, x.to-y.to) })
	var out []byte
	done := 0 // lines of base that are in out, or replaced
	for len(all) > 0 {
		from, to, n := all[0].from, all[0].to, 1
		for ; n < len(all) && all[n].from <= to; n++ { // changes of one side never touch
			to = max(to, all[n].to)
		}
		out = append(out, bytes.Join(old[done:from], nil)...)
		if n == 1 || n == 2 && all[0].equal(all[1]) {
			out = append(out, bytes.Join(all[0].lines, nil)...)
		} else {
			out = append(out, conflict(old[from:to], apply(mine, old, from, to), apply(others, old, from, to))...)
		}
		all, done = all[n:], to
	}
	return append(out, bytes.Join(old[done:], nil)...)
}

// apply returns the lines of old from one up to another with the changes inside.
func apply(all []change, old [][]byte, from, to int) (out [][]byte) {
	for _, c := range all {
		if c.from >= from && c.to <= to {
			out = append(append(out, old[from:c.from]...), c.lines...)
			from = c.to
		}
	}
	return append(out, old[from:to]...)
}

// A change replaces the lines of the base from one up to another by others.
type change struct {
	from, to int
	lines    [][]byte
}

func (c change) equal(d change) bool {
	return c.from == d.from && c.to == d.to && slices.EqualFunc(c.lines, d.lines, bytes.Equal)
}

// lines cuts a text after each newline.
func lines(text []byte) [][]byte {
	out := bytes.SplitAfter(text, []byte{'\n'})
	if last := len(out) - 1; len(out[last]) == 0 {
		out = out[:last]
	}
	return out
}

// changes returns the changes that lead from one list of lines to another, in order. Two
// of them have an unchanged line between them.
func changes(old, changed [][]byte) []change {
	d := differ{old: old, changed: changed}
	d.compare(0, len(old), 0, len(changed))
	return d.found
}

type differ struct {
	old, changed [][]byte
	found        []change
}

// compare finds the changes between old[i:j] and changed[k:l].
//
// Equal lines at both ends are left out. Lines that stand once on each side are anchors:
// the longest chain of them that has the same order on both sides is kept, and the parts
// between are compared. A part without anchors that has as many lines as before is
// compared line by line, and another part is one change.
func (d *differ) compare(i, j, k, l int) {
	for i < j && k < l && bytes.Equal(d.old[i], d.changed[k]) {
		i, k = i+1, k+1
	}
	for i < j && k < l && bytes.Equal(d.old[j-1], d.changed[l-1]) {
		j, l = j-1, l-1
	}
	switch chain := d.anchors(i, j, k, l); {
	case i == j && k == l:
	case len(chain) > 0:
		for _, c := range chain {
			d.compare(i, c[0], k, c[1])
			i, k = c[0]+1, c[1]+1
		}
		d.compare(i, j, k, l)
	case j-i == l-k:
		for ; i < j; i, k = i+1, k+1 {
			if !bytes.Equal(d.old[i], d.changed[k]) {
				d.add(i, i+1, k, k+1)
			}
		}
	default:
		d.add(i, j, k, l)
	}
}

// add appends a change, or extends the last one if both touch.
func (d *differ) add(i, j, k, l int) {
	if n := len(d.found); n > 0 && d.found[n-1].to == i {
		last := &d.found[n-1]
		last.to, last.lines = j, append(slices.Clip(last.lines), d.changed[k:l]...)
		return
	}
	d.found = append(d.found, change{i, j, d.changed[k:l]})
}

// anchors returns the longest chain of lines that stand once in old[i:j] and once in
// changed[k:l], in the same order on both sides, as pairs of indexes.
func (d *differ) anchors(i, j, k, l int) [][2]int {
	type place struct{ old, changed, n, m int }
	seen := map[string]*place{}
	for at := i; at < j; at++ {
		p := seen[string(d.old[at])]
		if p == nil {
			p = new(place)
			seen[string(d.old[at])] = p
		}
		p.old, p.n = at, p.n+1
	}
	for at := k; at < l; at++ {
		if p := seen[string(d.changed[at])]; p != nil {
			p.changed, p.m = at, p.m+1
		}
	}
	// Patience sorting: tops has, for each length, the link that ends a chain of it at
	// the least index of changed.
	type link struct {
		pair   [2]int
		before *link
	}
	var tops []*link
	for at := i; at < j; at++ {
		p := seen[string(d.old[at])]
		if p.n != 1 || p.m != 1 {
			continue
		}
		n, _ := slices.BinarySearchFunc(tops, p.changed, func(t *link, changed int) int { return t.pair[1] - changed })
		l := &link{pair: [2]int{p.old, p.changed}}
		if n > 0 {
			l.before = tops[n-1]
		}
		if n == len(tops) {
			tops = append(tops, l)
		} else {
			tops[n] = l
		}
	}
	var chain [][2]int
	if len(tops) > 0 {
		for l := tops[len(tops)-1]; l != nil; l = l.before {
			chain = append(chain, l.pair)
		}
	}
	slices.Reverse(chain)
	return chain
}
