package main

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/operation/api"
)

// roots returns the paths of the roots, as the operator lists them.
func (h *house) roots() string {
	h.t.Helper()
	var got api.RootList
	h.ok(h.operator("hub", "folder", "--json"), &got)
	var paths []string
	for _, r := range got.Roots {
		paths = append(paths, r.Path)
	}
	return strings.Join(paths, " ")
}

func TestRootNeedsAYes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := newRepository(t)
	t.Run("root add asks at a terminal", func(t *testing.T) {
		for _, answer := range []string{"n\n", "\n", "\x04", "y\n"} {
			if h.roots() != "" {
				t.Fatalf("%s is a root before a yes", h.roots())
			}
			s := sit(t, parley(t, h.env(""), "hub", "folder", "add", dir))
			s.types(t, "[y/N] ", answer)
			if code, screen := s.leaves(t); code != 0 {
				t.Errorf("answered with %q: exit %d\n%s", answer, code, screen)
			}
		}
		if h.roots() != dir {
			t.Errorf("roots: got %q, want %s", h.roots(), dir)
		}
		h.ok(h.operator("hub", "folder", "remove", dir), nil)
	})
	t.Run("a run at a terminal offers its folder, and goes on without a yes", func(t *testing.T) {
		args := append([]string{"run", "--task", "say hello", "--name", "worker", "--repo", dir, "--policy", "write", "--"}, worker(t, "idle")...)
		s := sit(t, parley(t, h.env(""), args...))
		s.types(t, "[y/N] ", "n\n")
		code, screen := s.leaves(t)
		contains(t, screen, "May the hub read the files in "+dir, "handoffs in "+dir+" are unproven", "parley hub folder add "+dir)
		if code != exitDone || h.roots() != "" {
			t.Errorf("exit %d, roots %q\n%s", code, h.roots(), screen)
		}
		s = sit(t, parley(t, h.env(""), args...))
		s.types(t, "[y/N] ", "y\n")
		if code, screen := s.leaves(t); code != exitDone || h.roots() != dir {
			t.Errorf("exit %d, roots %q\n%s", code, h.roots(), screen)
		}
		if code, screen := sit(t, parley(t, h.env(""), args...)).leaves(t); code != exitDone || strings.Contains(screen, "[y/N]") {
			t.Errorf("a folder under a root is offered: exit %d\n%s", code, screen)
		}
		h.ok(h.operator("hub", "folder", "remove", dir), nil)
	})
	t.Run("without a terminal a run says which command adds it", func(t *testing.T) {
		r := h.runAs("idle", dir)
		contains(t, r.err, "handoffs in "+dir+" are unproven until the operator runs \"parley hub folder add "+dir+"\"")
		if r.code != exitDone || h.roots() != "" {
			t.Errorf("exit %d, roots %q", r.code, h.roots())
		}
	})
	t.Run("connect in a project says so too, connect for the user does not", func(t *testing.T) {
		for scope, want := range map[string]bool{"project": true, "user": false} {
			cmd := parley(t, append(h.env(""), "HOME="+t.TempDir()), "connect", "claude", "--agent", "planner", "--force", "--scope", scope, "--as-operator")
			cmd.Dir = dir
			r := do(t, cmd)
			if r.code != exitDone || strings.Contains(r.err, "parley hub folder add "+dir) != want {
				t.Errorf("--scope %s: exit %d\n%s", scope, r.code, r.err)
			}
		}
	})
	t.Run("an agent is added with a folder after a yes", func(t *testing.T) {
		s := sit(t, parley(t, h.env(""), "agent", "add", "writer", "--root", dir))
		s.types(t, "[y/N] ", "y\n")
		if code, screen := s.leaves(t); code != exitDone || h.roots() != dir || !strings.Contains(screen, "added writer") {
			t.Errorf("exit %d, roots %q\n%s", code, h.roots(), screen)
		}
	})
}
