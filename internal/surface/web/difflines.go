package web

import "strings"

// A diffLine is a line of a text compared with an earlier one.
type diffLine struct {
	Kind string // add, del or same
	Text string
}

// maxDiff is the number of lines of a text that are compared; a longer one is shown as
// it is. The comparison takes the product of both numbers.
const maxDiff = 1500

// diffLines compares two texts line by line along their longest common subsequence.
func diffLines(was, is string) []diffLine {
	b := strings.Split(is, "\n")
	var a []string
	if was != "" {
		a = strings.Split(was, "\n")
	}
	if len(a) == 0 || len(a) > maxDiff || len(b) > maxDiff {
		out := make([]diffLine, len(b))
		for i, line := range b {
			out[i] = diffLine{"same", line}
		}
		return out
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int16, len(a)+1)
	for i := range common {
		common[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []diffLine
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, diffLine{"same", b[j]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, diffLine{"del", a[i]})
			i++
		default:
			out = append(out, diffLine{"add", b[j]})
			j++
		}
	}
	return out
}
