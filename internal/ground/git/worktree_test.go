package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/git"
)

// A repository is a real one whose configuration names programs. Each leaves a mark when it
// is run.
type repository struct {
	*testing.T
	dir   string
	marks string
	user  string // the user's configuration
}

// hostile makes a repository with one commit and a user's configuration. Every program
// that git could find in the repository leaves a mark.
func hostile(t *testing.T, files map[string]string) *repository {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the filters of this test are scripts of a Unix shell")
	}
	r := &repository{T: t, dir: t.TempDir(), marks: t.TempDir()}
	home := t.TempDir()
	r.user = filepath.Join(home, ".gitconfig")
	t.Setenv("HOME", home)
	t.Setenv("GIT_CONFIG_GLOBAL", r.user)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	r.write(r.user, "[user]\n\tname = u\n\temail = u@example.org\n[init]\n\tdefaultBranch = main\n", 0o600)
	r.git("init", "-q")
	for name, text := range files {
		r.write(filepath.Join(r.dir, name), text, 0o600)
	}
	r.git("add", ".")
	r.git("commit", "-q", "-m", "first")

	evil := filepath.Join(r.marks, "evil.sh")
	r.write(evil, "#!/bin/sh\ntouch "+r.marks+"/ran-$(basename $0)-$1\ncat\n", 0o700)
	hooks := filepath.Join(r.marks, "hooks")
	for _, folder := range []string{hooks, filepath.Join(r.dir, ".git", "hooks")} {
		for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"} {
			r.write(filepath.Join(folder, hook), "#!/bin/sh\ntouch "+r.marks+"/ran-"+hook+"\n", 0o700)
		}
	}
	included := filepath.Join(r.dir, ".git", "more")
	drivers := ""
	for _, name := range []string{"x", "lfs", "upper", "a=b", "a.b"} {
		drivers += fmt.Sprintf("[filter %q]\n\tclean = %s clean\n\tsmudge = %s smudge\n\tprocess = %s process\n\trequired = true\n", name, evil, evil, evil)
	}
	r.write(included, drivers, 0o600)
	r.add(filepath.Join(r.dir, ".git", "config"), drivers+fmt.Sprintf("[core]\n\tfsmonitor = %s monitor\n\thooksPath = %s\n\tpager = %s pager\n\teditor = %[1]s editor\n\tsshCommand = %[1]s ssh\n"+
		"\taskPass = %[1]s\n\tattributesFile = %[4]s\n[alias]\n\tworktree = !%[1]s alias\n[credential]\n\thelper = !%[1]s credential\n[include]\n\tpath = %[5]s\n[diff]\n\texternal = %[1]s diff\n"+
		"[extensions]\n\tworktreeConfig = true\n[lfs \"customtransfer.x\"]\n\tpath = %[1]s\n[lfs \"extension.x\"]\n\tsmudge = %[1]s\n",
		evil, hooks, evil, filepath.Join(r.dir, ".git", "info", "attributes"), included))
	r.write(filepath.Join(r.dir, ".git", "config.worktree"), drivers, 0o600)
	return r
}

func (r *repository) write(name, text string, mode os.FileMode) {
	r.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		r.Fatal(err)
	}
}

// add appends to a file.
func (r *repository) add(name, text string) {
	r.Helper()
	was, err := os.ReadFile(name)
	if err != nil {
		r.Fatal(err)
	}
	r.write(name, string(was)+text, 0o600)
}

// git runs git as a user does, in a repository that is not hostile yet or with the given
// settings.
func (r *repository) git(args ...string) string {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// ran fails if a program of the repository was run.
func (r *repository) ran() {
	r.Helper()
	if got, _ := filepath.Glob(filepath.Join(r.marks, "ran-*")); len(got) > 0 {
		r.Errorf("programs of the repository were run: %v", got)
	}
}

// read returns a file of a worktree.
func (r *repository) read(w git.Worktree, name string) string {
	r.Helper()
	b, err := os.ReadFile(filepath.Join(w.Folder, name))
	if err != nil {
		r.Fatal(err)
	}
	return string(b)
}

func TestWorktree(t *testing.T) {
	files := map[string]string{
		".gitattributes": "*.x filter=x\n*.lfs filter=lfs\n*.up filter=upper\n*.eq filter=a=b\n*.dot filter=a.b\n*.crlf text eol=crlf\n",
		"a.x":            "ax\n", "a.lfs": "pointer\n", "a.up": "upper\n", "a.eq": "eq\n", "a.dot": "dot\n", "a.crlf": "one\n", "sub/plain": "plain\n",
	}
	t.Run("programs that the repository's configuration names are not run, and those of the user are", func(t *testing.T) {
		r := hostile(t, files)
		// As git LFS does it: a filter that asks git about the repository and the content.
		lfs := filepath.Join(t.TempDir(), "lfs.sh")
		r.write(lfs, "#!/bin/sh\nread pointer\necho \"$pointer of $(git config lfs.storage) from $(git config remote.origin.url) at $(git rev-parse HEAD)\"\n", 0o700)
		r.add(r.user, "[filter \"upper\"]\n\tsmudge = tr a-z A-Z\n\tclean = tr A-Z a-z\n\trequired = true\n[filter \"lfs\"]\n\tsmudge = "+lfs+"\n\tclean = cat\n\trequired = true\n")
		r.git("remote", "add", "origin", "https://example.org/r.git")
		w, err := git.AddWorktree(t.Context(), r.dir, filepath.Join(t.TempDir(), "trees", "w"), "parley/w")
		if err != nil {
			t.Fatal(err)
		}
		r.ran()
		storage := filepath.Join(r.dir, ".git", "lfs")
		for name, want := range map[string]string{
			"a.x": "ax\n", "a.eq": "eq\n", "a.dot": "dot\n", "a.up": "UPPER\n", "a.crlf": "one\r\n", "sub/plain": "plain\n",
			"a.lfs": fmt.Sprintf("pointer of %s from https://example.org/r.git at %s\n", storage, w.Commit),
		} {
			if got := r.read(w, name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if got := r.git("-C", w.Folder, "rev-parse", "--abbrev-ref", "HEAD"); got != "parley/w\n" {
			t.Errorf("the worktree is on %q", got)
		}
		r.write(filepath.Join(r.dir, ".git", "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n", 0o600)
		if got := r.git("-C", w.Folder, "ls-files", "--modified", "--deleted", "--others", "sub"); got != "" {
			t.Errorf("the index does not fit the files: %s", got)
		}
	})
	t.Run("a filter that the user did not define leaves content as it is stored", func(t *testing.T) {
		r := hostile(t, files)
		w, err := git.AddWorktree(t.Context(), r.dir, filepath.Join(t.TempDir(), "w"), "parley/w")
		if err != nil {
			t.Fatal(err)
		}
		r.ran()
		if got := r.read(w, "a.lfs") + r.read(w, "a.up"); got != "pointer\nupper\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("attributes that are not in a commit count, and name programs of the user alone", func(t *testing.T) {
		r := hostile(t, map[string]string{"a": "a\n", "b": "b\n"})
		r.add(r.user, "[filter \"upper\"]\n\tsmudge = tr a-z A-Z\n")
		r.write(filepath.Join(r.dir, ".git", "info", "attributes"), "a filter=upper\nb filter=x\n", 0o600)
		w, err := git.AddWorktree(t.Context(), r.dir, filepath.Join(t.TempDir(), "w"), "parley/w")
		if err != nil {
			t.Fatal(err)
		}
		r.ran()
		if got := r.read(w, "a") + r.read(w, "b"); got != "A\nb\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("variables that lead git to another repository do not count", func(t *testing.T) {
		r := hostile(t, files)
		t.Setenv("GIT_DIR", filepath.Join(t.TempDir(), "nowhere"))
		t.Setenv("GIT_CONFIG_COUNT", "1")
		t.Setenv("GIT_CONFIG_KEY_0", "filter.x.smudge")
		t.Setenv("GIT_CONFIG_VALUE_0", "tr a-z A-Z")
		w, err := git.AddWorktree(t.Context(), r.dir, filepath.Join(t.TempDir(), "w"), "parley/w")
		if err != nil || r.read(w, "a.x") != "ax\n" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a sparse checkout and a format of objects are those of the repository", func(t *testing.T) {
		r := hostile(t, map[string]string{"in/a": "a\n", "out/b": "b\n"})
		config := filepath.Join(r.dir, ".git", "config")
		r.write(config, "[core]\n\trepositoryformatversion = 0\n\tbare = false\n", 0o600)
		r.git("sparse-checkout", "set", "in")
		w, err := git.AddWorktree(t.Context(), r.dir, filepath.Join(t.TempDir(), "w"), "parley/w")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(w.Folder, "out")); err == nil {
			t.Error("a folder that is not wanted was written")
		}
		if got := r.read(w, "in/a"); got != "a\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a repository with names of SHA-256 gets a worktree", func(t *testing.T) {
		r := hostile(t, map[string]string{"a": "a\n"})
		other := filepath.Join(t.TempDir(), "other")
		if out, err := exec.Command("git", "init", "-q", "--object-format=sha256", other).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		r.write(filepath.Join(other, "a"), "a\n", 0o600)
		r.git("-C", other, "add", ".")
		r.git("-C", other, "commit", "-q", "-m", "first")
		w, err := git.AddWorktree(t.Context(), other, filepath.Join(t.TempDir(), "w"), "parley/w")
		if err != nil || len(w.Commit) != 64 || r.read(w, "a") != "a\n" {
			t.Errorf("got %+v, %v", w, err)
		}
	})
}

func TestFailedWorktree(t *testing.T) {
	files := map[string]string{".gitattributes": "*.up filter=upper\n", "a.up": "upper\n"}
	// nothing fails unless the repository is as it was before the try.
	nothing := func(r *repository, folder string) {
		r.Helper()
		if got := r.git("branch", "--list", "parley/*"); got != "" {
			r.Errorf("branches are left: %s", got)
		}
		if got := r.git("worktree", "list", "--porcelain"); strings.Count(got, "worktree ") != 1 {
			r.Errorf("worktrees are left: %s", got)
		}
		if _, err := os.Lstat(folder); err == nil {
			r.Errorf("%s is left", folder)
		}
		r.ran()
	}
	t.Run("a filter of the user that fails", func(t *testing.T) {
		r, folder := hostile(t, files), filepath.Join(t.TempDir(), "w")
		r.add(r.user, "[filter \"upper\"]\n\tsmudge = false\n\trequired = true\n")
		if _, err := git.AddWorktree(t.Context(), r.dir, folder, "parley/w"); err == nil || !strings.Contains(err.Error(), "upper") {
			t.Errorf("got %v", err)
		}
		nothing(r, folder)
	})
	t.Run("a caller that does not wait", func(t *testing.T) {
		r, folder := hostile(t, files), filepath.Join(t.TempDir(), "w")
		ctx, cancel := context.WithCancel(t.Context())
		pipes := t.TempDir()
		begun, end := filepath.Join(pipes, "begun"), filepath.Join(pipes, "end")
		if out, err := exec.Command("mkfifo", begun, end).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		script := filepath.Join(pipes, "filter.sh")
		r.write(script, "#!/bin/sh\necho begun >"+begun+"\ncat "+end+"\n", 0o700)
		r.add(r.user, "[filter \"upper\"]\n\tsmudge = "+script+"\n")
		done := make(chan error)
		go func() {
			_, err := git.AddWorktree(ctx, r.dir, folder, "parley/w")
			done <- err
		}()
		works := make(chan error)
		go func() {
			_, err := os.ReadFile(begun) // waits for the filter
			works <- err
		}()
		select {
		case err := <-works:
			if err != nil {
				t.Fatal(err)
			}
		case err := <-done:
			t.Fatalf("it ended before the filter was run: %v", err)
		}
		cancel()
		r.write(end, "", 0o600)
		if err := <-done; err == nil {
			t.Error("it was made")
		}
		nothing(r, folder)
	})
	t.Run("a repository without a commit", func(t *testing.T) {
		r, folder := hostile(t, files), filepath.Join(t.TempDir(), "w")
		r.git("update-ref", "-d", "HEAD")
		if _, err := git.AddWorktree(t.Context(), r.dir, folder, "parley/w"); err == nil {
			t.Error("it was made")
		}
		nothing(r, folder)
	})
	t.Run("a branch or a folder that is there stays", func(t *testing.T) {
		r, folder := hostile(t, files), filepath.Join(t.TempDir(), "w")
		r.git("branch", "parley/w")
		if _, err := git.AddWorktree(t.Context(), r.dir, folder, "parley/w"); !errors.Is(err, git.ErrExists) {
			t.Errorf("the branch: got %v", err)
		}
		if got := r.git("branch", "--list", "parley/*"); got == "" {
			t.Error("the branch was removed")
		}
		r.write(filepath.Join(folder, "mine"), "x", 0o600)
		if _, err := git.AddWorktree(t.Context(), r.dir, folder, "parley/other"); !errors.Is(err, git.ErrExists) {
			t.Errorf("the folder: got %v", err)
		}
		if _, err := os.Stat(filepath.Join(folder, "mine")); err != nil {
			t.Error("the folder was removed")
		}
		if got := r.git("branch", "--list", "parley/other"); got != "" {
			t.Error("a branch is left")
		}
	})
	t.Run("a worktree that is removed keeps the commits of its branch", func(t *testing.T) {
		r, folder := hostile(t, files), filepath.Join(t.TempDir(), "w")
		w, err := git.AddWorktree(t.Context(), r.dir, folder, "parley/w")
		if err != nil {
			t.Fatal(err)
		}
		work := strings.TrimSpace(r.git("commit-tree", "-m", "work", "-p", "HEAD", "HEAD^{tree}"))
		r.git("update-ref", "refs/heads/parley/w", work)
		w.Remove(t.Context())
		if got := r.git("branch", "--list", "parley/w"); got == "" {
			t.Error("the branch with a new commit was removed")
		}
		if _, err := os.Lstat(folder); err == nil {
			t.Error("the folder is left")
		}
	})
}
