package diff3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/diff3"
)

// text writes one letter a line.
func text(letters string) []byte {
	var b []byte
	for _, r := range letters {
		b = append(b, string(r)+"\n"...)
	}
	return b
}

func merge(t *testing.T, base, a, b []byte) ([]byte, bool) {
	t.Helper()
	out, ok, err := diff3.Merge(t.Context(), base, a, b)
	if err != nil {
		t.Fatal(err)
	}
	return out, ok
}

func mark(t *testing.T, base, a, b []byte, label diff3.Label) []byte {
	t.Helper()
	out, err := diff3.Mark(t.Context(), base, a, b, label)
	if err != nil {
		t.Fatal(err)
	}
	return out
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
			got, ok := merge(t, text(test.base), text(test.a), text(test.b))
			if ok != (test.want != "") || !bytes.Equal(got, text(test.want)) {
				t.Errorf("got %q, %v; want %q", got, ok, text(test.want))
			}
		})
	}
	t.Run("a last line without a newline is a line of its own", func(t *testing.T) {
		got, ok := merge(t, []byte("a\nb\nc"), []byte("A\nb\nc"), []byte("a\nb\nC"))
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
				if head, ok = merge(t, []byte(strings.Join(base, "")), head, []byte(strings.Join(edit, ""))); !ok {
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

// nested returns a text in whose comparison with one of another filler every level finds
// one common line: a line of a pair stands once only where the pair after it is left out.
func nested(pairs int, filler string) []byte {
	b := []byte("z\nz\n")
	for i := pairs; i > 0; i-- {
		b = fmt.Appendf(b, "%s\n%d\n%d\n", filler, i, i+1)
	}
	return append(b, filler+"\nlast\n"...)
}

func TestBounds(t *testing.T) {
	// Both texts below would merge: the last line is changed on one side, lines far above it
	// on the other.
	long := bytes.Repeat([]byte("a\nb\n"), 60_000)
	deep := nested(1500, "x")
	texts := map[string][3][]byte{
		"more lines than the bound": {long, append([]byte("c\n"), long...), append(bytes.Clone(long), "d\n"...)},
		"lines that take more work": {deep, nested(1500, "y"), append(bytes.Clone(deep), "d\n"...)},
	}
	for name, text := range texts {
		t.Run(name+" are a conflict", func(t *testing.T) {
			if got, ok := merge(t, text[0], text[1], text[2]); ok || got != nil {
				t.Errorf("got a merge of %d bytes", len(got))
			}
		})
		t.Run(name+" are one place with marks", func(t *testing.T) {
			got := mark(t, text[0], text[1], text[2], diff3.Label{Base: "base", A: "a", B: "b"})
			want := fmt.Sprintf("<<<<<<< a\n%s||||||| base\n%s======= b\n%s>>>>>>> end\n", text[1], text[0], text[2])
			if string(got) != want {
				t.Errorf("got %d bytes, want %d", len(got), len(want))
			}
		})
		t.Run(name+" are the changed text if one side alone changed", func(t *testing.T) {
			if got, ok := merge(t, text[0], text[1], text[0]); !ok || !bytes.Equal(got, text[1]) {
				t.Errorf("got %d bytes, %v", len(got), ok)
			}
		})
	}
	t.Run("100,000 lines with changes apart are merged", func(t *testing.T) {
		var base []byte
		for i := range diff3.MaxLines - 1 {
			base = fmt.Appendf(base, "line %d\n", i%70_000)
		}
		a, b := append([]byte("first\n"), base...), append(bytes.Clone(base), "last\n"...)
		want := append(bytes.Clone(a), "last\n"...)
		if got, ok := merge(t, base, a, b); !ok || !bytes.Equal(got, want) {
			t.Errorf("got %d bytes, %v", len(got), ok)
		}
	})
	t.Run("a merge ends with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		text := texts["lines that take more work"]
		if got, ok, err := diff3.Merge(ctx, text[0], text[1], text[2]); !errors.Is(err, context.Canceled) || ok {
			t.Errorf("got %d bytes, %v, %v", len(got), ok, err)
		}
	})
	t.Run("a merge waits for the one before it, as long as its context", func(t *testing.T) {
		diff3.Turn <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, ok, err := diff3.Merge(ctx, text("abc"), text("Abc"), text("abC")); !errors.Is(err, context.Canceled) {
			t.Errorf("during another merge: got %q, %v, %v", got, ok, err)
		}
		<-diff3.Turn
		if got, ok := merge(t, text("abc"), text("Abc"), text("abC")); !ok || !bytes.Equal(got, text("AbC")) {
			t.Errorf("after it: got %q, %v", got, ok)
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
			if got := string(mark(t, []byte(test.base), []byte(test.a), []byte(test.b), label)); got != test.want {
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
			"equal changes are that change":  func() ([]byte, bool) { return merge(t, base, a, a) },
			"the base gives the other side":  func() ([]byte, bool) { return merge(t, base, base, a) },
			"the other side gives the other": func() ([]byte, bool) { return merge(t, base, a, base) },
		} {
			if out, ok := got(); !ok || !bytes.Equal(out, a) {
				t.Errorf("%s: got %q, %v", name, out, ok)
			}
		}
		one, ok := merge(t, base, a, b)
		two, ok2 := merge(t, base, b, a)
		if ok != ok2 || !bytes.Equal(one, two) {
			t.Errorf("got %q, %v and with the sides swapped %q, %v", one, ok, two, ok2)
		}
		marked := mark(t, base, a, b, diff3.Label{})
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
