package clone_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
)

// snapshot takes a snapshot of a folder, which must change nothing there.
func (r *repository) snapshot(folder string) clone.Snapshot {
	r.Helper()
	before := r.everything()
	got, err := r.copy().Snapshot(r.Context(), folder, "Rescue\n")
	if err != nil {
		r.Fatal(err)
	}
	if after := r.everything(); after != before {
		r.Errorf("the tree has changed from\n%s\nto\n%s", before, after)
	}
	r.gitIn(r.copy().Folder(), "fsck", "--connectivity-only", got.Commit.ID)
	return got
}

// files returns the names and contents of a commit of the copy.
func (r *repository) files(id string) map[string]string {
	r.Helper()
	out := map[string]string{}
	for _, name := range strings.Split(r.gitIn(r.copy().Folder(), "ls-tree", "-r", "--name-only", id), "\n") {
		out[name] = r.gitIn(r.copy().Folder(), "show", id+":"+name)
	}
	return out
}

func TestSnapshotAndApply(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepository(t, "--object-format="+format)
			base := r.commit("a.txt", "a\n", "gone.txt", "gone\n", "hidden.txt", "hidden\n", "staged.txt", "s\n", ".gitignore", "*.tmp\n")
			if clean := r.snapshot(r.dir); !clean.Clean || clean.Commit.ID != base {
				t.Errorf("of a clean tree: %+v", clean)
			}
			r.git("update-index", "--assume-unchanged", "hidden.txt")
			r.write("hidden.txt", "hidden change\n")
			r.write("a.txt", "changed\n")
			r.write("staged.txt", "staged\n")
			r.git("add", "staged.txt")
			r.write("dir/new.txt", "new\n")
			r.write("left.tmp", "ignored\n")
			os.Remove(filepath.Join(r.dir, "gone.txt"))
			os.Symlink("a.txt", filepath.Join(r.dir, "link"))
			r.git("init", "-q", filepath.Join(r.dir, "nested"))
			writeFile(t, filepath.Join(r.dir, "nested", "x"), "x\n")

			got := r.snapshot(filepath.Join(r.dir, "dir"))
			want := map[string]string{"a.txt": "changed", "hidden.txt": "hidden change", "staged.txt": "staged", "dir/new.txt": "new", "link": "a.txt", ".gitignore": "*.tmp"}
			if files := r.files(got.Commit.ID); !reflect.DeepEqual(files, want) {
				t.Errorf("got %q, want %q", files, want)
			}
			if got.Base != base || got.Files != 6 || !reflect.DeepEqual(got.Submodules, []string{"nested"}) {
				t.Errorf("got %+v", got)
			}

			// Another tree has moved on, and gets the changes as changes.
			linked := filepath.Join(r.dir+"-linked", "tree")
			t.Cleanup(func() { os.RemoveAll(r.dir + "-linked") })
			r.git("worktree", "add", "-q", "-b", "other", linked, base)
			writeFile(t, filepath.Join(linked, "later.txt"), "later\n")
			r.gitIn(linked, "add", "later.txt")
			r.gitIn(linked, "commit", "-q", "-m", "later")
			writeFile(t, filepath.Join(linked, "a.txt"), "mine\n")
			applied, err := r.copy().Apply(t.Context(), got.Commit.ID, linked)
			if err != nil || len(applied.Waits) != 1 || !reflect.DeepEqual(applied.Waits[0].Paths, []string{"a.txt"}) || read(t, linked, "dir/new.txt") != "-" {
				t.Errorf("over a change: %+v (%v)", applied, err)
			}
			r.gitIn(linked, "checkout", "a.txt")
			applied, err = r.copy().Apply(t.Context(), got.Commit.ID, linked)
			if err != nil || len(applied.Paths) != 6 {
				t.Errorf("got %+v (%v)", applied, err)
			}
			if status := r.gitIn(linked, "status", "--porcelain", "--untracked-files=all"); status != "M a.txt\n D gone.txt\n M hidden.txt\n M staged.txt\n?? dir/new.txt\n?? link" {
				t.Errorf("the status is %q", status)
			}
			if left, _ := filepath.Glob(filepath.Join(linked, ".parley-*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}

			// Applied twice, it changes nothing: before and after the changes are committed. A further change
			// of one of the files is in its way.
			status := r.gitIn(linked, "status", "--porcelain", "--untracked-files=all")
			again, err := r.copy().Apply(t.Context(), got.Commit.ID, linked)
			if now := r.gitIn(linked, "status", "--porcelain", "--untracked-files=all"); err != nil || len(again.Waits)+len(again.Conflicts) > 0 || now != status {
				t.Errorf("twice: %+v (%v), %q", again, err, now)
			}
			writeFile(t, filepath.Join(linked, "a.txt"), "changed further\n")
			if again, err = r.copy().Apply(t.Context(), got.Commit.ID, linked); err != nil || len(again.Waits) == 0 || read(t, linked, "a.txt") != "changed further\n" {
				t.Errorf("after a further change: %+v (%v), %q", again, err, read(t, linked, "a.txt"))
			}
			writeFile(t, filepath.Join(linked, "a.txt"), "changed\n")
			r.gitIn(linked, "update-index", "--no-assume-unchanged", "hidden.txt")
			r.gitIn(linked, "add", "-A")
			r.gitIn(linked, "commit", "-q", "-m", "the work")
			again, err = r.copy().Apply(t.Context(), got.Commit.ID, linked)
			if now := r.gitIn(linked, "status", "--porcelain"); err != nil || len(again.Paths)+len(again.Waits)+len(again.Conflicts) > 0 || now != "" {
				t.Errorf("after the commit: %+v (%v), %q", again, err, now)
			}
		})
	}
}

func TestSnapshotWithoutCommits(t *testing.T) {
	r := newRepository(t)
	r.write("a.txt", "a\n")
	got := r.snapshot(r.dir)
	if got.Base != "" || got.Files != 1 || got.Bytes != 2 || !reflect.DeepEqual(r.files(got.Commit.ID), map[string]string{"a.txt": "a"}) {
		t.Errorf("got %+v", got)
	}
	os.Remove(filepath.Join(r.dir, "a.txt"))
	applied, err := r.copy().Apply(t.Context(), got.Commit.ID, r.dir)
	if err != nil || read(t, r.dir, "a.txt") != "a\n" {
		t.Errorf("got %+v (%v)", applied, err)
	}
}

// Changes inside a submodule are its own repository's: they stay, and the snapshot names it.
func TestSnapshotWithSubmodule(t *testing.T) {
	other := newRepository(t)
	other.commit("x.txt", "x\n")
	r := serialRepository(t)
	r.commit("a.txt", "a\n")
	r.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other.dir, "sub")
	r.git("commit", "-q", "-m", "a submodule")
	r.write("a.txt", "changed\n")
	r.write("sub/x.txt", "mine\n")

	got := r.snapshot(r.dir)
	if got.Files != 1 || !reflect.DeepEqual(got.Submodules, []string{"sub"}) || r.gitIn(r.copy().Folder(), "show", got.Commit.ID+":a.txt") != "changed" {
		t.Errorf("got %+v", got)
	}
	r.git("checkout", "-q", "a.txt")
	applied, err := r.copy().Apply(t.Context(), got.Commit.ID, r.dir)
	if err != nil || !reflect.DeepEqual(applied.Paths, []string{"a.txt"}) || read(t, r.dir, "a.txt") != "changed\n" || read(t, r.dir, "sub/x.txt") != "mine\n" {
		t.Errorf("got %+v (%v)", applied, err)
	}
}

// Files of git LFS are stored with their content: no filter runs, and none brings it into the tree.
func TestSnapshotOfLargeFiles(t *testing.T) {
	l, store := newLargeFiles(t)
	before := readFolder(t, store)
	l.write("big.bin", "mine\n")
	l.write("new.bin", "new\n")
	got := l.snapshot(l.dir)
	files := l.files(got.Commit.ID)
	if got.Files != 2 || files["big.bin"] != "mine" || files["new.bin"] != "new" {
		t.Errorf("got %+v with %q", got, files)
	}
	if after := readFolder(t, store); after != before {
		t.Errorf("a filter ran: the store has %s, had %s", after, before)
	}

	os.Remove(filepath.Join(l.dir, "new.bin"))
	l.git("checkout", "-q", "big.bin")
	applied, err := l.copy().Apply(t.Context(), got.Commit.ID, l.dir)
	if err != nil || read(t, l.dir, "big.bin") != "mine\n" || read(t, l.dir, "new.bin") != "new\n" {
		t.Errorf("got %+v (%v)", applied, err)
	}
}

// readFolder returns the names of the files in a folder.
func readFolder(t *testing.T, folder string) string {
	t.Helper()
	all, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, one := range all {
		names += one.Name() + " "
	}
	return names
}

func TestApplyConflict(t *testing.T) {
	r := newRepository(t)
	r.commit("a.txt", "a\n")
	r.write("a.txt", "mine\n")
	got := r.snapshot(r.dir)
	r.commit("a.txt", "other\n")
	applied, err := r.copy().Apply(t.Context(), got.Commit.ID, r.dir)
	if err != nil || len(applied.Conflicts) != 1 || applied.Conflicts[0].Theirs.Content != "mine\n" || read(t, r.dir, "a.txt") != "other\n" {
		t.Errorf("got %+v (%v)", applied, err)
	}
}

func TestSnapshotTooLarge(t *testing.T) {
	r := newRepository(t)
	r.commit("a.txt", "a\n")
	file, err := os.Create(filepath.Join(r.dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(1<<30+1), file.Close()); err != nil { // a file without blocks
		t.Fatal(err)
	}
	if _, err := r.copy().Snapshot(t.Context(), r.dir, "Rescue\n"); !errors.Is(err, clone.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestSnapshotOfAnotherRepository(t *testing.T) {
	r := newRepository(t)
	r.commit("a.txt", "a\n")
	other := t.TempDir()
	r.git("init", "-q", other)
	if _, err := r.copy().Snapshot(t.Context(), other, "Rescue\n"); !errors.Is(err, clone.ErrNoRepository) {
		t.Errorf("got %v, want ErrNoRepository", err)
	}
}

// An agent may stop in the middle of a merge: the files are kept with the marks of the conflict.
func TestSnapshotInAMerge(t *testing.T) {
	r := newRepository(t)
	base := r.commit("a.txt", "a\n", "theirs.txt", "t\n", "gone.txt", "g\n")
	r.git("checkout", "-q", "-b", "other", base)
	r.commit("a.txt", "other\n", "theirs.txt", "theirs\n")
	r.git("rm", "-q", "gone.txt")
	r.git("commit", "-q", "-m", "remove")
	r.git("checkout", "-q", "-b", "mine", base)
	r.git("rm", "-q", "theirs.txt")
	r.commit("a.txt", "mine\n", "gone.txt", "changed\n")
	cmd := exec.Command("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "merge", "-q", "other")
	cmd.Dir = r.dir
	if err := cmd.Run(); err == nil {
		t.Fatal("there is no conflict")
	}
	os.Remove(filepath.Join(r.dir, "gone.txt")) // deleted, and not added yet

	got := r.snapshot(r.dir)
	files := r.files(got.Commit.ID)
	if !strings.Contains(files["a.txt"], "<<<<<<<") || files["theirs.txt"] != "theirs" || len(files) != 2 {
		t.Errorf("got %q", files)
	}
}

// An index that is no file is refused, and not read without an end.
func TestSnapshotWithALinkAsIndex(t *testing.T) {
	r := newRepository(t)
	r.commit("a.txt", "a\n")
	r.write("a.txt", "changed\n")
	index := filepath.Join(r.dir, ".git", "index")
	os.Remove(index)
	if err := os.Symlink(os.DevNull, index); err != nil {
		t.Fatal(err)
	}
	if _, err := r.copy().Snapshot(t.Context(), r.dir, "Rescue\n"); !errors.Is(err, clone.ErrUnsafe) {
		t.Errorf("got %v, want ErrUnsafe", err)
	}
}

func TestNames(t *testing.T) {
	r := newRepository(t)
	id := r.commit("a.txt", "a\n")
	c := r.copy()
	if _, err := c.Fetch(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rescue/builder/1", "rescues/2", "landing/e1"} {
		if err := c.Keep(t.Context(), name, id); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.copies.Names(t.Context(), "rescue")
	if want := []clone.KeptName{{Folder: c.Folder(), Name: "rescue/builder/1"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}
