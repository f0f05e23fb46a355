package effects_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/pattern"

	"github.com/parley-agents/parley/internal/ground/effects"
)

// reference compares a file with a pattern by an expression, and for a deep target each parent, too.
func reference(t effects.Target, file string) bool {
	mode := pattern.EntireString
	if t.Glob {
		mode |= pattern.Filenames
	}
	text, err := pattern.Regexp(t.Path, mode)
	if err != nil {
		return false
	}
	expr, err := regexp.Compile(text)
	if err != nil {
		return false
	}
	for name := file; ; name = path.Dir(name) {
		if expr.MatchString(name) {
			return true
		}
		if !t.Deep || name == path.Dir(name) {
			return false
		}
	}
}

// TestMatchesAsExpressions compares random patterns with random files, and the answers with those of
// an expression for each.
func TestMatchesAsExpressions(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	text := func(most int, of ...string) string {
		var b strings.Builder
		for range random.IntN(most) {
			b.WriteString(of[random.IntN(len(of))])
		}
		return b.String()
	}
	matched := 0
	for range 15_000 {
		spec := text(9, "a", "b", "ab", "/", "/", "*", "*", "**", "?", "[ab]", "[!a]", "[a-c]", "[[:alpha:]]", `\*`, "[", ".", "é", "\n", "[z-a]")
		target := effects.Pathspec(spec)
		switch random.IntN(6) {
		case 0:
			target = effects.Pathspec(":/" + spec)
		case 1:
			target = effects.Target{Path: "/" + spec, Glob: true}
		case 2:
			target = effects.Target{Path: "/" + spec, Glob: true, Deep: true}
		case 3:
			target = effects.Target{Path: "/" + spec, Spec: true}
		}
		if !target.Glob && !target.Spec {
			continue
		}
		m := effects.Compile(target)
		for range 8 {
			file := path.Clean("/" + text(9, "a", "b", "ab", "c", "/", "/", ".", "*", "é", "\n", "\xff", "["))
			want := reference(target, file)
			if got := m.Matches(file); got != want {
				t.Fatalf("%+q (glob %v, deep %v) and %+q: %v, want %v", target.Path, target.Glob, target.Deep, file, got, want)
			}
			if want {
				matched++
			}
		}
	}
	if matched < 2_500 {
		t.Errorf("only %d files matched", matched)
	}
}

// TestMatchesOfPaths compares files with targets that are no patterns.
func TestMatchesOfPaths(t *testing.T) {
	m := effects.Compile(effects.Target{Path: "/a/b"}, effects.Target{Path: "/c", Deep: true})
	for file, want := range map[string]bool{"/a/b": true, "/a/b/c": false, "/a": false, "/c": true, "/c/d/e": true, "/cd": false, "/": false} {
		if got := m.Matches(file); got != want {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
	if everything := effects.Compile(effects.Pathspec(".")); !everything.Matches("/any/file") {
		t.Error("the top does not match a file in it")
	}
}

// TestStepsOfPatterns compares patterns that were made to take long. The steps are at most the product
// of the lengths.
func TestStepsOfPatterns(t *testing.T) {
	file := "/" + strings.Repeat("a/b", 1_300)
	for _, spec := range []string{
		strings.Repeat("*a/b", 16), strings.Repeat("*a*b*c", 5), "*" + strings.Repeat("?", 500) + "c", "*" + strings.Repeat("a/b", 160) + "c",
		strings.Repeat("**/*a*b*c/", 4) + "7",
	} {
		steps := 0
		effects.Compile(effects.Pathspec(spec)).Count(file, &steps)
		if most := 2 * len(file) * (len(spec) + 1); steps > most {
			t.Errorf("%.40s: %d steps, at most %d", spec, steps, most)
		}
	}
}

// TestGlobsOfACommand reads a command with more patterns than are compared, and a pattern with more
// stars.
func TestGlobsOfACommand(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "rm d%d/*.o\n", i)
	}
	e := effects.Read(b.String()+"rm last.go", tree)
	if n := len(e.Writes); n != 65 {
		t.Errorf("%d files and patterns, want 64 patterns and a file", n)
	}
	if e := effects.Read("rm "+strings.Repeat("*a", 17), tree); len(e.Writes) != 0 {
		t.Errorf("a pattern of 17 stars: %v", e.Writes)
	}
}
