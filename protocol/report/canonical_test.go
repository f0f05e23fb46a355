package report

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// sameEitherWay checks that the short way, if a text takes it, finds what the
// long one finds, and that nothing is to be said about the text.
func sameEitherWay(t *testing.T, text string) (short bool) {
	t.Helper()
	got, short := readCanonical(text, 3)
	if !short {
		return false
	}
	want, d := readBlocks(text, 3, diagnostics{})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q: got\n%+v, want\n%+v", text, got, want)
	}
	if found := d.sorted(); len(found) > 0 {
		t.Errorf("%q: there is something to say: %+v", text, found)
	}
	return true
}

func TestCanonical(t *testing.T) {
	for text, want := range map[string]bool{
		"STATUS:ok":   true,
		"STATUS:ok\n": true,
		"STATUS:ok\nFILES_CREATED:a.go,b c.go\nFILES_MODIFIED:d\nTESTS:pass:12\nBUILD:skip\nERROR:x: é y\nLEARNED:y\n": true,
		"STATUS:no_changes\nLEARNED:ERROR:quoted": true,
		"STATUS:fail\nFILES_CREATED:a,,b":         true,
		"":                                        false,
		"status:ok":                               false,
		"STATUS: ok\nTESTS:\t pass":               true,
		"STATUS:ok\n\n":                           false,
		"STATUS:ok\r\nTESTS:pass":                 false,
		"STATUS:OK":                               false,
		"STATUS:done":                             false,
		"STATUS:ok\nTESTS:PASS":                   false,
		"STATUS:ok\nTESTS:passed":                 false,
		"STATUS:ok\nBUILD:pass:2":                 false,
		"STATUS:ok\nFILES_CREATED:none":           false,
		"STATUS:ok\nFILES_CREATED:a,":             false,
		"STATUS:ok\nFILES_CREATED:`a`":            false,
		"STATUS:ok\nBUILD:pass\nTESTS:pass":       false,
		"STATUS:ok\nERROR:x\n  y":                 false,
		"STATUS:ok\nNOTE:x":                       false,
	} {
		if got := sameEitherWay(t, text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestCanonicalAgrees puts texts together at random from what is canonical and
// what is almost so.
func TestCanonicalAgrees(t *testing.T) {
	parts := []string{
		"STATUS:", "FILES_CREATED:", "FILES_MODIFIED:", "TESTS:", "BUILD:", "ERROR:", "LEARNED:", "NOTE:", "status:",
		"ok", "fail", "no_changes", "pass", "pass:12", "skip", "a.go", "b c", "none", "n/a", "-", "[]", "(x,y)", "`", "**", "\"",
		",", ":", " ", "\t", "\r", "\x1c", "é", "\u00a0", "\u2028", "\ufeff", "|", "```", "\n", "\n", "\n", "\nTESTS:", "\nERROR:", "\nLEARNED:",
	}
	r := rand.New(rand.NewPCG(1, 2))
	short := 0
	for range 50_000 {
		var b strings.Builder
		b.WriteString("STATUS:ok")
		for range r.IntN(8) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		if sameEitherWay(t, b.String()) {
			short++
		}
	}
	if short < 1000 {
		t.Errorf("only %d texts took the short way", short)
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add("ok\nFILES_CREATED:a.go,b.go\nTESTS:pass:12\nBUILD:pass\nLEARNED:x y")
	f.Add("partial\nFILES_MODIFIED:-x\nTESTS:skip\nERROR:a:b\n")
	f.Fuzz(func(t *testing.T, rest string) { sameEitherWay(t, "STATUS:"+rest) })
}
