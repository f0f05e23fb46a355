package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// unreadableID is the form of the ids that people need not read.
var unreadableID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-`)

// closedTask is a hub on which builder owned the task h1 in a terminal whose window was closed. Two
// of its files are not committed.
func closedTask(t *testing.T) (h *house, dir string) {
	t.Helper()
	h = newHouse(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	inGit(t, dir, "init", "-q")
	inGit(t, dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first")
	h.ok(h.operator("hub", "folder", "add", dir), nil)
	s := newSession(h, "builder", "s1")
	h.ok(h.as("planner", "handoff", "new", "--to", "builder", "--task", "T-1", "--title", "write the parser", "--objective", "a parser", "--summary", "begin", "--next", "write parser.go", "--criterion", "tests pass", "--worktree", dir), nil)
	h.ok(h.as("builder", "handoff", "accept", "h1"), nil)
	for _, name := range []string{"parser.go", "parser_test.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package parser\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.hook("SessionEnd")
	h.patient("the task waits", func() bool { return len(h.continued()) == 1 })
	return h, dir
}

// continued returns the continuations.
func (h *house) continued() []hub.Continuation {
	h.t.Helper()
	var got struct{ Continuations []hub.Continuation }
	h.ok(h.operator("continue", "--json"), &got)
	return got.Continuations
}

// TestContinue has a person continue the task of a closed window with another agent by one command,
// and use what the hub kept.
func TestContinue(t *testing.T) {
	h, dir := closedTask(t)
	listed := h.operator("continue").out
	contains(t, listed, "k1", "h1", "write the parser", "builder", "closed", "waiting", "s1 (2 files, +2 -0)", "k1: it waits for a person")
	told := h.as("planner", "inbox").out
	contains(t, told, "builder was closed", "parley continue h1 --with")

	r := h.operator("continue", "h1", "--with", "tester")
	h.ok(r, nil)
	contains(t, r.out, `h2 is offered to tester: "write the parser" of builder`, "uncommitted work is kept as s1: 2 files, +2 -0")
	for _, text := range []string{listed, r.out, h.operator("spend", "--by", "handoff").out} {
		if unreadableID.MatchString(text) {
			t.Errorf("a long id is shown in %s", text)
		}
	}
	s := newSession(h, "tester", "s2")
	contains(t, s.hook("UserPromptSubmit")+h.as("tester", "inbox").out, "h2")
	h.ok(h.as("tester", "handoff", "accept", "h2"), nil)
	if got := h.continued(); len(got) != 1 || got[0].State != hub.ContinuationTaken || got[0].To != "tester" {
		t.Errorf("got %+v", got)
	}

	t.Run("the rescue is the work, byte for byte, and changed nothing of the user", func(t *testing.T) {
		contains(t, h.operator("files", "kept", "--tree", dir).out, "s1", "continuation", "builder", "+2 -0", dir)
		contains(t, h.operator("show", "s1").out, "+package parser", "parser_test.go")
		if refs := inGit(t, dir, "for-each-ref", "--format=%(refname)"); strings.Contains(refs, "parley") || strings.Contains(refs, "rescue") {
			t.Errorf("the user's refs are now %s", refs)
		}
		if status := inGit(t, dir, "status", "--porcelain"); status != "?? parser.go\n?? parser_test.go" {
			t.Errorf("the user's tree is now %q", status)
		}
		other := filepath.Join(t.TempDir(), "other")
		inGit(t, dir, "worktree", "add", "-q", other)
		h.ok(h.operator("hub", "folder", "add", other), nil)
		h.ok(h.operator("files", "back", "s1", "--into", other), nil)
		for _, name := range []string{"parser.go", "parser_test.go"} {
			if text, err := os.ReadFile(filepath.Join(other, name)); err != nil || string(text) != "package parser\n" {
				t.Errorf("%s: got %q, %v", name, text, err)
			}
		}
		h.ok(h.operator("files", "drop", "s1"), nil)
		contains(t, h.operator("files", "kept", "--all").out, "no work is kept")
	})
	t.Run("audit verify compares continuations", func(t *testing.T) {
		contains(t, h.operator("hub", "verify").out, "1 continuations", "ok")
	})
	t.Run("mistakes are refused in words", func(t *testing.T) {
		for _, args := range [][]string{{"continue", "h1"}, {"continue", "h1", "--with", "tester"}, {"continue", "h9", "--with", "tester"}, {"continue", "T-9", "--with", "tester"}, {"show", "s9"}, {"continue", "T-1", "--with", "claude", "--terminal"}} {
			if r := h.operator(args...); r.code == 0 || r.err == "" {
				t.Errorf("%v: exit %d, %s", args, r.code, r.err)
			}
		}
	})
}
