// Package nearest finds the name that a misspelled one was probably meant to
// be, for "did you mean" in messages.
package nearest

import (
	"cmp"
	"iter"
	"slices"
)

// maxLength bounds the bytes of a name that are compared, and so the cost of
// one comparison.
const maxLength = 64

// Name returns the first of Names, "" if there is none.
func Name[S ~string](name S, candidates iter.Seq[S]) S {
	for _, found := range Names(name, candidates, 1) {
		return found
	}
	return ""
}

// Names returns the candidates that are near to name, at most so many, those
// with the least edit distance first. Near is at most two edits, or a third of
// the name's length if that is more, and never more than half of the longer one.
func Names[S ~string](name S, candidates iter.Seq[S], most int) []S {
	type candidate struct {
		name     S
		distance int
	}
	var near []candidate
	limit := max(2, min(len(name), maxLength)/3)
	for c := range candidates {
		if d := distance(string(name), string(c)); d <= limit && 2*d <= max(len(name), len(c)) {
			near = append(near, candidate{c, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []S
	for _, c := range near[:min(most, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// distance counts the bytes to insert, delete or replace between a and b
// (Levenshtein). It keeps one row of the matrix, so that it takes
// len(a)*len(b) steps and len(b) integers.
func distance(a, b string) int {
	a, b = a[:min(len(a), maxLength)], b[:min(len(b), maxLength)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
