// Package nearest finds the name that a misspelled one was probably meant to
// be, for "did you mean" in messages.
package nearest

import "iter"

// maxLength bounds the bytes of a name that are compared, and so the cost of
// one comparison.
const maxLength = 64

// Name returns the candidate with the least edit distance to name, the first of
// several. It returns "" if none is near: at most two edits, or a third of the
// name's length if that is more.
func Name[S ~string](name S, candidates iter.Seq[S]) S {
	var found S
	least := max(2, len(name)/3) + 1
	for c := range candidates {
		if d := distance(string(name), string(c)); d < least && d < max(len(name), len(c)) {
			found, least = c, d
		}
	}
	return found
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
