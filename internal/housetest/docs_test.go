package housetest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/shape"
)

var links = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)

// pages returns every Markdown page of the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		raw, err := os.ReadFile(name)
		found[filepath.ToSlash(name)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDocs(t *testing.T) {
	all := pages(t)
	linked := map[string]bool{}
	t.Run("every link between pages leads somewhere", func(t *testing.T) {
		for name, text := range all {
			for _, m := range links.FindAllStringSubmatch(text, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				target := filepath.Join(filepath.Dir(name), m[1])
				linked[filepath.ToSlash(target)] = true
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: the link to %s leads nowhere", name, m[1])
				}
			}
		}
	})
	t.Run("R3-052 the package in docs/handoffs.md has the hash that it shows", func(t *testing.T) {
		_, text, _ := strings.Cut(all["docs/handoffs.md"], "```json\n")
		text, _, ok := strings.Cut(text, "```")
		p, err := shape.DecodePackage([]byte(text))
		if !ok || err != nil {
			t.Fatalf("there is no package: %v", err)
		}
		if got, err := shape.PackageHash([]byte(text)); err != nil || got != p.Verification.Hash {
			t.Errorf("got %s (%v), want %s", got, err, p.Verification.Hash)
		}
	})
	for page, words := range map[string][]string{
		"docs/spikes/session-injection.md": {"feasible", "parley agent test", "fallbacks/inbox-only.md"},
		"docs/spikes/wake.md":              {"feasible", "wake", "fallbacks/no-wake.md"},
		"docs/spikes/workq.md":             {"feasible", "workq", "fallbacks/manual-ownership.md"},
	} {
		t.Run("R3-125 the spike "+page+" reports what is feasible, its limits and its fallback", func(t *testing.T) {
			if !linked[page] {
				t.Error("no page links to it")
			}
			for _, w := range words {
				if !strings.Contains(all[page], w) {
					t.Errorf("it does not speak of %s", w)
				}
			}
		})
	}
	for page, words := range map[string][]string{
		"docs/fallbacks/inbox-only.md":       {"session", "unverified", "inbox"},
		"docs/fallbacks/no-wake.md":          {"wake", "unverified", "inbox"},
		"docs/fallbacks/manual-ownership.md": {"workq", "manual_required", "parley handoff workq"},
	} {
		t.Run("R3-126 the fallback "+page+" is written down and linked", func(t *testing.T) {
			if !linked[page] {
				t.Error("no page links to it")
			}
			for _, w := range words {
				if !strings.Contains(all[page], w) {
					t.Errorf("it does not speak of %s", w)
				}
			}
		})
	}
}

// TestFirstLines counts what a new user types from the installer to a proven task: the lines of the
// README under Install, and the block under Two agents. Its questions would be lines, too, and would
// swallow the next line of a block that is pasted.
func TestFirstLines(t *testing.T) {
	readme := pages(t)["README.md"]
	typed := 0
	for _, title := range []string{"## Install\n", "## Two agents\n"} {
		_, section, found := strings.Cut(readme, title)
		if !found {
			t.Fatalf("the README has no section %q", title)
		}
		_, section, _ = strings.Cut(section, "\n```\n")
		block, _, _ := strings.Cut(section, "\n```\n")
		for line := range strings.Lines(block) {
			if strings.HasPrefix(line, "$ ") {
				typed++
			}
			if strings.Contains(line, "parley hub folder add") && !strings.Contains(line, "--yes") {
				t.Errorf("%q asks a question", line)
			}
		}
	}
	if typed < 5 || typed > 12 {
		t.Errorf("a new user types %d lines, want at most 12", typed)
	}
}
