package web

import (
	"slices"
	"strings"
	"testing"
)

func TestDiffLines(t *testing.T) {
	long := strings.Repeat("x\n", maxDiff)
	for _, tt := range []struct {
		name, was, is string
		want          []diffLine
	}{
		{"a text without an earlier one is not compared", "", "a\nb", []diffLine{{"same", "a"}, {"same", "b"}}},
		{"equal texts have no change", "a\nb", "a\nb", []diffLine{{"same", "a"}, {"same", "b"}}},
		{"a changed line is removed and added", "a\nb\nc", "a\nx\nc", []diffLine{{"same", "a"}, {"del", "b"}, {"add", "x"}, {"same", "c"}}},
		{"a line at the end is added", "a", "a\nb", []diffLine{{"same", "a"}, {"add", "b"}}},
		{"a line at the beginning is removed", "a\nb", "b", []diffLine{{"del", "a"}, {"same", "b"}}},
		{"an emptied text has one empty line", "a", "", []diffLine{{"del", "a"}, {"add", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := diffLines(tt.was, tt.is); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}

	t.Run("changes far from each other stand among all lines", func(t *testing.T) {
		middle := strings.Repeat("x\n", 500)
		got := diffLines("a\n"+middle+"b", "c\n"+middle+"d")
		if len(got) != 504 || got[0] != (diffLine{"del", "a"}) || got[503] != (diffLine{"add", "d"}) {
			t.Errorf("got %d lines, want 504 with both changes", len(got))
		}
	})
	t.Run("a long text is shown as it is", func(t *testing.T) {
		if got := diffLines(long, long+"y"); slices.ContainsFunc(got, func(l diffLine) bool { return l.Kind != "same" }) {
			t.Error("it was compared")
		}
	})
}
