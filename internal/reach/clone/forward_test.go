package clone_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
)

// A landing is a repository with a commit that is ready to land on main, which is checked
// out: it changes a.txt, removes gone.txt, adds new/n.txt and makes run.sh executable.
type landing struct {
	*repository
	old, new clone.Commit
	group    bool // children are ended with their processes of git
}

func newLanding(t *testing.T, args ...string) *landing {
	t.Helper()
	r := newRepository(t, args...)
	format := strings.Join(args, "")
	made, _ := templates.LoadOrStore(format, sync.OnceValue(func() string {
		at := &repository{T: t, dir: filepath.Join(os.Getenv("HOME"), "template"+format)}
		gitCommand(os.Getenv("HOME"), append([]string{"init", "-q", at.dir}, args...)...).Run()
		at.fillTemplate()
		return at.dir
	}))
	os.RemoveAll(filepath.Join(r.dir, ".git"))
	if err := os.CopyFS(r.dir, os.DirFS(made.(func() string)())); err != nil {
		t.Fatal(err)
	}
	old := r.fetch("main")
	return &landing{repository: r, old: old, new: r.merge(old, r.fetch("work")).Commit}
}

// templates are the repositories that landings begin with, by their format.
var templates sync.Map

// fillTemplate makes the commits of a landing.
func (r *repository) fillTemplate() {
	r.Helper()
	r.commit("a.txt", "old a\n", "gone.txt", "old gone\n", "run.sh", "#!/bin/sh\n", "other.txt", "other\n", ".gitignore", "*.tmp\n")
	r.git("checkout", "-q", "-b", "work")
	os.Remove(filepath.Join(r.dir, "gone.txt"))
	os.Chmod(filepath.Join(r.dir, "run.sh"), 0o755)
	r.commit("a.txt", "new a\n", "new/n.txt", "new n\n")
	r.git("checkout", "-q", "main")
}

// forward lands, and fails on an error.
func (l *landing) forward() clone.Forwarded {
	l.Helper()
	out, err := l.copy().Forward(l.Context(), "main", l.old.ID, l.new.ID)
	if err != nil {
		l.Fatal(err)
	}
	return out
}

// landed fails unless main is at the new commit, the tree in a folder with it, and nothing
// of the step is left. Its status must be the given one.
func (l *landing) landed(dir, status string) {
	l.Helper()
	if head := l.git("rev-parse", "main"); head != l.new.ID {
		l.Errorf("main is at %s, want the landing", head)
	}
	if got := l.gitIn(dir, "status", "--porcelain"); got != status {
		l.Errorf("the status is %q, want %q", got, status)
	}
	for name, want := range map[string]string{"a.txt": "new a\n", "gone.txt": "-", "new/n.txt": "new n\n"} {
		if got := read(l.T, dir, name); got != want {
			l.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || info.Mode()&0o100 == 0 {
		l.Errorf("run.sh is not executable (%v)", err)
	}
	l.noTraces()
}

// waited fails unless the landing waits for one folder with the given reason and paths, and
// nothing has changed.
func (l *landing) waited(got clone.Forwarded, dir string, reason clone.Reason, paths ...string) {
	l.Helper()
	want := []clone.Waits{{Folder: dir, Reason: reason, Paths: paths}}
	if got.Moved || !reflect.DeepEqual(got.Waits, want) {
		l.Errorf("got %+v, want %+v", got, want)
	}
	if head := l.git("rev-parse", "main"); head != l.old.ID {
		l.Errorf("main is at %s, want the old commit", head)
	}
	l.noTraces()
}

// noTraces fails if a lock, a folder or a record of a step is left.
func (l *landing) noTraces() {
	l.Helper()
	for _, pattern := range []string{".git/*.lock", ".git/parley-*", ".parley-*", ".git/worktrees/*/*.lock", ".git/worktrees/*/parley-*", ".git/refs/heads/*.lock"} {
		if left, _ := filepath.Glob(filepath.Join(l.dir, pattern)); len(left) > 0 {
			l.Errorf("left: %v", left)
		}
	}
	for _, pattern := range []string{"steps/*", "draft-*", "parley-worktree-*"} {
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(l.copy().Folder()), pattern)); len(left) > 0 {
			l.Errorf("left: %v", left)
		}
	}
}

func TestForwardCleanTree(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			l := newLanding(t, "--object-format="+format)
			got := l.forward()
			if !got.Moved || !reflect.DeepEqual(got.Trees, []string{l.dir}) {
				t.Errorf("got %+v", got)
			}
			l.landed(l.dir, "")
			l.git("fsck", "--strict")
			if log := l.git("reflog", "-1", "--format=%gs", "main"); log != "parley: landed" {
				t.Errorf("the log says %q", log)
			}
			if again := l.forward(); !again.Moved {
				t.Errorf("a second call gives %+v", again)
			}
		})
	}
}

// Changes of a person that the landing does not touch stay as they are.
func TestForwardKeepsOtherChanges(t *testing.T) {
	l := newLanding(t)
	l.write("other.txt", "mine\n")
	l.write("staged.txt", "staged\n")
	l.git("add", "staged.txt")
	l.write("staged.txt", "staged and changed\n")
	l.write("untracked.txt", "mine\n")
	l.write("ignored.tmp", "mine\n")
	l.write("new/mine.txt", "mine\n")
	l.git("add", "-N", "untracked.txt")
	if got := l.forward(); !got.Moved {
		t.Fatalf("got %+v", got)
	}
	l.landed(l.dir, "M other.txt\nAM staged.txt\n A untracked.txt\n?? new/mine.txt")
	if staged := l.git("show", ":staged.txt"); staged != "staged" {
		t.Errorf("staged is %q", staged)
	}
	for name, want := range map[string]string{"other.txt": "mine\n", "staged.txt": "staged and changed\n", "untracked.txt": "mine\n", "ignored.tmp": "mine\n", "new/mine.txt": "mine\n"} {
		if got := read(t, l.dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Each state of a tree that a landing would damage is a reason to wait, and stays as it is.
func TestForwardWaits(t *testing.T) {
	tests := []struct {
		name   string
		do     func(l *landing)
		reason clone.Reason
		paths  []string
	}{
		{"changed", func(l *landing) { l.write("a.txt", "mine\n") }, clone.Changed, []string{"a.txt"}},
		{"changed mode", func(l *landing) { os.Chmod(filepath.Join(l.dir, "a.txt"), 0o755) }, clone.Changed, []string{"a.txt"}},
		{"changed a removed file", func(l *landing) { l.write("gone.txt", "mine\n") }, clone.Changed, []string{"gone.txt"}},
		{"deleted", func(l *landing) { os.Remove(filepath.Join(l.dir, "a.txt")) }, clone.Changed, []string{"a.txt"}},
		{"became a link", func(l *landing) {
			os.Remove(filepath.Join(l.dir, "a.txt"))
			os.Symlink("other.txt", filepath.Join(l.dir, "a.txt"))
		}, clone.Changed, []string{"a.txt"}},
		{"changed, assumed unchanged", func(l *landing) {
			l.git("update-index", "--assume-unchanged", "a.txt")
			l.write("a.txt", "mine\n")
		}, clone.Changed, []string{"a.txt"}},
		{"changed, skipped", func(l *landing) {
			l.git("update-index", "--skip-worktree", "a.txt")
			l.write("a.txt", "mine\n")
		}, clone.Changed, []string{"a.txt"}},
		{"staged", func(l *landing) {
			l.write("a.txt", "mine\n")
			l.git("add", "a.txt")
			l.write("a.txt", "old a\n")
		}, clone.Staged, []string{"a.txt"}},
		{"staged new file", func(l *landing) {
			l.write("new/n.txt", "mine\n")
			l.git("add", "new/n.txt")
		}, clone.Staged, []string{"new/n.txt"}},
		{"file to be added", func(l *landing) {
			l.write("new/n.txt", "mine\n")
			l.git("add", "-N", "new/n.txt")
		}, clone.Staged, []string{"new/n.txt"}},
		{"staged file where a folder comes", func(l *landing) {
			l.write("new", "mine\n")
			l.git("add", "new")
			os.Remove(filepath.Join(l.dir, "new"))
		}, clone.Staged, []string{"new"}},
		{"staged files where a file comes", func(l *landing) {
			l.write("new/n.txt/x", "mine\n")
			l.git("add", "new/n.txt/x")
			os.RemoveAll(filepath.Join(l.dir, "new"))
		}, clone.Staged, []string{"new/n.txt/x"}},
		{"untracked", func(l *landing) { l.write("new/n.txt", "mine\n") }, clone.Untracked, []string{"new/n.txt"}},
		{"untracked file where a folder comes", func(l *landing) { l.write("new", "mine\n") }, clone.Untracked, []string{"new"}},
		{"untracked link where a folder comes", func(l *landing) { os.Symlink(l.TempDir(), filepath.Join(l.dir, "new")) }, clone.Untracked, []string{"new"}},
		{"untracked folder where a file comes", func(l *landing) { l.write("new/n.txt/mine", "mine\n") }, clone.Untracked, []string{"new/n.txt/mine"}},
		{"ignored", func(l *landing) {
			writeFile(l.T, filepath.Join(l.dir, ".git/info/exclude"), "n.txt\n")
			l.write("new/n.txt", "mine\n")
		}, clone.Ignored, []string{"new/n.txt"}},
		{"rebase", func(l *landing) {
			l.git("checkout", "-q", "-b", "side", "HEAD")
			l.commit("other.txt", "side\n")
			l.git("checkout", "-q", "main")
			l.commit("other.txt", "main\n")
			exitsWith(l, 1, "rebase", "side")
			l.old = l.fetch("main")
			l.new = l.merge(l.old, l.fetch("work")).Commit
		}, clone.Rebasing, nil},
		{"merge", func(l *landing) {
			l.git("checkout", "-q", "-b", "side", "HEAD")
			l.commit("side.txt", "side\n")
			l.git("checkout", "-q", "main")
			l.git("merge", "-q", "--no-ff", "--no-commit", "side")
		}, clone.Merging, nil},
		{"cherry-pick", func(l *landing) {
			l.git("checkout", "-q", "-b", "side", "HEAD")
			l.commit("a.txt", "side\n")
			l.git("checkout", "-q", "main")
			l.write("a.txt", "main\n")
			l.git("commit", "-q", "-a", "-m", "main")
			l.branch("main", "work2", "z.txt", "z\n")
			exitsWith(l, 1, "cherry-pick", "side")
			l.old = l.fetch("main")
			l.new = l.fetch("work2")
		}, clone.Picking, nil},
		{"bisect", func(l *landing) {
			l.git("bisect", "start")
		}, clone.Bisecting, nil},
		{"lock", func(l *landing) { writeFile(l.T, filepath.Join(l.dir, ".git/index.lock"), "") }, clone.Locked, nil},
		{"caseless", func(l *landing) {
			l.new = l.branch("main", "twins", "A.TXT", "twin\n")
			l.git("config", "core.ignorecase", "true")
		}, clone.Caseless, []string{"A.TXT", "a.txt"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLanding(t)
			test.do(l)
			before := l.everything()
			got := l.forward()
			if after := l.everything(); after != before {
				t.Errorf("the tree has changed from\n%s\nto\n%s", before, after)
			}
			os.Remove(filepath.Join(l.dir, ".git/index.lock")) // of one of the tests
			l.waited(got, l.dir, test.reason, test.paths...)
			if len(got.Waits) > 0 && !strings.HasPrefix(got.Waits[0].String(), "waits for "+l.dir+": ") {
				t.Errorf("the text is %q", got.Waits[0])
			}
		})
	}
}

// exitsWith runs git as the user does, for a command that fails.
func exitsWith(l *landing, code int, args ...string) {
	l.Helper()
	out, err := gitCommand(l.dir, args...).CombinedOutput()
	var exit interface{ ExitCode() int }
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		l.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// everything returns all files of the tree with their content, the index and the branches.
func (r *repository) everything() string {
	r.Helper()
	var b strings.Builder
	err := filepath.WalkDir(r.dir, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if d.Type().IsRegular() {
			text = read(r.T, name)
		}
		b.WriteString(name + " " + info.Mode().String() + " " + info.ModTime().String() + " " + text + "\n")
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	index, _ := os.ReadFile(filepath.Join(r.dir, ".git", "index"))
	return b.String() + string(index) + r.git("for-each-ref")
}

// A file that already is as the landing has it is not in the way.
func TestForwardAcceptsEqualFiles(t *testing.T) {
	l := newLanding(t)
	l.write("new/n.txt", "new n\n")
	l.write("a.txt", "new a\n")
	l.git("add", "a.txt")
	os.Remove(filepath.Join(l.dir, "gone.txt"))
	if got := l.forward(); !got.Moved {
		t.Fatalf("got %+v", got)
	}
	l.landed(l.dir, "")
}

func TestForwardDetachedHead(t *testing.T) {
	l := newLanding(t)
	l.git("checkout", "-q", "--detach")
	l.write("a.txt", "mine\n")
	if got := l.forward(); !got.Moved || len(got.Trees) != 0 {
		t.Errorf("got %+v", got)
	}
	if got := read(t, l.dir, "a.txt"); got != "mine\n" || l.git("rev-parse", "main") != l.new.ID {
		t.Errorf("a.txt is %q", got)
	}
}

// A rebase of the target in another tree detaches the head there, but will write to the
// target.
func TestForwardRebaseInAnotherTree(t *testing.T) {
	l := newLanding(t)
	l.commit("other.txt", "main\n")
	l.old = l.fetch("main")
	l.new = l.merge(l.old, l.fetch("work")).Commit
	l.git("checkout", "-q", "-b", "side", "HEAD~1")
	l.commit("other.txt", "side\n")
	linked := filepath.Join(l.dir+"-linked", "tree")
	t.Cleanup(func() { os.RemoveAll(l.dir + "-linked") })
	l.git("worktree", "add", "-q", linked, "main")
	if out, err := gitCommand(linked, "rebase", "side").CombinedOutput(); err == nil {
		t.Fatalf("the rebase has no conflict: %s", out)
	}
	l.waited(l.forward(), linked, clone.Rebasing)
}

func TestForwardTwoTrees(t *testing.T) {
	l := newLanding(t)
	linked := filepath.Join(l.dir+"-linked", "tree")
	t.Cleanup(func() { os.RemoveAll(l.dir + "-linked") })
	l.git("worktree", "add", "-q", "--force", linked, "main")
	writeFile(t, filepath.Join(linked, "a.txt"), "mine\n")
	l.waited(l.forward(), linked, clone.Changed, "a.txt")

	l.gitIn(linked, "checkout", "a.txt")
	if got := l.forward(); !got.Moved || len(got.Trees) != 2 {
		t.Errorf("got %+v", got)
	}
	l.landed(l.dir, "")
	l.landed(linked, "")
	if left, _ := filepath.Glob(filepath.Join(linked, ".parley-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestForwardBareRepository(t *testing.T) {
	l := newLanding(t)
	bare := t.TempDir()
	l.git("clone", "-q", "--bare", l.dir, bare)
	c, err := l.copies.Of(t.Context(), bare)
	if err != nil {
		t.Fatal(err)
	}
	base, err := c.Head(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	work, err := c.Fetch(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Merge(t.Context(), base, work, "Land it\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Forward(t.Context(), "main", base.ID, m.Commit.ID)
	if err != nil || !got.Moved || len(got.Trees) != 0 {
		t.Errorf("got %+v (%v)", got, err)
	}
	if head := l.gitIn(bare, "rev-parse", "main"); head != m.Commit.ID {
		t.Errorf("main is at %s", head)
	}
}

func TestForwardShallowClone(t *testing.T) {
	l := newLanding(t)
	l.git("checkout", "-q", "work")
	l.commit("a.txt", "newer a\n")
	shallow := t.TempDir()
	l.git("clone", "-q", "--depth=1", "--branch=work", "file://"+l.dir, shallow)
	l.gitIn(shallow, "checkout", "-q", "-b", "more")
	writeFile(t, filepath.Join(shallow, "more.txt"), "more\n")
	l.gitIn(shallow, "add", ".")
	l.gitIn(shallow, "commit", "-q", "-m", "more")
	l.gitIn(shallow, "checkout", "-q", "work")

	c, err := l.copies.Of(t.Context(), shallow)
	if err != nil {
		t.Fatal(err)
	}
	base, err := c.Head(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	more, err := c.Fetch(t.Context(), "more")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Merge(t.Context(), base, more, "Land it\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Forward(t.Context(), "work", base.ID, m.Commit.ID)
	if err != nil || !got.Moved {
		t.Errorf("got %+v (%v)", got, err)
	}
	if read(t, shallow, "more.txt") != "more\n" || l.gitIn(shallow, "status", "--porcelain") != "" {
		t.Error("the shallow clone was not brought forward")
	}

	// The whole history comes when the clone has it.
	l.gitIn(shallow, "fetch", "-q", "--unshallow")
	if _, err := c.Fetch(t.Context(), "HEAD"); err != nil {
		t.Fatal(err)
	}
	if log := l.gitIn(c.Folder(), "log", "--format=%s", base.ID); strings.Count(log, "\n") != 2 {
		t.Errorf("the copy has the history %q", log)
	}
}

func TestForwardWithoutCommits(t *testing.T) {
	r := newRepository(t)
	c := r.copy()
	if _, err := c.Head(t.Context(), "main"); !errors.Is(err, clone.ErrNoCommit) {
		t.Errorf("the head: %v, want ErrNoCommit", err)
	}
	r.git("checkout", "-q", "-b", "work")
	id := r.commit("a.txt", "new a\n")
	r.fetch("work")
	r.git("checkout", "-q", "--orphan", "main")
	r.git("rm", "-q", "-r", "--cached", ".")

	r.write("a.txt", "mine\n")
	got, err := c.Forward(t.Context(), "main", "", id)
	if err != nil || len(got.Waits) != 1 || got.Waits[0].Reason != clone.Untracked {
		t.Errorf("got %+v (%v), want to wait for a.txt", got, err)
	}
	os.Remove(filepath.Join(r.dir, "a.txt"))
	got, err = c.Forward(t.Context(), "main", "", id)
	if err != nil || !got.Moved {
		t.Errorf("got %+v (%v)", got, err)
	}
	if read(t, r.dir, "a.txt") != "new a\n" || r.git("status", "--porcelain") != "" || r.git("rev-parse", "main") != id {
		t.Error("the first commit did not land")
	}
}

func TestForwardSubmodule(t *testing.T) {
	l := newLanding(t)
	l.git("checkout", "-q", "work")
	l.git("update-index", "--add", "--cacheinfo", "160000,"+l.old.ID+",sub")
	l.git("commit", "-q", "-m", "submodule")
	with := l.fetch("work")
	l.git("checkout", "-q", "main")
	os.RemoveAll(filepath.Join(l.dir, "sub"))
	l.new = l.merge(l.old, with).Commit
	got := l.forward()
	if !got.Moved || !reflect.DeepEqual(got.Submodules, []string{"sub"}) {
		t.Errorf("got %+v", got)
	}
	l.landed(l.dir, "")

	// A later commit of the submodule changes the index alone.
	l.write("sub/mine.txt", "mine\n")
	l.git("checkout", "-q", "-b", "work3")
	l.git("update-index", "--cacheinfo", "160000,"+l.new.ID+",sub")
	l.git("commit", "-q", "-m", "submodule moves")
	l.old = l.fetch("main")
	next := l.fetch("work3")
	l.git("checkout", "-q", "main")
	l.new = l.merge(l.old, next).Commit
	if got := l.forward(); !got.Moved || read(t, l.dir, "sub", "mine.txt") != "mine\n" {
		t.Errorf("got %+v", got)
	}
}

// A submodule that the landing removes stays as a folder of the person; one that becomes a file is
// in the way of it.
func TestForwardRemovesSubmodule(t *testing.T) {
	for _, becomesFile := range []bool{false, true} {
		l := newLandingWithSubmodule(t)
		l.git("checkout", "-q", "-b", "without")
		l.git("rm", "-q", "--cached", "sub")
		if becomesFile {
			id := l.git("rev-parse", "HEAD:a.txt")
			l.git("update-index", "--add", "--cacheinfo", "100644,"+id+",sub")
		}
		l.git("commit", "-q", "-m", "without the submodule")
		without := l.fetch("without")
		l.git("symbolic-ref", "HEAD", "refs/heads/main")
		l.git("reset", "-q")
		l.new = l.merge(l.old, without).Commit
		got := l.forward()
		if text := read(t, l.dir, "sub", "mine.txt"); text != "mine\n" {
			t.Errorf("the file of the person is %q", text)
		}
		if becomesFile {
			l.waited(got, l.dir, clone.Untracked, "sub/mine.txt")
		} else if !got.Moved || l.git("ls-files", "sub") != "" {
			t.Errorf("got %+v", got)
		}
		l.noTraces()
	}
}

// newLandingWithSubmodule is a landing whose target has a submodule with a file of a person.
func newLandingWithSubmodule(t *testing.T) *landing {
	t.Helper()
	r := serialRepository(t)
	first := r.commit("a.txt", "a\n")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+first+",sub")
	r.git("commit", "-q", "-m", "submodule")
	r.write("sub/mine.txt", "mine\n")
	return &landing{repository: r, old: r.fetch("main")}
}

// A file becomes a folder, a folder a file, a file a link, in one landing.
func TestForwardChangesKinds(t *testing.T) {
	r := newRepository(t)
	first := r.commit("f", "file\n", "d/x", "x\n", "d/y/z", "z\n", "l", "plain\n", "weird \"name\"\n", "w\n")
	r.git("checkout", "-q", "-b", "work")
	for _, name := range []string{"f", "d", "l"} {
		os.RemoveAll(filepath.Join(r.dir, name))
	}
	os.Symlink("../outside", filepath.Join(r.dir, "l"))
	r.commit("f/in", "in\n", "d", "now a file\n", "weird \"name\"\n", "ww\n")
	r.fetch("work")
	r.git("checkout", "-q", "main")
	l := &landing{repository: r, old: r.fetch(first), new: r.fetch("work")}

	r.write("d/y/mine", "mine\n")
	l.waited(l.forward(), r.dir, clone.Untracked, "d/y/mine")
	os.Remove(filepath.Join(r.dir, "d/y/mine"))
	os.MkdirAll(filepath.Join(r.dir, "d/empty"), 0o755)
	if got := l.forward(); !got.Moved {
		t.Fatalf("got %+v", got)
	}
	target, _ := os.Readlink(filepath.Join(r.dir, "l"))
	if read(t, r.dir, "f/in") != "in\n" || read(t, r.dir, "d") != "now a file\n" || target != "../outside" || r.git("status", "--porcelain") != "" {
		t.Errorf("the status is %q", r.git("status", "--porcelain"))
	}
	l.noTraces()
}

func TestForwardRefuses(t *testing.T) {
	l := newLanding(t)
	c := l.copy()
	moved := l.commit("other.txt", "committed meanwhile\n")
	if _, err := c.Forward(t.Context(), "main", l.old.ID, l.new.ID); !errors.Is(err, clone.ErrMoved) {
		t.Errorf("a branch that moved: %v, want ErrMoved", err)
	}
	l.fetch("main")
	if _, err := c.Forward(t.Context(), "main", moved, l.new.ID); !errors.Is(err, clone.ErrNotForward) {
		t.Errorf("a commit beside the branch: %v, want ErrNotForward", err)
	}
	if _, err := c.Forward(t.Context(), "../x", l.old.ID, l.new.ID); !errors.Is(err, clone.ErrName) {
		t.Errorf("a bad name: %v, want ErrName", err)
	}
	l.noTraces()
}

// Files outside of a sparse checkout come into the index alone.
func TestForwardSparseCheckout(t *testing.T) {
	for _, index := range []string{"--sparse-index", "--no-sparse-index"} {
		t.Run(index, func(t *testing.T) {
			l := newLanding(t)
			l.git("sparse-checkout", "set", "--cone", index, "kept")
			if got := l.forward(); !got.Moved {
				t.Errorf("got %+v", got)
			}
			if read(t, l.dir, "new", "n.txt") != "-" || read(t, l.dir, "a.txt") != "new a\n" || l.git("status", "--porcelain") != "" || l.git("rev-parse", "main") != l.new.ID {
				t.Errorf("the status is %q", l.git("status", "--porcelain"))
			}
			l.noTraces()
		})
	}
}

func TestForwardSettingsOfTheTree(t *testing.T) {
	for _, setting := range []string{"core.splitIndex=true", "core.untrackedCache=true", "index.version=4"} {
		t.Run(setting, func(t *testing.T) {
			l := newLanding(t)
			name, value, _ := strings.Cut(setting, "=")
			l.git("config", name, value)
			l.write("other.txt", "mine\n")
			l.git("add", "other.txt")
			l.git("status")
			if got := l.forward(); !got.Moved {
				t.Fatalf("got %+v", got)
			}
			l.landed(l.dir, "M  other.txt")
		})
	}
}

func TestForwardLineEnds(t *testing.T) {
	l := newLanding(t)
	l.git("config", "core.autocrlf", "true")
	for _, name := range []string{"a.txt", "gone.txt", "run.sh"} {
		os.Remove(filepath.Join(l.dir, name))
	}
	l.git("checkout", ".")
	if got := l.forward(); !got.Moved {
		t.Fatalf("got %+v", got)
	}
	if got := read(t, l.dir, "a.txt"); got != "new a\r\n" || l.git("status", "--porcelain") != "" {
		t.Errorf("a.txt is %q", got)
	}
}

// A name that changes in case alone makes place for itself.
func TestForwardRenamesInCase(t *testing.T) {
	r := newRepository(t)
	first := r.commit("readme", "text\n")
	r.git("checkout", "-q", "-b", "work")
	r.git("mv", "-f", "readme", "README")
	r.commit()
	r.git("checkout", "-q", "main")
	r.git("config", "core.ignorecase", "true")
	l := &landing{repository: r, old: r.fetch(first), new: r.fetch("work")}
	if got := l.forward(); !got.Moved {
		t.Fatalf("got %+v", got)
	}
	if read(t, r.dir, "README") != "text\n" || r.git("ls-files") != "README" {
		t.Errorf("the index has %q", r.git("ls-files"))
	}
}

// Waits name the first paths alone.
func TestWaitsText(t *testing.T) {
	w := clone.Waits{Folder: "/w", Reason: clone.Changed, Paths: []string{"a", "b", "c", "d"}}
	if got := w.String(); got != "waits for /w: it has changes in a, b, c, ..." {
		t.Errorf("got %q", got)
	}
	w = clone.Waits{Folder: "/w", Reason: clone.Rebasing}
	if got := w.String(); got != "waits for /w: a rebase is in progress" {
		t.Errorf("got %q", got)
	}
}
