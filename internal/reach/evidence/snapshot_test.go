//go:build unix

package evidence_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

// snapshot takes a snapshot that is closed when the test ends.
func snapshot(t *testing.T, dir string, opts *evidence.Options) *evidence.Base {
	t.Helper()
	b, err := evidence.Snapshot(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func compare(t *testing.T, b *evidence.Base, named ...string) evidence.Changes {
	t.Helper()
	c, err := b.Compare(t.Context(), named)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// difference writes changes in a line: what was created, modified and deleted.
func difference(c evidence.Changes) string {
	var parts []string
	for _, list := range []struct {
		sign  string
		names []string
	}{{"+", c.Created}, {"~", c.Modified}, {"-", c.Deleted}} {
		for _, name := range list.names {
			parts = append(parts, list.sign+name)
		}
	}
	return strings.Join(parts, " ")
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	plain := func(t *testing.T, dir string) {
		write(t, filepath.Join(dir, "a.txt"), "one\ntwo\n")
		write(t, filepath.Join(dir, "src", "b.txt"), "b\n")
	}
	repository := func(t *testing.T, dir string) { newRepository(t, dir) }
	for _, tt := range []struct {
		name  string
		setUp func(t *testing.T, dir string)
		work  func(t *testing.T, dir string)
		want  string
		lines [2]int // inserted and deleted
	}{
		{"nothing is done", repository, func(t *testing.T, dir string) {}, "", [2]int{0, 0}},
		{"files are created, modified and deleted", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "new", "c.txt"), "1\n2\n3\n")
			write(t, filepath.Join(dir, "a.txt"), "one\nand two\n")
			remove(t, filepath.Join(dir, "src", "b.txt"))
		}, "+new/c.txt ~a.txt -src/b.txt", [2]int{4, 2}},
		{"the same content written again is no change", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.txt"), "one\ntwo\n")
		}, "", [2]int{0, 0}},
		{"an edit that is undone is no change", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.txt"), "other")
			git(t, dir, "checkout", "-q", "a.txt")
		}, "", [2]int{0, 0}},
		{"dirty files that are left alone are no changes", func(t *testing.T, dir string) {
			newRepository(t, dir)
			write(t, filepath.Join(dir, "a.txt"), "dirty\n")
			write(t, filepath.Join(dir, "untracked.txt"), "untracked\n")
			remove(t, filepath.Join(dir, "src", "b.txt"))
		}, func(t *testing.T, dir string) { write(t, filepath.Join(dir, "c.txt"), "c\n") }, "+c.txt", [2]int{1, 0}},
		{"dirty files that are touched are changes, counted from what they were", func(t *testing.T, dir string) {
			newRepository(t, dir)
			write(t, filepath.Join(dir, "a.txt"), "dirty\nand long\nvery\n")
			write(t, filepath.Join(dir, "untracked.txt"), "untracked\n")
			git(t, dir, "add", "a.txt")
		}, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.txt"), "dirty\nand long\nvery long\n")
			write(t, filepath.Join(dir, "untracked.txt"), "untracked\nstill\n")
		}, "~a.txt ~untracked.txt", [2]int{2, 1}},
		{"a dirty file that is put back is a change", func(t *testing.T, dir string) {
			newRepository(t, dir)
			write(t, filepath.Join(dir, "a.txt"), "dirty\n")
		}, func(t *testing.T, dir string) { git(t, dir, "checkout", "-q", "a.txt") }, "~a.txt", [2]int{2, 1}},
		{"what is committed is still a change", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "c.txt"), "c\n")
			write(t, filepath.Join(dir, "a.txt"), "one\n")
			commitAll(t, dir, "the work")
		}, "+c.txt ~a.txt", [2]int{1, 1}},
		{"an old change that is committed is none", func(t *testing.T, dir string) {
			newRepository(t, dir)
			write(t, filepath.Join(dir, "c.txt"), "c\n")
		}, func(t *testing.T, dir string) { commitAll(t, dir, "what was there") }, "", [2]int{0, 0}},
		{"what is staged is still a change", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "c.txt"), "c\n")
			git(t, dir, "add", "-A")
		}, "+c.txt", [2]int{1, 0}},
		{"what is staged and not in a file is none", repository, func(t *testing.T, dir string) {
			git(t, dir, "rm", "-q", "--cached", "a.txt")
		}, "", [2]int{0, 0}},
		{"a switch to another branch shows what it brings", func(t *testing.T, dir string) {
			newRepository(t, dir)
			git(t, dir, "checkout", "-q", "-b", "other")
			write(t, filepath.Join(dir, "o.txt"), "o\n")
			commitAll(t, dir, "other")
			git(t, dir, "checkout", "-q", "main")
		}, func(t *testing.T, dir string) { git(t, dir, "checkout", "-q", "other") }, "+o.txt", [2]int{1, 0}},
		{"a new branch at the same commit is no change", repository, func(t *testing.T, dir string) {
			git(t, dir, "checkout", "-q", "-b", "work")
		}, "", [2]int{0, 0}},
		{"HEAD may be detached", func(t *testing.T, dir string) {
			newRepository(t, dir)
			git(t, dir, "checkout", "-q", "--detach")
		}, func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.txt"), "one\n") }, "~a.txt", [2]int{0, 1}},
		{"there may be no commit yet", func(t *testing.T, dir string) {
			git(t, filepath.Dir(dir), "init", "-q", "-b", "main", dir)
			plain(t, dir)
		}, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.txt"), "one\n")
			commitAll(t, dir, "first")
		}, "~a.txt", [2]int{0, 1}},
		{"the history may be rewritten", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.txt"), "one\n")
			git(t, dir, "checkout", "-q", "--orphan", "fresh")
			commitAll(t, dir, "as if first")
			git(t, dir, "branch", "-q", "-D", "main")
		}, "~a.txt", [2]int{0, 1}},
		{"the repository may go away", repository, func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, ".git"))
			write(t, filepath.Join(dir, "c.txt"), "c\n")
		}, "+c.txt", [2]int{1, 0}},
		{"a folder need not be a repository", plain, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "c.txt"), "c\n")
			write(t, filepath.Join(dir, "a.txt"), "one\n")
			remove(t, filepath.Join(dir, "src"))
		}, "+c.txt ~a.txt -src/b.txt", [2]int{1, 2}},
		{"a folder may become a repository", plain, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".gitignore"), "c.txt\n")
			write(t, filepath.Join(dir, "c.txt"), "c\n")
			git(t, dir, "init", "-q", ".")
			commitAll(t, dir, "first")
		}, "+.gitignore +c.txt", [2]int{2, 0}},
		{"a permission to execute is a change, others are not", repository, func(t *testing.T, dir string) {
			os.Chmod(filepath.Join(dir, "a.txt"), 0o755)
			os.Chmod(filepath.Join(dir, "src", "b.txt"), 0o600)
		}, "~a.txt", [2]int{0, 0}},
		{"a link counts as where it leads", func(t *testing.T, dir string) {
			newRepository(t, dir)
			link(t, "a.txt", filepath.Join(dir, "link"))
			link(t, "/etc", filepath.Join(dir, "etc"))
		}, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.txt"), "one\n")
			remove(t, filepath.Join(dir, "etc"))
			link(t, "/usr", filepath.Join(dir, "etc"))
		}, "~a.txt ~etc", [2]int{1, 2}},
		{"a file that becomes a folder is deleted", repository, func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "a.txt"))
			write(t, filepath.Join(dir, "a.txt", "inside"), "x\n")
		}, "+a.txt/inside -a.txt", [2]int{1, 2}},
		{"names may be strange", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "new\nline"), "x\n")
			write(t, filepath.Join(dir, `"quoted" \ and 'more'`), "x\n")
			write(t, filepath.Join(dir, "ünï", "漢字"), "x\n")
			write(t, filepath.Join(dir, ":(top)"), "x\n")
			write(t, filepath.Join(dir, "-rf"), "x\n")
			write(t, filepath.Join(dir, "bad\xffbyte"), "x\n")
		}, `+"quoted" \ and 'more' +-rf +:(top) +bad` + "\xff" + "byte +new\nline +ünï/漢字", [2]int{6, 0}},
		{"ignored files are passed over", func(t *testing.T, dir string) {
			newRepository(t, dir)
			write(t, filepath.Join(dir, ".gitignore"), "*.log\nbuild/\n")
			write(t, filepath.Join(dir, ".git", "info", "exclude"), "private\n")
		}, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "x.log"), "x\n")
			write(t, filepath.Join(dir, "build", "out"), "x\n")
			write(t, filepath.Join(dir, "private"), "x\n")
		}, "", [2]int{0, 0}},
		{"tracked files count though they are ignored", func(t *testing.T, dir string) {
			newRepository(t, dir)
			write(t, filepath.Join(dir, "x.log"), "x\n")
			write(t, filepath.Join(dir, ".gitignore"), "*.log\n")
			git(t, dir, "add", "-f", "x.log")
			commitAll(t, dir, "forced")
		}, func(t *testing.T, dir string) { write(t, filepath.Join(dir, "x.log"), "y\n") }, "~x.log", [2]int{1, 1}},
		{"what was seen before stays in sight when it is ignored later", func(t *testing.T, dir string) {
			newRepository(t, dir)
			write(t, filepath.Join(dir, "untracked"), "x\n")
		}, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".gitignore"), "*\n!.gitignore\n")
			write(t, filepath.Join(dir, "untracked"), "y\n")
		}, "+.gitignore ~untracked", [2]int{3, 1}},
		{"rules that nobody sees cannot be added", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".git", "info", "exclude"), "*\n")
			write(t, filepath.Join(dir, "hidden"), "y\n")
		}, "+hidden", [2]int{1, 0}},
		{"a submodule counts with its files", func(t *testing.T, dir string) {
			newRepository(t, filepath.Join(filepath.Dir(dir), "lib"))
			newRepository(t, dir)
			git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../lib", "sub")
			commitAll(t, dir, "with a submodule")
		}, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "sub", "a.txt"), "one\n")
			write(t, filepath.Join(dir, "sub", "c.txt"), "c\n")
			commitAll(t, filepath.Join(dir, "sub"), "in the submodule")
		}, "+sub/c.txt ~sub/a.txt", [2]int{1, 1}},
		{"a repository inside counts as one thing", func(t *testing.T, dir string) {
			newRepository(t, dir)
			newRepository(t, filepath.Join(dir, "inside"))
		}, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "inside", "c.txt"), "c\n")
			commitAll(t, filepath.Join(dir, "inside"), "more")
			newRepository(t, filepath.Join(dir, "another"))
		}, "+another ~inside", [2]int{0, 0}},
		{"a working tree of its own is looked at", func(t *testing.T, dir string) {
			main := filepath.Join(filepath.Dir(dir), "main")
			newRepository(t, main)
			git(t, main, "worktree", "add", "-q", dir)
		}, func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.txt"), "one\n") }, "~a.txt", [2]int{0, 1}},
		{"objects may be borrowed from another repository", func(t *testing.T, dir string) {
			main := filepath.Join(filepath.Dir(dir), "main")
			newRepository(t, main)
			git(t, main, "clone", "-q", "--shared", main, dir)
		}, func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.txt"), "one\n") }, "~a.txt", [2]int{0, 1}},
		{"names of objects may be long", func(t *testing.T, dir string) { newRepository(t, dir, "--object-format=sha256") },
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.txt"), "one\n") }, "~a.txt", [2]int{0, 1}},
		{"what is not text is not counted", repository, func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "binary"), "\x00\x01\n\n\n")
		}, "+binary", [2]int{0, 0}},
		{"pipes are passed over", repository, func(t *testing.T, dir string) {
			if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "", [2]int{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(folder(t), "work")
			tt.setUp(t, dir)
			b := snapshot(t, dir, nil)
			tt.work(t, dir)
			c := compare(t, b)
			if got := difference(c); got != tt.want {
				t.Errorf("changes: got %q, want %q", got, tt.want)
			}
			if got := [2]int{c.Insertions, c.Deletions}; got != tt.lines {
				t.Errorf("lines inserted and deleted: got %v, want %v", got, tt.lines)
			}
			if again, err := b.Since(t.Context()); err != nil || !again.Empty() {
				t.Errorf("changes after that: got %v, %v, want none", again, err)
			}
			if same := c.Before.Tree == c.After.Tree; same != c.Empty() && !strings.Contains(tt.name, "go away") {
				t.Errorf("the tree is the same: got %v, want %v", same, c.Empty())
			}
		})
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "repo")
	first := newRepository(t, dir)
	write(t, filepath.Join(dir, "lib", "x-y"), "x")
	write(t, filepath.Join(dir, "lib", "x", "y"), "x")
	write(t, filepath.Join(dir, "lib", "x.y"), "x")
	os.Chmod(filepath.Join(dir, "lib", "x-y"), 0o755)
	link(t, "x", filepath.Join(dir, "lib", "x0"))
	second := commitAll(t, dir, "second")
	tree := func() string { return git(t, dir, "rev-parse", "HEAD^{tree}") }
	moment := func() evidence.Moment { return snapshot(t, dir, nil).Moment() }

	got, want := moment(), evidence.Moment{Repository: true, Commit: second, Branch: "main", Tree: tree()}
	if got != want {
		t.Errorf("a clean working tree: got %+v, want %+v", got, want)
	}
	git(t, dir, "checkout", "-q", "--detach", first)
	if got, want := moment(), (evidence.Moment{Repository: true, Commit: first, Tree: tree()}); got != want {
		t.Errorf("a detached HEAD: got %+v, want %+v", got, want)
	}
	git(t, dir, "checkout", "-q", "--orphan", "new")
	if got, want := moment(), (evidence.Moment{Repository: true, Branch: "new", Tree: wholeTree(t, dir), Dirty: true}); got != want {
		t.Errorf("no commit yet: got %+v, want %+v", got, want)
	}
	plain := folder(t)
	write(t, filepath.Join(plain, "file"), "x")
	if got := snapshot(t, plain, nil).Moment(); got.Repository || got.Commit != "" || len(got.Tree) != 64 || got.Dirty {
		t.Errorf("no repository: got %+v", got)
	}

	b := snapshot(t, dir, nil)
	third := commitAll(t, dir, "third")
	git(t, dir, "checkout", "-q", "-b", "elsewhere")
	c := compare(t, b)
	if c.After.Commit != third || c.After.Branch != "elsewhere" || c.Before.Branch != "new" || c.After.Dirty || !c.Empty() {
		t.Errorf("after a commit on another branch: got %+v", c)
	}
}

// wholeTree returns the tree that git makes of everything that is there.
func wholeTree(t *testing.T, dir string) string {
	t.Helper()
	git(t, dir, "add", "-A")
	return git(t, dir, "write-tree")
}

func TestTheRepositoryIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "repo")
	newRepository(t, dir)
	write(t, filepath.Join(dir, "staged.txt"), "staged\n")
	git(t, dir, "add", "staged.txt")
	write(t, filepath.Join(dir, "a.txt"), "edited\n")
	write(t, filepath.Join(dir, "untracked.txt"), "untracked\n")
	git(t, dir, "status")
	status := git(t, dir, "status", "--porcelain=v2", "--branch")
	before := listing(t, dir)

	b := snapshot(t, dir, nil)
	compare(t, b, "a.txt", "untracked.txt")
	if _, err := b.Since(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("got other files or other times:\n%s\nwant\n%s", after, before)
	}
	if got := git(t, dir, "status", "--porcelain=v2", "--branch"); got != status {
		t.Errorf("status: got\n%s\nwant\n%s", got, status)
	}
}

func TestSnapshotLeavesNothingBehind(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	tmp := t.TempDir()
	dir := filepath.Join(folder(t), "repo")
	newRepository(t, dir)
	t.Setenv("TMPDIR", tmp)
	for name, dir := range map[string]string{"a snapshot": dir, "one that fails": filepath.Join(dir, "none"), "one of a file": filepath.Join(dir, "a.txt")} {
		if b, err := evidence.Snapshot(t.Context(), dir, nil); err == nil {
			compare(t, b)
			b.Close()
			b.Close() // does no harm
		}
		if left, _ := os.ReadDir(tmp); len(left) > 0 {
			t.Errorf("%s: %d temporary files are left", name, len(left))
		}
	}
	killed, other := filepath.Join(tmp, "parley-evidence-1"), filepath.Join(tmp, "parley-evidence-2")
	for _, dir := range []string{killed, other} {
		if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(killed, time.Time{}, time.Now().Add(-25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.New(nil, nil); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); !slices.Equal(left, []string{other}) {
		t.Errorf("after killed processes: got %q, want only the one that may be in use, %q", left, other)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := evidence.Snapshot(ctx, dir, nil); hub.CodeOf(err) != hub.CodeDegraded {
		t.Errorf("cancelled: got %v, want code %s", err, hub.CodeDegraded)
	}
}

func TestSnapshotRunsNothing(t *testing.T) {
	t.Parallel()
	root := folder(t)
	repo, marks := filepath.Join(root, "repo"), filepath.Join(root, "marks")
	if err := os.Mkdir(marks, 0o755); err != nil {
		t.Fatal(err)
	}
	trapped(t, repo, marks)
	b := snapshot(t, repo, nil)
	write(t, filepath.Join(repo, "filtered.txt"), "once more\n")
	write(t, filepath.Join(repo, "processed.txt"), "once more\n")
	write(t, filepath.Join(repo, "driven.txt"), "once more\n")
	c := compare(t, b)
	if got, want := difference(c), "~driven.txt ~filtered.txt ~processed.txt"; got != want {
		t.Errorf("changes: got %q, want %q", got, want)
	}
	if c.Insertions != 3 || c.Deletions != 3 {
		t.Errorf("lines: got %d and %d, want 3 and 3", c.Insertions, c.Deletions)
	}
	if names := sprung(t, marks); len(names) > 0 {
		t.Errorf("got %v run, want nothing", names)
	}
}

func TestNamedFilesAreLookedAt(t *testing.T) {
	t.Parallel()
	base := folder(t)
	dir := filepath.Join(base, "repo")
	newRepository(t, dir)
	write(t, filepath.Join(dir, ".gitignore"), "*.log\nout/\n")
	write(t, filepath.Join(dir, "old.log"), "x")
	write(t, filepath.Join(dir, "edited.log"), "x")
	write(t, filepath.Join(base, "secret"), "x")
	link(t, base, filepath.Join(dir, "up"))
	alias := link(t, dir, filepath.Join(base, "alias"))

	b := snapshot(t, filepath.Join(alias, "src"), nil)
	write(t, filepath.Join(dir, "edited.log"), "y")
	write(t, filepath.Join(dir, "new.log"), "y")
	write(t, filepath.Join(dir, "src", "c.txt"), "c")
	write(t, filepath.Join(dir, "out", "x"), "c")
	for _, tt := range []struct {
		written string
		want    evidence.NamedPath
	}{
		{"c.txt", evidence.NamedPath{Name: "src/c.txt", Exists: true}},
		{"./c.txt", evidence.NamedPath{Name: "src/c.txt", Exists: true}},
		{"src/c.txt", evidence.NamedPath{Name: "src/c.txt", Exists: true}}, // as seen from the top
		{filepath.Join(dir, "src/c.txt"), evidence.NamedPath{Name: "src/c.txt", Exists: true}},
		{filepath.Join(alias, "src/c.txt"), evidence.NamedPath{Name: "src/c.txt", Exists: true}},
		{"../a.txt", evidence.NamedPath{Name: "a.txt", Exists: true}},
		{"../old.log", evidence.NamedPath{Name: "old.log", Exists: true, Ignored: true}},
		{"../edited.log", evidence.NamedPath{Name: "edited.log", Exists: true, Ignored: true, Touched: true}},
		{"../new.log", evidence.NamedPath{Name: "new.log", Exists: true, Ignored: true, Touched: true}},
		{"../out/x", evidence.NamedPath{Name: "out/x", Exists: true, Ignored: true, Touched: true}},
		{"none", evidence.NamedPath{Name: "src/none", Ignored: true}},
		{"../up/secret", evidence.NamedPath{}},
		{"../../secret", evidence.NamedPath{}},
		{"/etc/passwd", evidence.NamedPath{}},
		{filepath.Join(base, "secret"), evidence.NamedPath{}},
		{"", evidence.NamedPath{}},
		{"zero\x00byte", evidence.NamedPath{}},
		{strings.Repeat("x", 5000), evidence.NamedPath{}},
	} {
		if got := compare(t, b, tt.written).Named[tt.written]; got != tt.want {
			t.Errorf("%.40q: got %+v, want %+v", tt.written, got, tt.want)
		}
	}
}

func TestSnapshotOfAFolderThatIsIgnored(t *testing.T) {
	t.Parallel()
	repo := filepath.Join(folder(t), "repo")
	newRepository(t, repo)
	write(t, filepath.Join(repo, ".gitignore"), "tmp/\n")
	dir := filepath.Join(repo, "tmp", "work")
	write(t, filepath.Join(dir, "x"), "x")
	b := snapshot(t, dir, nil)
	write(t, filepath.Join(dir, "y"), "y")
	c := compare(t, b)
	if c.Before.Repository || c.Top != dir {
		t.Errorf("got %+v at %s, want the folder alone", c.Before, c.Top)
	}
	if got, want := difference(c), "+y"; got != want {
		t.Errorf("changes: got %q, want %q", got, want)
	}
}

func TestTheUsersOwnRulesHold(t *testing.T) {
	home := folder(t)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, ".gitconfig"))
	dir := filepath.Join(home, "repo")
	for _, tt := range []struct {
		name, config string
		rules        string
	}{
		{"at the usual place", "", ".config/git/ignore"},
		{"where the configuration says", "[core]\n\texcludesFile = ~/mine\n", "mine"},
	} {
		remove(t, dir)
		newRepository(t, dir)
		write(t, filepath.Join(home, ".gitconfig"), tt.config)
		write(t, filepath.Join(home, tt.rules), ".agent/\n")
		b := snapshot(t, dir, nil)
		write(t, filepath.Join(dir, ".agent", "settings"), "x")
		if got := difference(compare(t, b)); got != "" {
			t.Errorf("%s: got %q, want no change", tt.name, got)
		}
		remove(t, filepath.Join(home, tt.rules))
	}
}

func TestLargeFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "repo")
	newRepository(t, dir)
	huge, big := write(t, filepath.Join(dir, "huge"), ""), write(t, filepath.Join(dir, "big"), "")
	for path, size := range map[string]int64{huge: 10 << 30, big: 9 << 20} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	b := snapshot(t, dir, &evidence.Options{MaxFile: 16 << 20})
	if tree := b.Moment().Tree; tree != "" {
		t.Errorf("a tree with a file that was not read: got %s, want none", tree)
	}
	c := compare(t, b)
	if !c.Empty() || !slices.Equal(c.Unread, []string{"huge"}) {
		t.Errorf("left alone: got %q, not read %v, want no change and huge", difference(c), c.Unread)
	}
	for _, path := range []string{huge, big} {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString("x")
		f.Close()
	}
	c = compare(t, b)
	if got, want := difference(c), "~big ~huge"; got != want || c.Uncounted != 2 {
		t.Errorf("written: got %q, %d uncounted, want %q, 2", got, c.Uncounted, want)
	}
}

func TestAForgedTimeHidesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "repo")
	newRepository(t, dir)
	old := time.Now().Add(-time.Hour)
	path := filepath.Join(dir, "a.txt")
	b := snapshot(t, dir, nil)
	write(t, path, "ONE\ntwo\n")
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if got, want := difference(compare(t, b)), "~a.txt"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSnapshotRefusals(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "repo")
	newRepository(t, dir)
	for _, tt := range []struct {
		name, dir string
		opts      *evidence.Options
		want      hub.Code
	}{
		{"a folder that is not there", filepath.Join(dir, "none"), nil, hub.CodeNotFound},
		{"a file", filepath.Join(dir, "a.txt"), nil, hub.CodeConflict},
		{"a repository without git", dir, &evidence.Options{Git: "no-such-git"}, hub.CodeNotEnabled},
		{"no time", dir, &evidence.Options{Timeout: 1}, hub.CodeDegraded},
	} {
		if b, err := evidence.Snapshot(t.Context(), tt.dir, tt.opts); hub.CodeOf(err) != tt.want || b != nil {
			t.Errorf("%s: got %v, %v, want code %s", tt.name, b, err, tt.want)
		}
	}
	plain := folder(t)
	b := snapshot(t, plain, &evidence.Options{Git: "no-such-git"})
	write(t, filepath.Join(plain, "x"), "x\n")
	if c := compare(t, b); difference(c) != "+x" || c.Uncounted != 1 {
		t.Errorf("a folder without git: got %q, %d uncounted", difference(c), c.Uncounted)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	dir := b.TempDir()
	for i := range 10_000 {
		path := filepath.Join(dir, fmt.Sprint(i%100), fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(fmt.Sprintln(i), 1000)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "x"}} {
		if out, err := gitCommand(dir, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	base, err := evidence.Snapshot(b.Context(), dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer base.Close()
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			base, err := evidence.Snapshot(b.Context(), dir, nil)
			if err != nil {
				b.Fatal(err)
			}
			base.Close()
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			if _, err := base.Compare(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestTrivialWork holds which changes of a run are no work by themselves, and that what git obeys is
// compared, too.
func TestTrivialWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		work    func(t *testing.T, dir string)
		trivial bool
		git     []string
	}{
		{"one space", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.txt"), "one \ntwo\n") }, true, nil},
		{"an empty file", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "new.txt"), "") }, true, nil},
		{"both, committed", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.txt"), "one\n\ntwo\n")
			write(t, filepath.Join(dir, "new.txt"), "\n")
			commitAll(t, dir, "the work")
		}, true, nil},
		{"the permission to execute", func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "a.txt"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, true, nil},
		{"a hook and a setting beside an empty file", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "new.txt"), "")
			write(t, filepath.Join(dir, ".git", "hooks", "pre-commit"), "#!/bin/sh\n")
			write(t, filepath.Join(dir, ".git", "hooks", "pre-push.sample"), "#!/bin/sh\n")
			git(t, dir, "config", "core.fsmonitor", "true")
		}, true, []string{".git/config", ".git/hooks/pre-commit"}},
		{"a hook that was there is removed", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, ".git", "hooks", "post-merge"))
		}, false, []string{".git/hooks/post-merge"}},
		{"nothing", func(t *testing.T, dir string) {}, false, nil},
		{"one letter", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.txt"), "one\ntwos\n") }, false, nil},
		{"a file is removed", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "a.txt")) }, false, nil},
		{"a space beside real work", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.txt"), "one \ntwo\n")
			write(t, filepath.Join(dir, "new.txt"), "work\n")
		}, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			newRepository(t, dir)
			write(t, filepath.Join(dir, ".git", "hooks", "post-merge"), "#!/bin/sh\n")
			b := snapshot(t, dir, nil)
			tt.work(t, dir)
			c := compare(t, b)
			if c.OnlyTrivial() != tt.trivial || !slices.Equal(c.Repository, tt.git) {
				t.Errorf("got trivial %t (%v) and %v of git, want %t and %v", c.OnlyTrivial(), c.Trivial, c.Repository, tt.trivial, tt.git)
			}
		})
	}
}
