package shorten_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"short", 5, "short"},
		{"longer", 5, "longe…"},
		{"größe", 3, "gr…"}, // the ö has two bytes, of which one would fit
		{"größe", 4, "grö…"},
		{"日本", 1, "…"},
		{"x", 0, "…"},
		{"", 0, ""},
	} {
		if got := shorten.Text(c.s, c.n); got != c.want {
			t.Errorf("Text(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func TestCharacters(t *testing.T) {
	for s, want := range map[string]string{"größe": "größe", "größer": "größ…", "日本語日本語": "日本語日…", "": ""} {
		if got := shorten.Characters(s, 5); got != want {
			t.Errorf("Characters(%q, 5) = %q, want %q", s, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	if got, want := shorten.Quote("a\n"), `"a\n"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := shorten.Quote(strings.Repeat("x", 41)), `"`+strings.Repeat("x", 40)+`"…`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLine(t *testing.T) {
	if got, want := shorten.Line(" one\n\ttwo  three ", 9), "one two t…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzBytes(f *testing.F) {
	f.Add("größe", 3)
	f.Add("\xff\xff\xff\xff\xff", 4)
	f.Fuzz(func(t *testing.T, s string, n int) {
		got := shorten.Bytes(s, n)
		switch {
		case !strings.HasPrefix(s, got), len(got) > max(n, 0):
			t.Errorf("Bytes(%q, %d) = %q", s, n, got)
		case utf8.ValidString(s) && !utf8.ValidString(got):
			t.Errorf("Bytes(%q, %d) = %q, which is not UTF-8", s, n, got)
		}
	})
}
