package diff3_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/diff3"
)

// text writes one letter a line.
func text(letters string) []byte {
	var b []byte
	for _, r := range letters {
		b = append(b, string(r)+"\n"...)
	}
	return b
}

func TestMerge(t *testing.T) {
	for _, test := range []struct {
		name, base, a, b, want string // want is "" for a conflict
	}{
		{"changes of different lines", "abcde", "Abcde", "abcdE", "AbcdE"},
		{"an insertion and a change", "abcde", "aXbcde", "abcdE", "aXbcdE"},
		{"a removal and a change", "abcde", "bcde", "abcdE", "bcdE"},
		{"equal changes and another", "abcde", "AbcdE", "Abcde", "AbcdE"},
		{"lines that all are equal", "xxxxxxx", "xAxxxxx", "xxxxxBx", "xAxxxBx"},
		{"a removal of repeated lines", "axbxc", "abc", "axbxC", ""},
		{"changes of one line", "abc", "aBc", "aXc", ""},
		{"changes of neighbours", "abcd", "aBcd", "abCd", ""},
		{"two insertions at one place", "ab", "aXb", "aYb", ""},
		{"a change beside an insertion", "abc", "aBc", "abXc", ""},
		{"two files without a base", "", "ab", "cd", ""},
		{"everything removed and a change", "abc", "", "aBc", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := diff3.Merge(text(test.base), text(test.a), text(test.b))
			if ok != (test.want != "") || !bytes.Equal(got, text(test.want)) {
				t.Errorf("got %q, %v; want %q", got, ok, text(test.want))
			}
		})
	}
	t.Run("a last line without a newline is a line of its own", func(t *testing.T) {
		got, ok := diff3.Merge([]byte("a\nb\nc"), []byte("A\nb\nc"), []byte("a\nb\nC"))
		if !ok || string(got) != "A\nb\nC" {
			t.Errorf("got %q, %v", got, ok)
		}
	})
	t.Run("changes of lines apart are merged in every order", func(t *testing.T) {
		var base []string
		for i := range 100 {
			base = append(base, fmt.Sprintf("line %d\n", i%7))
		}
		for range 20 {
			head := []byte(strings.Join(base, ""))
			for _, i := range rand.Perm(50) {
				edit := append([]string{}, base...)
				edit[2*i] = fmt.Sprintf("edit %d\n", i)
				var ok bool
				if head, ok = diff3.Merge([]byte(strings.Join(base, "")), head, []byte(strings.Join(edit, ""))); !ok {
					t.Fatal("a conflict")
				}
			}
			for i, line := range strings.SplitAfter(string(head), "\n")[:100] {
				if want := fmt.Sprintf("edit %d\n", i/2); i%2 == 0 && line != want || i%2 == 1 && line != base[i] {
					t.Fatalf("line %d: got %q", i, line)
				}
			}
		}
	})
}

func TestMark(t *testing.T) {
	label := diff3.Label{Base: "version 1", A: "version 2", B: "version 3"}
	for _, test := range []struct{ name, base, a, b, want string }{
		{"no conflict, no mark", "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"},
		{
			"the conflict alone is marked, and other changes are merged", "a\nb\nc\nd\ne\n", "A\nb\nX\nd\ne\n", "a\nb\nY\nd\nE\n",
			"A\nb\n<<<<<<< version 2\nX\n||||||| version 1\nc\n======= version 3\nY\n>>>>>>> end\nd\nE\n",
		},
		{"a last line without a newline", "a", "b", "c", "<<<<<<< version 2\nb\n||||||| version 1\na\n======= version 3\nc\n>>>>>>> end\n"},
		{"a removal and a change", "a\nb\nc\n", "a\nc\n", "a\nB\nc\n", "a\n<<<<<<< version 2\n||||||| version 1\nb\n======= version 3\nB\n>>>>>>> end\nc\n"},
		{"no base", "", "a\n", "b\n", "<<<<<<< version 2\na\n||||||| version 1\n======= version 3\nb\n>>>>>>> end\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(diff3.Mark([]byte(test.base), []byte(test.a), []byte(test.b), label)); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
	for text, want := range map[string]int{"": 0, "a\n>>>>>>> end\n": 2, "Title\n=======\n": 0, "<<<<<<< version 2": 1, "a <<<<<<< version 2": 0} {
		if got := diff3.Marked([]byte(text)); got != want {
			t.Errorf("the first mark of %q: got line %d, want %d", text, got, want)
		}
	}
}

func TestIsText(t *testing.T) {
	for content, want := range map[string]bool{"": true, "a\r\nü": true, "a\x00": false, "\xff": false} {
		if got := diff3.IsText([]byte(content)); got != want {
			t.Errorf("%q: got %v", content, got)
		}
	}
}

func FuzzMerge(f *testing.F) {
	for _, seed := range [][3]string{{"abc", "aBc", "abC"}, {"", "ab", "ac"}, {"aabb", "abab", "bbaa"}, {"abcabc", "abc", "abcXabc"}, {"a\n\nb", "a\n\n", "\n"}} {
		f.Add(text(seed[0]), text(seed[1]), text(seed[2]))
		f.Add([]byte(seed[0]), []byte(seed[1]), []byte(seed[2]))
	}
	f.Fuzz(func(t *testing.T, base, a, b []byte) {
		for name, got := range map[string]func() ([]byte, bool){
			"equal changes are that change":  func() ([]byte, bool) { return diff3.Merge(base, a, a) },
			"the base gives the other side":  func() ([]byte, bool) { return diff3.Merge(base, base, a) },
			"the other side gives the other": func() ([]byte, bool) { return diff3.Merge(base, a, base) },
		} {
			if out, ok := got(); !ok || !bytes.Equal(out, a) {
				t.Errorf("%s: got %q, %v", name, out, ok)
			}
		}
		one, ok := diff3.Merge(base, a, b)
		two, ok2 := diff3.Merge(base, b, a)
		if ok != ok2 || !bytes.Equal(one, two) {
			t.Errorf("got %q, %v and with the sides swapped %q, %v", one, ok, two, ok2)
		}
		marked := diff3.Mark(base, a, b, diff3.Label{})
		if !ok {
			if diff3.Marked(marked) == 0 {
				t.Errorf("a conflict without a mark: %q", marked)
			}
			return
		}
		if !bytes.Equal(marked, one) {
			t.Errorf("got the merge %q, and with marks %q", one, marked)
		}
		// Each line of the merge is a line of one side, and a line that both sides have
		// added is not lost.
		for _, line := range bytes.SplitAfter(one, []byte("\n")) {
			if !bytes.Contains(a, line) && !bytes.Contains(b, line) {
				t.Errorf("%q is in no side", line)
			}
		}
	})
}
