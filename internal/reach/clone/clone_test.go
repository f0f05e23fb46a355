package clone_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
)

// A repository is one of a user, in a folder of the test.
type repository struct {
	*testing.T
	dir    string
	copies *clone.Copies
}

// userSettings are the user's configuration in all tests.
const userSettings = "[user]\n\tname = u\n\temail = u@example.org\n[init]\n\tdefaultBranch = main\n[core]\n\tfsync = none\n"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Getenv(childCopies) != "" {
		return child()
	}
	// The tests end processes, not machines, so a file system in memory will do.
	memory, err := os.MkdirTemp("/dev/shm", "clone-")
	if err == nil {
		os.Setenv("TMPDIR", memory)
		defer os.RemoveAll(memory)
	}
	home, err := os.MkdirTemp("", "clone-home-")
	if err != nil {
		panic(err)
	}
	os.Setenv("HOME", home)
	os.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "xdg"))
	os.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, ".gitconfig"))
	os.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(userSettings), 0o600); err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)
	return m.Run()
}

// newRepository makes an empty repository and a folder of copies. The test runs beside others
// from here on.
func newRepository(t *testing.T, args ...string) *repository {
	t.Helper()
	t.Parallel()
	return serialRepository(t, args...)
}

// serialRepository is newRepository for a test that changes the environment.
func serialRepository(t *testing.T, args ...string) *repository {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	copies, err := clone.Open(filepath.Join(t.TempDir(), "copies"))
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{T: t, dir: dir, copies: copies}
	r.git(append([]string{"init", "-q"}, args...)...)
	return r
}

// git runs git as the user does.
func (r *repository) git(args ...string) string {
	r.Helper()
	return r.gitIn(r.dir, args...)
}

func (r *repository) gitIn(dir string, args ...string) string {
	r.Helper()
	out, err := gitCommand(dir, args...).CombinedOutput()
	if err != nil {
		r.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func gitCommand(dir string, args ...string) *exec.Cmd {
	return exec.Command("git", append([]string{"-C", dir}, args...)...)
}

// write writes a file of the working tree.
func (r *repository) write(name, text string) {
	r.Helper()
	writeFile(r.T, filepath.Join(r.dir, name), text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// commit writes files, given as name and text, and commits the whole tree.
func (r *repository) commit(files ...string) string {
	r.Helper()
	for i := 0; i+1 < len(files); i += 2 {
		r.write(files[i], files[i+1])
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "change")
	return r.git("rev-parse", "HEAD")
}

// copy returns the hub's copy of the repository.
func (r *repository) copy() *clone.Copy {
	r.Helper()
	c, err := r.copies.Of(r.Context(), r.dir)
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// fetch brings a revision into the copy.
func (r *repository) fetch(revision string) clone.Commit {
	r.Helper()
	out, err := r.copy().Fetch(r.Context(), revision)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// read returns the text of a file, "-" if there is none.
func read(t *testing.T, elements ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(elements...))
	if errors.Is(err, os.ErrNotExist) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestFetchAndCheckout(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepository(t, "--object-format="+format)
			first := r.commit("a.txt", "one\n", "dir/b.txt", "two\n")
			got := r.fetch("HEAD")
			if got.ID != first || got.Tree != r.git("rev-parse", "HEAD^{tree}") {
				t.Errorf("got %v, want commit %s", got, first)
			}

			second := r.commit("a.txt", "changed\n")
			c := r.copy()
			if head, err := c.Head(t.Context(), "main"); err != nil || head.ID != second {
				t.Errorf("the head is %v (%v), want %s", head, err, second)
			}
			if err := c.Keep(t.Context(), "try/1", second); err != nil {
				t.Fatal(err)
			}
			if kept, err := c.Kept(t.Context(), "try/1"); err != nil || kept.ID != second {
				t.Errorf("kept %v (%v), want %s", kept, err, second)
			}
			if err := c.Drop(t.Context(), "try/1"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Kept(t.Context(), "try/1"); !errors.Is(err, clone.ErrNoCommit) {
				t.Errorf("after the drop: %v, want ErrNoCommit", err)
			}

			folder := filepath.Join(t.TempDir(), "try")
			if err := c.Checkout(t.Context(), first, folder); err != nil {
				t.Fatal(err)
			}
			if a, b := read(t, folder, "a.txt"), read(t, folder, "dir", "b.txt"); a != "one\n" || b != "two\n" {
				t.Errorf("the files are %q and %q", a, b)
			}
			if status := r.gitIn(folder, "status", "--porcelain"); status != "" {
				t.Errorf("the tree is not clean: %s", status)
			}
			if err := c.Remove(t.Context(), folder); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is still there (%v)", err)
			}
			if list := r.gitIn(c.Folder(), "worktree", "list"); strings.Contains(list, "try") {
				t.Errorf("the working tree is still known: %s", list)
			}
			if again, err := r.copies.At(t.Context(), c.Folder()); err != nil || again.Repository() != c.Repository() {
				t.Errorf("At gives %v (%v)", again, err)
			}
		})
	}
}

func TestOpenRemovesLeftovers(t *testing.T) {
	r := newRepository(t)
	id := r.commit("a.txt", "one\n")
	r.fetch("HEAD")
	c := r.copy()
	folder := filepath.Join(t.TempDir(), "try")
	if err := c.Checkout(t.Context(), id, folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"packed-refs.lock", "refs/parley/x.lock", "objects/pack/tmp_pack_x"} {
		writeFile(t, filepath.Join(c.Folder(), name), "")
	}

	if _, err := clone.Open(filepath.Dir(c.Folder())); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(c.Folder(), "packed-refs.lock"), filepath.Join(c.Folder(), "refs/parley/x.lock"), filepath.Join(c.Folder(), "objects/pack/tmp_pack_x"), folder} {
		if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", name, err)
		}
	}
	if err := c.Checkout(t.Context(), id, folder); err != nil {
		t.Errorf("the copy does not work any more: %v", err)
	}
}

// A partial clone lacks objects, and git may not fetch them for us.
func TestFetchFromAPartialClone(t *testing.T) {
	r := newRepository(t)
	r.commit("a.txt", "one\n")
	r.commit("a.txt", "two\n")
	r.git("config", "uploadpack.allowFilter", "true")
	partial := t.TempDir()
	r.git("clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+r.dir, partial)
	c, err := r.copies.Of(t.Context(), partial)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fetch(t.Context(), "HEAD"); !errors.Is(err, clone.ErrIncomplete) {
		t.Errorf("got %v, want ErrIncomplete", err)
	}
}

func TestFetchRefusesRevisions(t *testing.T) {
	r := newRepository(t)
	r.commit("a.txt", "one\n")
	for _, revision := range []string{"", "--all", "^HEAD", "none", "HEAD\nHEAD", "HEAD:a.txt"} {
		if _, err := r.copy().Fetch(t.Context(), revision); !errors.Is(err, clone.ErrNoCommit) {
			t.Errorf("%q: %v, want ErrNoCommit", revision, err)
		}
	}
	for _, name := range []string{"", "../x", "a..b", "x.lock"} {
		if err := r.copy().Keep(t.Context(), name, "HEAD"); !errors.Is(err, clone.ErrName) {
			t.Errorf("%q: %v, want ErrName", name, err)
		}
	}
	if _, err := r.copies.Of(t.Context(), t.TempDir()); !errors.Is(err, clone.ErrNoRepository) {
		t.Errorf("outside of a repository: %v, want ErrNoRepository", err)
	}
}

// Many fetches leave few packs, and kept commits survive the removal of the rest.
func TestManyFetches(t *testing.T) {
	r := newRepository(t)
	var last string
	for range 25 {
		last = r.commit("a.txt", r.git("hash-object", "-w", "--stdin", "--path=x")+last+"\n")
		r.fetch("HEAD")
	}
	c := r.copy()
	packs, _ := filepath.Glob(filepath.Join(c.Folder(), "objects", "pack", "*.pack"))
	if len(packs) > 20 {
		t.Errorf("there are %d packs", len(packs))
	}
	if err := c.Keep(t.Context(), "last", last); err != nil {
		t.Fatal(err)
	}
	if err := r.copies.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.gitIn(c.Folder(), "fsck", "--full")
	if kept, err := c.Kept(t.Context(), "last"); err != nil || kept.ID != last {
		t.Errorf("kept %v (%v)", kept, err)
	}
}

// Checks run beside each other.
func TestCheckoutsBesideEachOther(t *testing.T) {
	r := newRepository(t)
	id := r.commit("a.txt", "one\n")
	r.fetch("HEAD")
	c := r.copy()
	base := t.TempDir()
	done := make(chan error)
	for i := range 8 {
		go func() {
			folder := filepath.Join(base, string(rune('a'+i)), "try")
			err := c.Checkout(t.Context(), id, folder)
			if err == nil {
				err = c.Remove(t.Context(), folder)
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
