package clone_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
)

func TestDifference(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepository(t, "--object-format="+format)
			r.commit("code.go", "func f() {\n\treturn 1\n}\n", "ends.txt", "one\ntwo\n", "space.txt", "a b\nc\n", "mode.sh", "x\n", "gone.txt", "text\n", "empty-gone", "", "link-me", "target", "bin", "\x00 1")
			old := r.fetch("HEAD")

			os.Remove(filepath.Join(r.dir, "gone.txt"))
			os.Remove(filepath.Join(r.dir, "empty-gone"))
			os.Remove(filepath.Join(r.dir, "link-me"))
			os.Symlink("target", filepath.Join(r.dir, "link-me"))
			os.Chmod(filepath.Join(r.dir, "mode.sh"), 0o755)
			r.git("config", "core.autocrlf", "false")
			r.commit("code.go", "func f() {\n\treturn 2\n}\n", "ends.txt", "one\r\ntwo\r\n\n", "space.txt", "a  b\n\n   c\n", "empty-new", "", "blank-new", " \n\n", "new.txt", "text\n", "bin", "\x00  1")
			now := r.fetch("HEAD")

			changes, err := r.copy().Difference(t.Context(), old.ID, now.ID)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ch := range changes {
				got = append(got, strings.TrimSuffix(ch.Path+" "+string(ch.Status)+" "+string(ch.Trivial), " "))
			}
			want := []string{
				"bin modified", "blank-new added whitespace", "code.go modified", "empty-gone removed empty", "empty-new added empty", "ends.txt modified line ends",
				"gone.txt removed", "link-me retyped", "mode.sh modified mode", "new.txt added", "space.txt modified whitespace",
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if all, err := r.copy().Difference(t.Context(), "", old.ID); err != nil || len(all) != 8 {
				t.Errorf("from nothing: %d changes (%v), want 8", len(all), err)
			}
		})
	}
}

// branch makes a commit on a new branch that begins at a commit, and returns it fetched.
func (r *repository) branch(from, name string, files ...string) clone.Commit {
	r.Helper()
	was := r.git("symbolic-ref", "--short", "HEAD")
	r.git("checkout", "-q", "-b", name, from)
	r.commit(files...)
	r.git("checkout", "-q", was)
	return r.fetch(name)
}

// merge merges a commit onto a base without conflicts.
func (r *repository) merge(base, change clone.Commit) clone.Merge {
	r.Helper()
	m, err := r.copy().Merge(r.Context(), base, change, "Land it\n")
	if err != nil {
		r.Fatal(err)
	}
	if m.Commit.ID == "" {
		r.Fatalf("there are conflicts: %+v", m.Conflicts)
	}
	return m
}

func TestMergeAndRevert(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepository(t, "--object-format="+format)
			first := r.commit("a.txt", "one\n", "b.txt", "one\n")
			x := r.branch(first, "x", "a.txt", "two\n")
			y := r.branch(first, "y", "b.txt", "two\n", "new.txt", "new\n")
			base := r.fetch("main")
			c := r.copy()

			one := r.merge(base, x)
			two := r.merge(one.Commit, y)
			if parents := r.gitIn(c.Folder(), "show", "-s", "--format=%P", two.Commit.ID); parents != one.Commit.ID+" "+y.ID {
				t.Errorf("the parents are %s", parents)
			}
			if who := r.gitIn(c.Folder(), "show", "-s", "--format=%an %ae %cn %s", two.Commit.ID); who != "Parley parley@localhost Parley Land it" {
				t.Errorf("the commit says %q", who)
			}
			again, err := c.Merge(t.Context(), two.Commit, x, "Again\n")
			if err != nil || !again.Unchanged || again.Commit != two.Commit {
				t.Errorf("a second merge gives %+v (%v)", again, err)
			}

			undone, err := c.Revert(t.Context(), two.Commit, one.Commit.ID, "Undo it\n")
			if err != nil || undone.Commit.ID == "" {
				t.Fatalf("the revert gives %+v (%v)", undone, err)
			}
			changes, err := c.Difference(t.Context(), two.Commit.ID, undone.Commit.ID)
			if err != nil || len(changes) != 1 || changes[0].Path != "a.txt" {
				t.Errorf("the revert changes %v (%v), want a.txt", changes, err)
			}
			twice, err := c.Revert(t.Context(), undone.Commit, one.Commit.ID, "Undo it\n")
			if err != nil || !twice.Unchanged {
				t.Errorf("a second revert gives %+v (%v)", twice, err)
			}
			if _, err := c.Revert(t.Context(), two.Commit, first, "Undo the first\n"); err != nil {
				t.Errorf("the revert of a commit without parents: %v", err)
			}
		})
	}
}

func TestMergeConflicts(t *testing.T) {
	r := newRepository(t)
	first := r.commit("a.txt", "one\n", "gone.txt", "1\n2\n3\n", "bin", "\x00a", "big", "x\n")
	base := r.branch(first, "ours", "a.txt", "ours\n", "gone.txt", "1\n2\n3\n4\n", "bin", "\x00b", "big", strings.Repeat("o\n", 200<<10))
	r.git("checkout", "-q", "-b", "theirs", first)
	os.Remove(filepath.Join(r.dir, "gone.txt"))
	r.commit("a.txt", "theirs\n", "bin", "\x00c", "big", "t\n", "fine.txt", "fine\n")
	change := r.fetch("theirs")

	m, err := r.copy().Merge(t.Context(), base, change, "Land it\n")
	if err != nil || m.Commit.ID != "" {
		t.Fatalf("got %+v (%v), want conflicts", m.Commit, err)
	}
	byPath := map[string]clone.Conflict{}
	for _, conflict := range m.Conflicts {
		byPath[conflict.Path] = conflict
	}
	a, gone, bin, big := byPath["a.txt"], byPath["gone.txt"], byPath["bin"], byPath["big"]
	if len(byPath) != 4 || a.Kind != "contents" || a.Base.Content != "one\n" || a.Ours.Content != "ours\n" || a.Theirs.Content != "theirs\n" {
		t.Errorf("got %+v of %d", a, len(byPath))
	}
	if gone.Kind != "modify/delete" || gone.Theirs != nil || gone.Ours.Content != "1\n2\n3\n4\n" {
		t.Errorf("got %+v", gone)
	}
	if !bin.Ours.Binary || bin.Ours.Content != "" {
		t.Errorf("got %+v", bin.Ours)
	}
	if !big.Ours.Cut || len(big.Ours.Content) != 256<<10 || big.Ours.Size != 400<<10 {
		t.Errorf("a text of %d bytes, cut %v, size %d", len(big.Ours.Content), big.Ours.Cut, big.Ours.Size)
	}
}

func TestMergeNamesSpecialFiles(t *testing.T) {
	r := newRepository(t)
	first := r.commit("README.md", "one\n", "doc", "file\n")
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	r.git("checkout", "-q", "-b", "x")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+first+",sub")
	r.write("movie.bin", pointer)
	r.write("readme.md", "two\n")
	r.write("Doc/a.txt", "two\n")
	r.git("add", "movie.bin", "readme.md", "Doc/a.txt")
	r.git("commit", "-q", "-m", "x")
	m := r.merge(r.fetch("main"), r.fetch("x"))
	if !reflect.DeepEqual(m.Submodules, []string{"sub"}) || !reflect.DeepEqual(m.LFS, []string{"movie.bin"}) {
		t.Errorf("submodules %q, LFS %q", m.Submodules, m.LFS)
	}
	if want := [][]string{{"Doc", "doc"}, {"README.md", "readme.md"}}; !reflect.DeepEqual(m.Twins, want) {
		t.Errorf("twins %q, want %q", m.Twins, want)
	}
}

func TestMergeOfUnrelatedHistories(t *testing.T) {
	r := newRepository(t)
	r.commit("a.txt", "one\n")
	base := r.fetch("main")
	r.git("checkout", "-q", "--orphan", "other")
	r.commit("b.txt", "two\n")
	if _, err := r.copy().Merge(t.Context(), base, r.fetch("other"), "Land it\n"); !errors.Is(err, clone.ErrUnrelated) {
		t.Errorf("got %v, want ErrUnrelated", err)
	}
}
