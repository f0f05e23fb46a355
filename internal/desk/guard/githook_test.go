package guard_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/guard"
)

// A repository is a real repository of git with one commit.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(dir, "..", "gitconfig"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, name := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+name+"_NAME", "t")
		t.Setenv("GIT_"+name+"_EMAIL", "t@example.com")
	}
	r := repository{t, dir}
	r.git("init", "-q", "-b", "main")
	r.write("a.txt", "a\n")
	r.git("add", "a.txt")
	r.git("commit", "-q", "-m", "first")
	return r
}

// try runs git and returns its output.
func (r repository) try(args ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (r repository) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// write writes a file with a mode that makes a script executable.
func (r repository) write(name, text string) {
	r.t.Helper()
	mode := os.FileMode(0o644)
	if strings.HasSuffix(name, "pre-commit") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
}

// read returns a file; "" if there is none.
func (r repository) read(name string) string {
	r.t.Helper()
	raw, err := os.ReadFile(r.path(name))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(raw)
}

// program makes a stand-in for parley that tells its arguments and ends with a code.
func (r repository) program(code int) []string {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "it's parley")
	script := fmt.Sprintf("#!/bin/sh\necho \"asked: $*\" >&2\nexit %d\n", code)
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return []string{file, "--home", "/the home"}
}

// find returns the hook of the repository.
func (r repository) find(program []string) guard.GitHook {
	r.t.Helper()
	h, err := guard.FindHook(r.t.Context(), r.dir, program)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// install installs the guard and expects a change.
func (r repository) install(program []string) guard.GitHook {
	r.t.Helper()
	if changed, err := r.find(program).Install(); err != nil || !changed {
		r.t.Fatalf("install: changed %v, %v", changed, err)
	}
	h := r.find(program)
	if h.State != guard.HookInstalled {
		r.t.Fatalf("after install: %+v", h)
	}
	return h
}

// commit makes a change and commits it. It reports whether git did, with the output.
func (r repository) commit() (string, bool) {
	r.t.Helper()
	r.write("a.txt", r.read("a.txt")+"more\n")
	out, err := r.try("commit", "-q", "-a", "-m", "next")
	return out, err == nil
}

// TestHookOfARepository has the block added to hooks of every form and taken out again, with git
// itself.
func TestHookOfARepository(t *testing.T) {
	const plain = "#!/bin/sh\n# mine\necho mine >&2\n"
	for _, test := range []struct {
		name string
		file string // of the hook that exists, or that is made
		text string // "" if there is none
		set  func(r repository)
	}{
		{"no hook", ".git/hooks/pre-commit", "", nil},
		{"a shell script", ".git/hooks/pre-commit", plain, nil},
		{"a script for bash by env", ".git/hooks/pre-commit", "#!/usr/bin/env bash\nset -euo pipefail\necho mine >&2", nil},
		{"a script without a first line", ".git/hooks/pre-commit", "echo mine >&2\n", nil},
		{"a first line without a newline", ".git/hooks/pre-commit", "#!/bin/sh", nil},
		{"an empty file", ".git/hooks/pre-commit", "", func(r repository) { r.write(".git/hooks/pre-commit", "") }},
		{"a script that exits early", ".git/hooks/pre-commit", "#!/bin/sh -e\necho mine >&2\nexit 0\n", nil},
		{"the folder of husky", ".husky/_/pre-commit", "#!/usr/bin/env sh\n. \"$(dirname \"$0\")/h\"", func(r repository) {
			r.write(".husky/_/h", "#!/usr/bin/env sh\nsh -e .husky/pre-commit\n")
			r.write(".husky/pre-commit", "echo mine >&2\n")
			r.git("config", "core.hooksPath", ".husky/_")
		}},
		{"a folder of the repository", "hooks/pre-commit", plain, func(r repository) { r.git("config", "core.hooksPath", "hooks") }},
		{"a folder that is not there yet", "new/hooks/pre-commit", "", func(r repository) { r.git("config", "core.hooksPath", "new/hooks") }},
		{"a link", "scripts/pre-commit", plain, func(r repository) {
			if err := os.Symlink("../../scripts/pre-commit", r.path(".git/hooks/pre-commit")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRepository(t)
			if test.text != "" {
				r.write(test.file, test.text)
			}
			if test.set != nil {
				test.set(r)
			}
			program := r.program(1)
			if h := r.find(program); h.State != guard.HookAbsent || h.Shared {
				t.Fatalf("before: %+v", h)
			}

			// A refusal ends the commit, once for every way to make one.
			r.install(program)
			first := r.read(test.file)
			if out, ok := r.commit(); ok || !strings.Contains(out, "asked: --home /the home guard commit") {
				t.Errorf("the guard refuses, and git commits: %s", out)
			}
			if changed, err := r.find(program).Install(); err != nil || changed || r.read(test.file) != first {
				t.Errorf("the second time: changed %v, %v", changed, err)
			}

			// Another program replaces the block. Any other exit code than 1 lets the commit pass,
			// and so does a program that is gone.
			for _, code := range []int{0, 2, 127} {
				r.install(r.program(code))
				out, ok := r.commit()
				if !ok || strings.Count(out, "asked:") != 1 {
					t.Errorf("exit code %d: %s", code, out)
				}
				if strings.Contains(test.text, "mine") && !strings.Contains(out, "mine") {
					t.Errorf("the hook of the user did not run: %s", out)
				}
			}
			r.install([]string{r.path("gone"), "--home", "/x"})
			if out, ok := r.commit(); !ok || strings.Contains(out, "gone") {
				t.Errorf("without the program: %s", out)
			}

			// Removing leaves every other byte.
			if changed, err := r.find(program).Remove(); err != nil || !changed {
				t.Errorf("remove: changed %v, %v", changed, err)
			}
			if got := r.read(test.file); got != test.text {
				t.Errorf("after remove: got %q, want %q", got, test.text)
			}
			if _, err := os.Lstat(r.path(test.file)); (err == nil) != (test.text != "" || test.name == "an empty file") {
				t.Errorf("after remove: %v", err)
			}
			if changed, err := r.find(program).Remove(); err != nil || changed {
				t.Errorf("remove again: changed %v, %v", changed, err)
			}
		})
	}
}

// TestHookThatCannotTakeABlock has hooks that are refused and keep every byte.
func TestHookThatCannotTakeABlock(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"Python":         {"#!/usr/bin/env python3\nprint('mine')\n", 0o755, "not a shell script"},
		"node":           {"#!/usr/bin/env -S node --no-warnings\n", 0o755, "guard commit"},
		"a binary":       {"\x7fELF\x02\x01\x01\x00\x00", 0o755, "not a shell script"},
		"not executable": {"#!/bin/sh\n", 0o644, "not executable"},
		"half a block":   {"#!/bin/sh\n# >>> parley guard >>>\necho\n", 0o755, "without the other"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			r.write(".git/hooks/pre-commit", test.text)
			if err := os.Chmod(r.path(".git/hooks/pre-commit"), test.mode); err != nil {
				t.Fatal(err)
			}
			h := r.find(r.program(1))
			changed, err := h.Install()
			if h.State != guard.HookBlocked || changed || hub.CodeOf(err) != hub.CodeConflict || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %+v, changed %v, %v", h, changed, err)
			}
			if changed, err := h.Remove(); changed || err != nil {
				t.Errorf("remove: changed %v, %v", changed, err)
			}
			if got := r.read(".git/hooks/pre-commit"); got != test.text {
				t.Errorf("the hook is now %q", got)
			}
		})
	}
	t.Run("no folder for hooks", func(t *testing.T) {
		r := newRepository(t)
		r.git("config", "core.hooksPath", os.DevNull)
		h := r.find(r.program(1))
		if _, err := h.Install(); h.State != guard.HookBlocked || hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("got %+v, %v", h, err)
		}
	})
	t.Run("no repository", func(t *testing.T) {
		if _, err := guard.FindHook(t.Context(), t.TempDir(), []string{"/parley"}); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("got %v", err)
		}
	})
}

// TestHookOfLinkedWorktrees has one hook for a repository and its linked working tree.
func TestHookOfLinkedWorktrees(t *testing.T) {
	r := newRepository(t)
	r.git("worktree", "add", "-q", r.path("../linked"))
	linked := repository{t, r.path("../linked")}
	program := r.program(1)
	linked.install(program)
	if h := r.find(program); h.State != guard.HookInstalled || h.Shared {
		t.Errorf("got %+v", h)
	}
	if main := guard.MainTree(linked.dir); main != r.dir || guard.MainTree(r.dir) != r.dir {
		t.Errorf("got %s, want %s", main, r.dir)
	}
	if out, ok := linked.commit(); ok {
		t.Errorf("the guard refuses, and git commits: %s", out)
	}
	if changed, err := r.find(program).Remove(); err != nil || !changed {
		t.Errorf("remove: changed %v, %v", changed, err)
	}
	if out, ok := linked.commit(); !ok {
		t.Errorf("after remove: %s", out)
	}
}

// TestHookForAllRepositories has a hooks folder of the user's own configuration.
func TestHookForAllRepositories(t *testing.T) {
	r := newRepository(t)
	r.git("config", "--global", "core.hooksPath", t.TempDir())
	if h := r.install(r.program(0)); !h.Shared {
		t.Errorf("got %+v, want a folder that others share", h)
	}
	t.Run("and one under version control", func(t *testing.T) {
		r := newRepository(t)
		r.git("config", "core.hooksPath", "hooks")
		r.write("hooks/pre-commit", "#!/bin/sh\n")
		r.git("add", "hooks")
		if h := r.install(r.program(0)); !h.Tracked || h.Shared {
			t.Errorf("got %+v, want a file that git knows", h)
		}
	})
}

// TestCommits has the files of commits as git's hook sees them.
func TestCommits(t *testing.T) {
	r := newRepository(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.write(".git/hooks/pre-commit", fmt.Sprintf("#!/bin/sh\n%s=1 exec %q\n", asHook, self))
	files := func(want string, args ...string) {
		t.Helper()
		out, err := r.try(args...)
		if err != nil || out != "files: "+want+"\n" {
			t.Errorf("git %s: %v\ngot  %s\nwant files: %s", strings.Join(args, " "), err, out, want)
		}
	}
	r.write("b with space.txt", "b\n")
	r.write("sub/c.txt", "c\n")
	r.git("add", "-A")
	files("b with space.txt,sub/c.txt", "commit", "-q", "-m", "two")

	// A commit of named files has an index of its own.
	r.write("a.txt", "2\n")
	r.write("sub/c.txt", "2\n")
	r.git("add", "sub/c.txt")
	files("a.txt", "commit", "-q", "-m", "one", "a.txt")
	files("sub/c.txt", "commit", "-q", "-m", "rest")
	r.git("rm", "-q", "b with space.txt")
	r.git("mv", "sub/c.txt", "sub/d.txt")
	files("b with space.txt,sub/c.txt,sub/d.txt", "commit", "-q", "-m", "moved")

	// A merge carries files of both sides; those that it changes differ from both.
	r.git("checkout", "-q", "-b", "side")
	r.write("side.txt", "s\n")
	r.write("a.txt", "side\n")
	r.git("add", "-A")
	files("a.txt,side.txt", "commit", "-q", "-m", "side")
	r.git("checkout", "-q", "main")
	r.write("a.txt", "main\n")
	files("a.txt", "commit", "-q", "-a", "-m", "main")
	if _, err := r.try("merge", "-q", "side"); err == nil {
		t.Fatal("the merge has no conflict")
	}
	r.write("a.txt", "both\n")
	r.git("add", "a.txt")
	files("a.txt", "commit", "-q", "-m", "merged")

	// Neither a stash nor a commit without changes runs into the guard.
	r.write("a.txt", "stashed\n")
	if out := r.git("stash"); strings.Contains(out, "files:") {
		t.Errorf("stash: %s", out)
	}
	files("", "commit", "-q", "--allow-empty", "-m", "nothing")

	// A linked working tree has an index of its own.
	r.git("worktree", "add", "-q", "-b", "linked", r.path("../linked"))
	main := r
	r = repository{t, r.path("../linked")}
	r.write("a.txt", "linked\n")
	files("a.txt", "commit", "-q", "-a", "-m", "linked")
	r = main
	r.git("checkout", "-q", "--orphan", "new")
	files("a.txt,side.txt,sub/d.txt", "commit", "-q", "-m", "the first of a branch")
}

// asHook in the environment makes the test binary tell the files of a commit.
const asHook = "GUARD_TEST_AS_HOOK"

func TestMain(m *testing.M) {
	if os.Getenv(asHook) == "" {
		os.Exit(m.Run())
	}
	dir, err := os.Getwd()
	if err == nil {
		var c guard.Commit
		c, err = guard.ReadCommit(context.Background(), dir)
		fmt.Println("files: " + strings.Join(c.Files, ","))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestRecord has a home know the repositories whose hook calls the guard.
func TestRecord(t *testing.T) {
	home := t.TempDir()
	other := newRepository(t)
	installed := other.install(other.program(0))
	if err := guard.Note(home, installed, true); err != nil {
		t.Error(err)
	}
	if got := guard.Installed(home); len(got) != 1 || !bytes.HasPrefix([]byte(got[0]), []byte(other.dir)) {
		t.Errorf("got %v", got)
	}
}
