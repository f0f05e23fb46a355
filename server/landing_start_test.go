package server_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/server"
)

// A hub finishes at its start the move of a branch that a killed one had recorded.
func TestKilledLandingAtStart(t *testing.T) {
	r := newLandingRepo(t)
	r.branch("work", "mod/login", "ok\n")
	o := server.Options{Home: t.TempDir(), Roots: []string{filepath.Dir(r.dir)}}
	folder := filepath.Join(o.Home, "repositories")
	copies := must(clone.Open(folder))(t)
	c := must(copies.Of(t.Context(), r.dir))(t)
	main := must(c.Fetch(t.Context(), "main"))(t)
	work := must(c.Fetch(t.Context(), "work"))(t)
	merged := must(c.Merge(t.Context(), main, work, "Merge work into main\n"))(t).Commit

	// The record is written before anything else of the move.
	const id = "killed"
	record := map[string]any{
		"id": id, "copy": c.Folder(), "common": c.Repository(), "branch": "main", "old": main.ID, "new": merged.ID,
		"trees": []map[string]string{{"folder": r.dir, "git_dir": c.Repository()}},
	}
	raw := must(json.Marshal(record))(t)
	path := filepath.Join(folder, "steps", id+".json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}

	start(t, o)
	if got := r.git("rev-parse", "main"); got != merged.ID {
		t.Errorf("main is at %s after the start, want %s", got, merged.ID)
	}
	if text, err := os.ReadFile(filepath.Join(r.dir, "mod", "login")); err != nil || string(text) != "ok\n" {
		t.Errorf("the file of the change in the checked-out main: %q, %v", text, err)
	}
	if got := r.git("status", "--porcelain"); got != "" {
		t.Errorf("the working tree is not clean: %s", got)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the record is still there: %v", err)
	}
}
