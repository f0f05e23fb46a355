//go:build unix

package evidence_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

// standIns are what the test binary does when it is started under one of these
// names in place of git.
var standIns = map[string]func(){
	"git-floods": func() {
		for line := []byte("0123456789\n"); ; {
			if _, err := os.Stdout.Write(line); err != nil {
				return
			}
		}
	},
	"git-hangs": func() {
		child := exec.Command(sibling("git-hangs-too"))
		child.Stdout = os.Stdout
		if child.Start() == nil {
			hang()
		}
	},
	"git-hangs-too": hang,
}

// hang says that it is alive, and then waits for what never comes.
func hang() {
	alive, err := os.OpenFile(sibling("alive"), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	alive.WriteString("x")
	os.Open(sibling("never"))
	alive.Close()
}

// sibling returns the path of another file in the folder of the stand-in.
func sibling(name string) string { return filepath.Join(filepath.Dir(os.Args[0]), name) }

// standIn returns the path under which the test binary is the named stand-in.
func standIn(t *testing.T, dir, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return link(t, self, filepath.Join(dir, name))
}

func TestGitIsBounded(t *testing.T) {
	root := folder(t)
	repo := filepath.Join(root, "repo")
	first := newRepository(t, repo)
	claim := evidence.RepositoryClaim{Path: repo, Commit: first}

	t.Run("a git that never stops talking is stopped", func(t *testing.T) {
		in := inspector(t, &evidence.Options{Git: standIn(t, folder(t), "git-floods")}, root)
		expect(t, of(t, in.Check(t.Context(), claim), evidence.WhatCommit), an{hub.CheckUnverifiable, hub.CodeTooLarge, "larger than"})
	})
	t.Run("a git that hangs is killed with all it started", func(t *testing.T) {
		dir := folder(t)
		for _, pipe := range []string{"alive", "never"} {
			if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		standIn(t, dir, "git-hangs-too")
		in := inspector(t, &evidence.Options{Git: standIn(t, dir, "git-hangs")}, root)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan []evidence.Check)
		go func() { done <- in.Check(ctx, claim) }()
		alive, err := os.Open(filepath.Join(dir, "alive"))
		if err != nil {
			t.Fatal(err)
		}
		defer alive.Close()
		if _, err := io.ReadFull(alive, make([]byte, 2)); err != nil {
			t.Fatalf("git and what it started did not come up: %v", err)
		}
		cancel()
		expect(t, of(t, <-done, evidence.WhatCommit), an{hub.CheckUnverifiable, hub.CodeDegraded, "cancelled"})
		if _, err := io.ReadAll(alive); err != nil { // ends when nobody is left to write
			t.Error(err)
		}
	})
}
