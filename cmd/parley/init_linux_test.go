package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// initHouse is a repository with a test, which passes while the file good is there, and a home
// in which no hub ran yet.
func initHouse(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	inGit(t, dir, "init", "-q", "-b", "main")
	commitFile(t, dir, "Makefile", "test:\n\ttest -f good\n")
	commitFile(t, dir, "good", "")
	home := filepath.Join(t.TempDir(), "home")
	env = []string{"PARLEY_HOME=" + home}
	t.Cleanup(func() {
		do(t, parley(t, env, "stop", "--as-operator"))
	})
	return dir, env
}

// commitFile commits a file.
func commitFile(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	inGit(t, dir, "add", name)
	inGit(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", name)
}

// inRepository runs a command in a folder.
func inRepository(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	cmd := parley(t, env, args...)
	cmd.Dir = dir
	return do(t, cmd)
}

// From a repository with tests to a branch that landed, with four commands of a person.
func TestInitOnTerminal(t *testing.T) {
	t.Parallel()
	dir, env := initHouse(t)
	cmd := parley(t, env, "init")
	cmd.Dir = dir
	s := sit(t, cmd)
	s.types(t, "Set it up? [Y/n/e] ", "\n")
	code, screen := s.leaves(t)
	contains(t, screen, dir+", branch main", "make test   (Makefile)   required", "into main when test passes and you approve", "running make test on main", "Done. Next: parley ")
	if code != exitDone {
		t.Fatalf("exit %d\n%s", code, screen)
	}
	if got := inGit(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("the working tree changed: %s", got)
	}

	inGit(t, dir, "checkout", "-qb", "feature")
	commitFile(t, dir, "more", "1")
	inGit(t, dir, "checkout", "-q", "main")
	if r := inRepository(t, dir, env, "land", "feature", "--as-operator"); r.code != exitDone {
		t.Fatalf("land: exit %d\n%s%s", r.code, r.out, r.err)
	}
	poll(t, "the branch to land", func() bool {
		return strings.Contains(inGit(t, dir, "ls-tree", "--name-only", "main"), "more")
	})
}

func TestInitEdited(t *testing.T) {
	t.Parallel()
	dir, env := initHouse(t)
	cmd := parley(t, env, "init")
	cmd.Dir = dir
	s := sit(t, cmd)
	s.types(t, "Set it up? [Y/n/e] ", "e\n")
	s.types(t, "check [as above]: ", "test -f missing\n")
	s.types(t, "landing, into the branch [main]: ", "\n")
	s.types(t, "guard of agents' commits [on]: ", "-\n")
	s.types(t, "(given)", "y\n")
	code, screen := s.leaves(t)
	contains(t, screen, "off: not wanted", "landing is off: test failed on ")
	if code != exitDone {
		t.Errorf("exit %d\n%s", code, screen)
	}
	if _, err := os.Stat(filepath.Join(dir, ".git/hooks/pre-commit")); err == nil {
		t.Error("the hook was installed against the wish")
	}
	r := inRepository(t, dir, env, "land", "main", "--as-operator")
	if r.code == exitDone {
		t.Errorf("work lands in a branch whose check is red: %s", r.out)
	}
}

func TestInitByScripts(t *testing.T) {
	t.Parallel()
	dir, env := initHouse(t)
	home := strings.TrimPrefix(env[0], "PARLEY_HOME=")
	for _, tt := range []struct {
		name string
		args []string
		env  []string
		code int
	}{
		{"the plan alone", []string{"init", "--print"}, nil, exitDone},
		{"no terminal", []string{"init"}, nil, exitCheck},
		{"no terminal and --yes", []string{"init", "--yes"}, nil, exitCheck},
		{"the operator without a yes", []string{"init", "--as-operator"}, nil, exitCheck},
		{"an agent", []string{"init", "--yes"}, []string{"PARLEY_KEY=parley_agent_x"}, exitCheck},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := inRepository(t, dir, append(tt.env, env...), tt.args...)
			if r.code != tt.code {
				t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
			}
			contains(t, r.out, "into main when test passes")
			if tt.code != exitDone {
				contains(t, r.out, "parley init --yes --as-operator")
			}
			if _, err := os.Stat(home); err == nil {
				t.Error("a home was made")
			}
		})
	}
	t.Run("outside of a repository", func(t *testing.T) {
		if r := inRepository(t, t.TempDir(), env, "init"); r.code != exitMissing || !strings.Contains(r.err, "git init") {
			t.Errorf("exit %d\n%s", r.code, r.err)
		}
	})

	// A linked working tree sets up its repository, and a red test keeps landing off.
	inGit(t, dir, "rm", "-q", "good")
	inGit(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "red")
	linked := filepath.Join(t.TempDir(), "linked")
	inGit(t, dir, "worktree", "add", "-q", linked)
	yes := []string{"init", "--yes", "--as-operator"}
	r := inRepository(t, linked, env, yes...)
	contains(t, r.out, "landing is off: test failed on ")
	if r := inRepository(t, dir, env, "land", "policy", "show", "--as-operator"); r.code == exitDone {
		t.Errorf("there is a landing policy: %s", r.out)
	}

	// When the test passes again, landing is all that a second call adds; a third one adds nothing.
	commitFile(t, dir, "good", "")
	r = inRepository(t, dir, env, yes...)
	contains(t, r.err, "make test   (as it was)", "commits of agents are checked; yours never   (as it was)", "running make test on main")
	r = inRepository(t, dir, env, yes...)
	contains(t, r.out, "into main   (as it was)")

	// Undo takes back what init added, once.
	undo := []string{"init", "--undo", "--yes", "--as-operator"}
	r = inRepository(t, dir, env, undo...)
	contains(t, r.out, "removed: landing into main", "removed: check test", "removed: guard of commits", "removed: folder "+dir)
	if r := inRepository(t, dir, env, undo...); r.code != exitMissing {
		t.Errorf("a second undo: exit %d\n%s%s", r.code, r.out, r.err)
	}
	if list := inRepository(t, dir, env, "hub", "folder", "list", "--as-operator"); strings.Contains(list.out, dir) {
		t.Errorf("the folder is a root still: %s", list.out)
	}
	if _, err := os.Stat(filepath.Join(dir, ".git/hooks/pre-commit")); err == nil {
		t.Error("the hook is there still")
	}
}

// Undo leaves alone what a person set up before init.
func TestInitUndoKeepsOlderThings(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir, _ := initHouse(t)
	h.ok(h.operator("hub", "folder", "add", dir), nil)
	h.ok(inRepository(t, dir, h.env(""), "check", "add", "mine", "--as-operator", "--", "true"), nil)
	r := inRepository(t, dir, h.env(""), "init", "--yes", "--as-operator", "--no-guard")
	contains(t, r.err, "mine: true   (as it was)", "into main when mine passes")
	r = inRepository(t, dir, h.env(""), "init", "--undo", "--yes", "--as-operator")
	contains(t, r.out, "removed: landing into main")
	if strings.Contains(r.out, "mine") || strings.Contains(r.out, "folder") {
		t.Errorf("too much was removed: %s", r.out)
	}
	contains(t, inRepository(t, dir, h.env(""), "check", "list", "--as-operator").out, "mine")
	contains(t, h.operator("hub", "folder", "list").out, dir)
}

// The yes to a plan allows what parley.yaml proposes, so the plan shows all of it: what runs before a
// command, its variables, and checks in an agent's own tree, which never become a gate of landing.
func TestInitShowsProposals(t *testing.T) {
	t.Parallel()
	dir, env := initHouse(t)
	commitFile(t, dir, "parley.yaml", "checks:\n  unit: {command: [test, -f, good], setup: echo ready, env: {MODE: fast}, required: true}\n  here: {command: [make, here], in_place: true}\n")
	r := inRepository(t, dir, env, "init", "--yes", "--as-operator")
	contains(t, r.err, "your yes allows", "before it: echo ready", "with MODE=fast", "here: make here", "in the agent's own working tree", "into main when unit passes")
	if r.code != exitDone {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	policy := inRepository(t, dir, env, "land", "policy", "--as-operator")
	contains(t, policy.out, "checks unit")
}
