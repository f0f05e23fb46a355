package server_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/server"
)

// A hub ends the processes of a check that a killed one ran before it removes their worktree: none
// sees a worktree without files.
func TestKilledCheckAtStart(t *testing.T) {
	r := newLandingRepo(t)
	o := server.Options{Home: t.TempDir(), Roots: []string{filepath.Dir(r.dir)}}
	copies := must(clone.Open(filepath.Join(o.Home, "repositories")))(t)
	c := must(copies.Of(t.Context(), r.dir))(t)
	head := must(c.Fetch(t.Context(), "main"))(t)
	run := filepath.Join(o.Home, "workshop", "runs", "0")
	tree := filepath.Join(run, "work", "tree")
	if err := os.MkdirAll(filepath.Dir(tree), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Checkout(t.Context(), head.ID, tree); err != nil {
		t.Fatal(err)
	}

	// The process of the check writes to a file when its worktree is gone.
	mark := "PARLEY_TEST_MARK=" + filepath.Base(o.Home) + head.ID
	raw := must(json.Marshal(map[string]any{"copy": c.Folder(), "mark": mark}))(t)
	if err := os.WriteFile(filepath.Join(run, "run.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	seen := filepath.Join(t.TempDir(), "seen")
	cmd := exec.Command("sh", "-c", `while [ -e "$1/mod/base" ]; do :; done; echo gone >"$2"`, "check", tree, seen)
	cmd.Env = append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	start(t, o)
	if err := <-ended; err == nil {
		t.Error("the process of the check ended by itself")
	}
	if _, err := os.Stat(seen); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the process of the check saw that its worktree was gone: %v", err)
	}
	if _, err := os.Stat(run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the run is still there: %v", err)
	}
}
