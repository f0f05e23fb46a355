package keep_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/keep"
)

// A world is a repository with a commit, and a store.
type world struct {
	*testing.T
	store *keep.Store
	home  string
	tree  hub.WorkingTree
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, home: filepath.Join(root, "home"), tree: hub.WorkingTree{Path: filepath.Join(root, "repo"), Repository: filepath.Join(root, "repo", ".git")}}
	w.store = must(keep.Open(w.home))(t)
	w.write("a.txt", "one\n")
	w.write("src/b.txt", "b\n")
	w.write(".gitignore", "*.log\n.env\nnode_modules/\n")
	w.git("init", "-q", "-b", "main")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
	return w
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (w *world) path(name string) string { return filepath.Join(w.tree.Path, name) }

func (w *world) write(name, content string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.Helper()
	raw, err := os.ReadFile(w.path(name))
	if err != nil {
		return "missing"
	}
	return string(raw)
}

func (w *world) git(args ...string) string {
	w.Helper()
	out, err := w.command("git", args...)
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// command runs a program in the tree as a user would, apart from this machine's configuration.
func (w *world) command(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = w.tree.Path
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *world) keep() hub.KeptState {
	w.Helper()
	return must(w.store.Keep(w.Context(), w.tree, keep.Options{}))(w.T)
}

// listed returns the files of a state as "state path".
func (w *world) listed(id string) (out []string) {
	w.Helper()
	for _, f := range must(w.store.Files(w.Context(), w.tree, id, "", true))(w.T) {
		out = append(out, f.State+" "+f.Path)
	}
	return out
}

func TestKeep(t *testing.T) {
	w := newWorld(t)
	w.write("gone.txt", "gone\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "second")
	w.write("a.txt", "two\n")
	w.write("new.txt", "new\n")
	w.write("staged.txt", "staged\n")
	w.git("add", "staged.txt")
	w.write("staged.txt", "staged and changed\n")
	w.write(".env", "SECRET=1\n")
	w.write("node_modules/x/index.js", "x\n")
	if err := os.Remove(w.path("gone.txt")); err != nil {
		t.Fatal(err)
	}

	first := w.keep()
	want := []string{"ignored .env", "changed a.txt", "deleted gone.txt", "new new.txt", "changed staged.txt"}
	if got := w.listed(first.ID); !slices.Equal(got, want) {
		t.Errorf("files: got %q, want %q", got, want)
	}
	if first.Added != 3 || first.Removed != 2 || first.Branch != "main" {
		t.Errorf("state: got %+v, want +3 -2 on main", first)
	}
	t.Run("an equal state is the same one", func(t *testing.T) {
		if again := w.keep(); again.ID != first.ID {
			t.Errorf("got %s and %s", first.ID, again.ID)
		}
		w.write("new.txt", "newer\n")
		changed := w.keep()
		w.write("new.txt", "new\n")
		if back := w.keep(); changed.ID == first.ID || back.ID != first.ID {
			t.Errorf("got %s, %s, %s: the state of the second alone differs", first.ID, changed.ID, back.ID)
		}
	})
	t.Run("without ignored files", func(t *testing.T) {
		got := must(w.store.Keep(t.Context(), w.tree, keep.Options{NoIgnored: true}))(t)
		if files := w.listed(got.ID); slices.Contains(files, "ignored .env") {
			t.Errorf("files: got %q", files)
		}
	})
}

// destroyers are commands that destroy uncommitted work, each with what it does.
var destroyers = []string{
	"git reset -q --hard", "git checkout -q .", "git checkout-index -f -a", "git read-tree -u --reset HEAD", "git stash -q -u && git stash drop -q", "git clean -fdxq && git restore .",
	"rm -rf a.txt src/deep new.txt .env", "find . -name '*.txt' -not -name b.txt -delete", "F=a.txt; echo x > $F", "sed -i s/two/three/ a.txt new.txt", "printf x | tee a.txt new.txt .env", "git stash -q -u && git stash clear",
	"mv new.txt a.txt", "git switch -q -f -c other HEAD && git checkout -q -f main", "git rm -q -f a.txt", "git -c core.autocrlf=true checkout -q -f .",
}

func TestBack(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	for _, command := range destroyers {
		t.Run(command, func(t *testing.T) {
			w := newWorld(t)
			w.write("a.txt", "two\r\n")
			w.write("new.txt", "two new\n")
			w.write(".env", "SECRET=1\n")
			w.write("src/deep/er.txt", "deep\n")
			if err := os.Chmod(w.path(".env"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("a.txt", w.path("link")); err != nil {
				t.Fatal(err)
			}
			before := w.keep()
			want := w.files()
			if out, err := w.command("sh", "-c", command); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			after, loss, err := w.store.After(t.Context(), w.tree, before.ID, keep.Options{})
			if err != nil || len(loss.Files) == 0 {
				t.Fatalf("loss: got %+v, %v", loss, err)
			}
			paths, left, err := w.store.Back(t.Context(), w.tree, keep.Return{State: before.ID, After: after.ID})
			if err != nil || len(left) > 0 || len(paths) == 0 {
				t.Errorf("back: got %q, %v, %v", paths, left, err)
			}
			if got := w.files(); got != want {
				t.Errorf("tree: got %s, want %s", got, want)
			}
		})
	}
}

// files returns all files of the tree outside of .git with their modes and contents.
func (w *world) files() string { return contents(w.T, w.tree.Path, ".git") }

// contents returns the files below a folder with their modes and contents, but for one folder.
func contents(t *testing.T, folder, except string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(folder, at)
		if err != nil || relErr != nil {
			return fmt.Errorf("%w %w", err, relErr)
		}
		if d.IsDir() {
			if rel == except {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		raw := []byte{}
		if info.Mode().IsRegular() {
			raw, err = os.ReadFile(at)
		}
		sum := sha256.Sum256(raw)
		fmt.Fprintf(&b, "%s %s %s\n", rel, info.Mode(), hex.EncodeToString(sum[:6]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBackTouchesNothingElse(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "two\n")
	w.write("src/b.txt", "mine\n")
	before := w.keep()
	w.git("checkout", "-q", ".")
	after, _, err := w.store.After(t.Context(), w.tree, before.ID, keep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.write("src/b.txt", "later\n")

	t.Run("a file that was changed since is listed", func(t *testing.T) {
		paths, left, err := w.store.Back(t.Context(), w.tree, keep.Return{State: before.ID, After: after.ID})
		if err != nil || !slices.Equal(paths, []string{"a.txt"}) || len(left) != 1 || left[0].Path != "src/b.txt" {
			t.Errorf("got %q, %v, %v", paths, left, err)
		}
		if w.read("a.txt") != "two\n" || w.read("src/b.txt") != "later\n" {
			t.Errorf("got %q and %q", w.read("a.txt"), w.read("src/b.txt"))
		}
	})
	t.Run("its name brings it back", func(t *testing.T) {
		paths, left, err := w.store.Back(t.Context(), w.tree, keep.Return{State: before.ID, After: after.ID, Paths: []string{"src"}})
		if err != nil || !slices.Equal(paths, []string{"src/b.txt"}) || len(left) > 0 || w.read("src/b.txt") != "mine\n" {
			t.Errorf("got %q, %v, %v, %q", paths, left, err, w.read("src/b.txt"))
		}
	})
	t.Run("a folder gets all of it, with the stash", func(t *testing.T) {
		w.git("stash", "push", "-q", "-m", "mine")
		w.write("a.txt", "three\n")
		kept := w.keep()
		into := filepath.Join(t.TempDir(), "out")
		if _, _, err := w.store.Back(t.Context(), w.tree, keep.Return{State: kept.ID, Into: into}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(into, "stash-0", "a.txt"))
		now, _ := os.ReadFile(filepath.Join(into, "a.txt"))
		if err != nil || string(raw) != "two\n" || string(now) != "three\n" {
			t.Errorf("got %q, %q, %v", raw, now, err)
		}
		if _, _, err := w.store.Back(t.Context(), w.tree, keep.Return{State: kept.ID, Into: into}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a folder with files: got %v", err)
		}
	})
	t.Run("a dropped entry of the stash is made again", func(t *testing.T) {
		kept := w.keep()
		w.git("stash", "clear")
		after, loss, err := w.store.After(t.Context(), w.tree, kept.ID, keep.Options{})
		if err != nil || len(loss.Stash) != 1 {
			t.Fatalf("loss: got %+v, %v", loss, err)
		}
		if _, _, err := w.store.Back(t.Context(), w.tree, keep.Return{State: kept.ID, After: after.ID, Stash: true}); err != nil {
			t.Fatal(err)
		}
		if got := w.git("stash", "list"); !strings.Contains(got, "mine") {
			t.Errorf("stash: got %q", got)
		}
	})
	t.Run("the index on request", func(t *testing.T) {
		w.write("a.txt", "staged\n")
		w.git("add", "a.txt")
		w.write("a.txt", "worked\n")
		kept := w.keep()
		w.git("reset", "-q", "--hard")
		after, _, err := w.store.After(t.Context(), w.tree, kept.ID, keep.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.store.Back(t.Context(), w.tree, keep.Return{State: kept.ID, After: after.ID, Index: true}); err != nil {
			t.Fatal(err)
		}
		if got := w.git("show", ":a.txt"); got != "staged\n" || w.read("a.txt") != "worked\n" {
			t.Errorf("got %q in the index, %q in the tree", got, w.read("a.txt"))
		}
	})
}

func TestKeepingChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "two\n")
	w.write("crlf.txt", "a\r\nb\r\n")
	w.write(".gitattributes", "*.txt text eol=crlf filter=evil\n")
	w.git("config", "filter.evil.clean", "touch ran; cat")
	w.git("config", "core.fsmonitor", "touch ran")
	w.write("st.txt", "x\n")
	w.git("-c", "core.fsmonitor=false", "-c", "filter.evil.clean=", "stash", "push", "-q", "-u", "--", "st.txt")
	before := stamps(t, w.tree.Path)
	all := contents(t, w.tree.Path, "")
	for i := range 1000 {
		if i%100 == 0 { // the look of a hub that begins
			w.store = must(keep.Open(w.home))(t)
		}
		w.keep()
	}
	if got := contents(t, w.tree.Path, ""); got != all {
		t.Errorf("the repository changed: got %s, want %s", got, all)
	}
	if got := stamps(t, w.tree.Path); got != before {
		t.Errorf("times of files changed: got %s, want %s", got, before)
	}
	if w.read("ran") != "missing" {
		t.Error("a program of the repository ran")
	}
}

// stamps returns the times of all files and folders.
func stamps(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&b, at, info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestUnusualTrees(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the names and modes are those of Unix")
	}
	tests := []struct {
		name string
		make string // by a shell, after the first commit
		want string // one of the listed files
	}{
		{"a name that is not UTF-8", `printf x > "$(printf 'n\377.txt')"`, "new n\xff.txt"},
		{"a name with a newline", `printf x > "$(printf 'n\nm')"`, "new n\nm"},
		{"index.lock of a person's git", `touch .git/index.lock; echo y > a.txt`, "changed a.txt"},
		{"a merge with a conflict", `git checkout -q -b o; echo o > a.txt; git commit -qam o; git checkout -q main; echo m > a.txt; git commit -qam m; git merge -q o >/dev/null; true`, "changed a.txt"},
		{"a split index", `git update-index --split-index; echo y > a.txt`, "changed a.txt"},
		{"a file that git assumes to be unchanged", `git update-index --assume-unchanged a.txt; echo y > a.txt`, "changed a.txt"},
		{"a sparse checkout", `git sparse-checkout set --no-cone /a.txt 2>/dev/null; echo y > a.txt`, "changed a.txt"},
		{"a new repository inside", `git init -q inner; echo x > inner/f; echo y > a.txt`, "changed a.txt"},
		{"borrowed objects", `git clone -q --bare . "$HOME/other"; echo "$HOME/other/objects" > .git/objects/info/alternates; echo y > a.txt`, "changed a.txt"},
		{"an executable", `chmod +x a.txt`, "changed a.txt"},
		{"a large file beside", `head -c 60000000 /dev/zero > big; echo y > a.txt`, "changed a.txt"},
		{"a detached head", `git checkout -q --detach; echo y > a.txt`, "changed a.txt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if out, err := w.command("sh", "-c", tt.make); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := w.listed(w.keep().ID); !slices.Contains(got, tt.want) {
				t.Errorf("files: got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("a repository without a commit", func(t *testing.T) {
		w := newWorld(t)
		os.RemoveAll(w.path(".git"))
		w.git("init", "-q")
		w.git("add", "a.txt")
		if got := w.listed(w.keep().ID); !slices.Contains(got, "staged a.txt") || !slices.Contains(got, "new src/b.txt") {
			t.Errorf("files: got %q", got)
		}
	})
	t.Run("ignored files by bounds", func(t *testing.T) {
		w := newWorld(t)
		for i := range 300 {
			w.write(fmt.Sprintf("logs/%03d.log", i), "x\n")
		}
		w.write("deep.log", "x\n")
		got := w.keep()
		files := w.listed(got.ID)
		if len(files) != 200 || !slices.Contains(files, "ignored deep.log") || len(got.NamedOnly) != 1 {
			t.Errorf("got %d files, named %q", len(files), got.NamedOnly)
		}
	})
}

func TestSweep(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "only in the first\n")
	first := w.keep()
	w.write("a.txt", "in the second\n")
	second := w.keep()
	if missing := must(w.store.Check(t.Context(), w.tree, first.ID))(t); len(missing) > 0 {
		t.Errorf("missing: got %q", missing)
	}
	if _, err := w.store.Sweep(t.Context(), w.tree, []string{second.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Check(t.Context(), w.tree, first.ID); hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("a swept state: got %v", err)
	}
	if missing := must(w.store.Check(t.Context(), w.tree, second.ID))(t); len(missing) > 0 {
		t.Errorf("missing: got %q", missing)
	}
	objects, _ := filepath.Glob(filepath.Join(w.home, "*", "objects", "*", "*"))
	if len(objects) != 1 {
		t.Errorf("objects: got %q, want one", objects)
	}
}

func TestCommitsOfBranches(t *testing.T) {
	w := newWorld(t)
	w.git("checkout", "-q", "-b", "work")
	w.write("a.txt", "work\n")
	w.git("commit", "-qam", "work")
	id := strings.TrimSpace(w.git("rev-parse", "HEAD"))
	w.git("checkout", "-q", "main")
	before := w.keep()
	w.git("branch", "-D", "work")
	w.git("reflog", "expire", "--expire=now", "--all")
	w.git("gc", "-q", "--prune=now")
	_, loss, err := w.store.After(t.Context(), w.tree, before.ID, keep.Options{})
	if err != nil || !slices.Equal(loss.Branches, []string{"work at " + id}) {
		t.Fatalf("loss: got %+v, %v", loss, err)
	}
	packs, _ := filepath.Glob(filepath.Join(w.home, "*", "packs", "*.pack"))
	if len(packs) != 1 {
		t.Fatalf("packs: got %q", packs)
	}
	raw := must(os.ReadFile(packs[0]))(t)
	cmd := exec.Command("git", "unpack-objects", "-q")
	cmd.Dir = w.tree.Path
	cmd.Stdin = strings.NewReader(string(raw))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := w.git("show", id+":a.txt"); got != "work\n" {
		t.Errorf("got %q", got)
	}
}
