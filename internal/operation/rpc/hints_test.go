package rpc_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func TestHints(t *testing.T) {
	err := hub.Errorf(hub.CodeNotFound, "test", "nothing").WithHint("{query} lists your messages; {no.such} and {} stay")
	for surface, want := range map[rpc.Surface]string{
		rpc.Methods:  "acp/query lists your messages; {no.such} and {} stay",
		rpc.Commands: "parley log --whole lists your messages; {no.such} and {} stay",
		rpc.Tools:    "acp_query lists your messages; {no.such} and {} stay",
	} {
		if got := rpc.Describe(err, surface).Hint; got != want {
			t.Errorf("surface %d: got %q, want %q", surface, got, want)
		}
	}
	// A hint that names a tool or a method would be wrong on the other surfaces.
	hint := regexp.MustCompile(`WithHint\((?:"(?:[^"\\]|\\.)*")`)
	reference := regexp.MustCompile(`\{[a-z_.]+\}`)
	foreign := regexp.MustCompile(`acp_[a-z]|acp/[a-z]`)
	// Callers of tools get hints of these packages; the others answer operators, other
	// hubs and callers without a valid key, who have no tools.
	toTools := regexp.MustCompile(`/(hub|shape|mailroom|handoff|roots|contract|run)/`)
	command := regexp.MustCompile("parley [a-z]|--as-operator")
	found := 0
	for _, dir := range []string{"../../../hub", "../../service", "../../ground/shape", "../../surface", "../../operation"} {
		walk := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, h := range hint.FindAllString(string(text), -1) {
				if foreign.MatchString(h) {
					t.Errorf("%s: %s names a tool or a method; use a reference", path, h)
				}
				if toTools.MatchString(path) && command.MatchString(h) {
					t.Errorf("%s: %s names a command; use a reference", path, h)
				}
				for _, name := range reference.FindAllString(h, -1) {
					found++
					if rpc.RenderHint(name, rpc.Tools) == name {
						t.Errorf("%s: %s has the unknown reference %s", path, h, name)
					}
				}
			}
			return err
		})
		if walk != nil {
			t.Fatal(walk)
		}
	}
	if found < 10 {
		t.Errorf("got %d references, want that hints are found", found)
	}
}
