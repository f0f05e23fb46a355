// Package diff3 merges two changed copies of a text with the text that both were made
// from, line by line.
//
// The work of a merge is bounded, because the texts come from others: a process merges one
// set of texts at a time, each text has at most MaxLines lines, and the search for common
// lines ends after maxSteps steps. Texts beyond a bound are not merged: they are a conflict.
package diff3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"unicode/utf8"
)

// MaxLines is the number of lines up to which a text is merged.
const MaxLines = 100_000

// maxSteps is the number of steps that a merge may take. A step compares or counts one
// line of at most 64 bytes. Two ordinary changes of a text of MaxLines lines take about a
// million.
const maxSteps = 4_000_000

// errTooMuch ends a merge that is beyond a bound.
var errTooMuch = errors.New("diff3: too much to compare")

// turn holds a value while a merge of this process works.
var turn = make(chan struct{}, 1)

// IsText reports whether content can be merged by lines: UTF-8 without NUL.
func IsText(content []byte) bool {
	return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}

// Merge returns base with the changes of a and of b. It reports false if a change of a
// and another change of b touch: they replace a common line, or lines beside each other.
// It reports false, too, if the texts are beyond a bound, and an error only if ctx ends.
//
// Merge(base, a, a) and Merge(base, base, a) are a, and Merge(base, b, a) is
// Merge(base, a, b). The cost of ordinary texts is that of sorting the lines.
func Merge(ctx context.Context, base, a, b []byte) ([]byte, bool, error) {
	merged := true
	out, err := merge(ctx, base, a, b, func(_, _, _ [][]byte) []byte {
		merged = false
		return nil
	})
	if errors.Is(err, errTooMuch) {
		return nil, false, nil
	}
	if err != nil || !merged {
		return nil, false, err
	}
	return out, true, nil
}

// A Label names one of the texts of a merge in its marks.
type Label struct{ Base, A, B string }

// The beginnings of the lines that mark a conflict.
const (
	markA, markBase, markB, markEnd = "<<<<<<< ", "||||||| ", "======= ", ">>>>>>> "
)

// Mark returns what Merge returns, and in the place of changes that touch the lines of a,
// of base and of b, each below a mark. Texts beyond a bound are one such place.
func Mark(ctx context.Context, base, a, b []byte, label Label) ([]byte, error) {
	conflict := func(base, a, b [][]byte) []byte {
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
	}
	out, err := merge(ctx, base, a, b, conflict)
	if errors.Is(err, errTooMuch) {
		return conflict([][]byte{base}, [][]byte{a}, [][]byte{b}), nil
	}
	return out, err
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
// conflict, which is given the lines of each text there. It reports errTooMuch for texts
// beyond a bound, and the error of ctx.
func merge(ctx context.Context, base, a, b []byte, conflict func(base, a, b [][]byte) []byte) ([]byte, error) {
	switch {
	case bytes.Equal(a, b), bytes.Equal(b, base):
		return a, nil
	case bytes.Equal(a, base):
		return b, nil
	}
	for _, text := range [][]byte{base, a, b} {
		if bytes.Count(text, []byte{'\n'}) > MaxLines {
			return nil, errTooMuch
		}
	}
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	// The changes of both sides, in the order of the base.
	old, left := lines(base), &steps{ended: ctx.Err, left: maxSteps}
	mine, err := changes(left, old, lines(a))
	if err != nil {
		return nil, err
	}
	others, err := changes(left, old, lines(b))
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(mine), others...)
	slices.SortStableFunc(all, func(x, y change) int { return cmp.Or(x.from-y.from, x.to-y.to) })

	// Changes that touch are one group: a change that both sides have, or a conflict.
	var out []byte
	done := 0 // lines of base that are in out, or replaced
	for len(all) > 0 {
		from := all[0].from
		to := all[0].to
		n := 1
		for ; n < len(all) && all[n].from <= to; n++ { // changes of one side never touch
			to = max(to, all[n].to)
		}
		out = append(out, bytes.Join(old[done:from], nil)...)
		one, two := mine[:begun(mine, to)], others[:begun(others, to)]
		mine, others = mine[len(one):], others[len(two):]
		if n == 1 || (n == 2 && all[0].equal(all[1])) {
			out = append(out, bytes.Join(all[0].lines(), nil)...)
		} else {
			out = append(out, conflict(old[from:to], apply(one, old, from, to), apply(two, old, from, to))...)
		}
		all, done = all[n:], to
	}
	return append(out, bytes.Join(old[done:], nil)...), nil
}

// begun returns the number of changes that begin at or before a line of the base.
func begun(all []change, line int) int {
	n := 0
	for n < len(all) && all[n].from <= line {
		n++
	}
	return n
}

// apply returns the lines of old from one up to another with changes, all of which are
// inside.
func apply(all []change, old [][]byte, from, to int) (out [][]byte) {
	for _, c := range all {
		out = append(append(out, old[from:c.from]...), c.lines()...)
		from = c.to
	}
	return append(out, old[from:to]...)
}

// A change replaces the lines of the base from one up to another by lines of a changed
// text.
type change struct {
	from, to int
	changed  [][]byte // the whole changed text
	at, end  int      // the lines of it that replace those of the base
}

func (c change) lines() [][]byte { return c.changed[c.at:c.end] }

func (c change) equal(d change) bool {
	return c.from == d.from && c.to == d.to && slices.EqualFunc(c.lines(), d.lines(), bytes.Equal)
}

// steps counts the work of a merge.
type steps struct {
	ended func() error // the error of the context
	left  int
}

// stepsOfCheck is the number of steps between two looks at the context.
const stepsOfCheck = 1 << 14

// take uses the steps of a line. It reports errTooMuch if none are left, and the error
// of the context now and then.
func (s *steps) take(line []byte) error {
	before := s.left
	s.left -= 1 + len(line)/64
	if s.left < 0 {
		return errTooMuch
	}
	if before/stepsOfCheck != s.left/stepsOfCheck {
		return s.ended()
	}
	return nil
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
func changes(left *steps, old, changed [][]byte) ([]change, error) {
	d := differ{left: left, old: old, changed: changed}
	err := d.compare(0, len(old), 0, len(changed))
	return d.found, err
}

type differ struct {
	left         *steps
	old, changed [][]byte
	found        []change
}

// compare finds the changes between old[i:j] and changed[k:l].
//
// Equal lines at both ends are left out. Lines that stand once on each side are anchors:
// the longest chain of them that has the same order on both sides is kept, and the parts
// between are compared. A part without anchors that has as many lines as before is
// compared line by line, and another part is one change.
//
// Each level of parts within parts costs as many steps as it has lines. Texts can be made
// to have a level for every second line, so that the steps are the bound of the cost and
// of the depth.
func (d *differ) compare(i, j, k, l int) error {
	for i < j && k < l && bytes.Equal(d.old[i], d.changed[k]) {
		if err := d.left.take(d.old[i]); err != nil {
			return err
		}
		i, k = i+1, k+1
	}
	for i < j && k < l && bytes.Equal(d.old[j-1], d.changed[l-1]) {
		if err := d.left.take(d.old[j-1]); err != nil {
			return err
		}
		j, l = j-1, l-1
	}

	if i == j && k == l {
		return nil
	}

	chain, err := d.anchors(i, j, k, l)
	switch {
	case err != nil:
		return err
	case len(chain) > 0:
		for _, c := range chain {
			if err := d.compare(i, c[0], k, c[1]); err != nil {
				return err
			}
			i, k = c[0]+1, c[1]+1
		}
		return d.compare(i, j, k, l)
	case j-i == l-k:
		for ; i < j; i, k = i+1, k+1 {
			if err := d.left.take(d.old[i]); err != nil {
				return err
			}
			if !bytes.Equal(d.old[i], d.changed[k]) {
				d.add(i, i+1, k, k+1)
			}
		}
	default:
		d.add(i, j, k, l)
	}
	return nil
}

// add appends a change, or extends the last one if both touch.
func (d *differ) add(i, j, k, l int) {
	if n := len(d.found); n > 0 && d.found[n-1].to == i {
		d.found[n-1].to = j
		d.found[n-1].end = l
		return
	}
	d.found = append(d.found, change{i, j, d.changed, k, l})
}

// anchors returns the longest chain of lines that stand once in old[i:j] and once in
// changed[k:l], in the same order on both sides, as pairs of indexes.
func (d *differ) anchors(i, j, k, l int) ([][2]int, error) {
	type place struct{ old, changed, n, m int }
	seen := map[string]*place{}
	for at := i; at < j; at++ {
		if err := d.left.take(d.old[at]); err != nil {
			return nil, err
		}
		p := seen[string(d.old[at])]
		if p == nil {
			p = new(place)
			seen[string(d.old[at])] = p
		}
		p.old, p.n = at, p.n+1
	}
	for at := k; at < l; at++ {
		if err := d.left.take(d.changed[at]); err != nil {
			return nil, err
		}
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
		if err := d.left.take(d.old[at]); err != nil {
			return nil, err
		}
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
	return chain, nil
}
