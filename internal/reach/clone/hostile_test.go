package clone_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/reach/clone"
)

// hostile makes a repository name a program wherever git lets it: each leaves a mark when it
// is run. The returned function fails if one was.
func (r *repository) hostile() (check func()) {
	r.Helper()
	if runtime.GOOS == "windows" {
		r.Skip("the programs of this test are scripts of a Unix shell")
	}
	marks := r.TempDir()
	evil := filepath.Join(marks, "evil.sh")
	script := "#!/bin/sh\ntouch " + marks + "/ran-$(basename $0)-$1\ncat\n"
	if err := os.WriteFile(evil, []byte(script), 0o700); err != nil {
		r.Fatal(err)
	}
	for _, folder := range []string{filepath.Join(marks, "hooks"), filepath.Join(r.dir, ".git", "hooks")} {
		os.MkdirAll(folder, 0o700)
		for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-merge", "post-commit", "pre-commit", "fsmonitor-watchman", "update", "post-rewrite"} {
			if err := os.WriteFile(filepath.Join(folder, hook), []byte(script), 0o700); err != nil {
				r.Fatal(err)
			}
		}
	}
	drivers := ""
	for _, name := range []string{"x", "lfs"} {
		drivers += fmt.Sprintf("[filter %q]\n\tclean = %s clean\n\tsmudge = %[2]s smudge\n\tprocess = %[2]s process\n\trequired = true\n", name, evil)
		drivers += fmt.Sprintf("[diff %q]\n\tcommand = %s diff\n\ttextconv = %[2]s textconv\n[merge %[1]q]\n\tdriver = %[2]s merge\n", name, evil)
	}
	config := drivers + fmt.Sprintf("[core]\n\tfsmonitor = %[1]s monitor\n\thooksPath = %[2]s\n\tpager = %[1]s pager\n\teditor = %[1]s editor\n\tsshCommand = %[1]s ssh\n\taskPass = %[1]s\n\tgitProxy = %[1]s\n\talternateRefsCommand = %[1]s\n"+
		"[alias]\n\trev-parse = !%[1]s alias\n\tupdate-ref = !%[1]s alias\n[credential]\n\thelper = !%[1]s credential\n[diff]\n\texternal = %[1]s diff\n[gpg]\n\tprogram = %[1]s\n[log]\n\tshowSignature = true\n"+
		"[commit]\n\tgpgSign = true\n[uploadpack]\n\tpackObjectsHook = %[1]s pack\n[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n[url \"ext::%[1]s \"]\n\tinsteadOf = /\n"+
		"[remote \"origin\"]\n\turl = ext::%[1]s fetch\n\tpromisor = true\n\tuploadpack = %[1]s\n\tvcs = evil\n[submodule]\n\trecurse = true\n[submodule \"sub\"]\n\turl = ext::%[1]s sub\n\tupdate = !%[1]s\n[interactive]\n\tdiffFilter = %[1]s\n",
		evil, filepath.Join(marks, "hooks"))
	file := filepath.Join(r.dir, ".git", "config")
	writeFile(r.T, file, read(r.T, file)+config)
	return func() {
		r.Helper()
		if got, _ := filepath.Glob(filepath.Join(marks, "ran-*")); len(got) > 0 {
			r.Errorf("programs of the repository were run: %v", got)
		}
	}
}

// Every operation works in a repository that names programs, and runs none of them.
func TestHostileRepositoryRunsNothing(t *testing.T) {
	r := newRepository(t)
	attributes := "* filter=x diff=x merge=x\n*.bin filter=lfs\n"
	modules := "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::sh -c touch% ran\n"
	first := r.commit("a.txt", "old\n", ".gitattributes", attributes, ".gitmodules", modules, "gone.bin", "b\n")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+first+",sub")
	r.git("commit", "-q", "-m", "submodule")
	r.branch("main", "work", "a.txt", "new\n", "c.bin", "c\n")
	r.branch("main", "rival", "a.txt", "rival\n")
	check := r.hostile()

	c := r.copy()
	base, err := c.Head(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	work := r.fetch("work")
	m := r.merge(base, work)
	if rival, err := c.Merge(t.Context(), m.Commit, r.fetch("rival"), "Land it\n"); err != nil || len(rival.Conflicts) != 1 {
		t.Errorf("got %+v (%v), want a conflict", rival, err)
	}
	if _, err := c.Revert(t.Context(), m.Commit, m.Commit.ID, "Undo it\n"); err != nil {
		t.Error(err)
	}
	if _, err := c.Difference(t.Context(), base.ID, m.Commit.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.History(t.Context(), base.ID, "work", "work", time.Now()); err != nil {
		t.Error(err)
	}
	folder := filepath.Join(t.TempDir(), "try")
	if err := c.Checkout(t.Context(), m.Commit.ID, folder); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context(), folder); err != nil {
		t.Error(err)
	}

	r.write("mine.txt", "mine\n")
	snap, err := c.Snapshot(t.Context(), r.dir, "Rescue\n")
	if err != nil || snap.Files != 1 {
		t.Errorf("got %+v (%v)", snap, err)
	}
	os.Remove(filepath.Join(r.dir, "mine.txt"))
	if applied, err := c.Apply(t.Context(), snap.Commit.ID, r.dir); err != nil || read(t, r.dir, "mine.txt") != "mine\n" {
		t.Errorf("got %+v (%v)", applied, err)
	}
	got, err := c.Forward(t.Context(), "main", base.ID, m.Commit.ID)
	if err != nil || !got.Moved || read(t, r.dir, "a.txt") != "new\n" || read(t, r.dir, "c.bin") != "c\n" {
		t.Errorf("got %+v (%v)", got, err)
	}
	check()
}

// A repository that leads to another folder is refused.
func TestUnsafeRepositories(t *testing.T) {
	tests := map[string]func(r *repository, victim string){
		"a link as .git": func(r *repository, victim string) {
			os.RemoveAll(filepath.Join(r.dir, ".git"))
			os.Symlink(filepath.Join(victim, ".git"), filepath.Join(r.dir, ".git"))
		},
		"a file that names the repository of another folder": func(r *repository, victim string) {
			os.RemoveAll(filepath.Join(r.dir, ".git"))
			r.write(".git", "gitdir: "+filepath.Join(victim, ".git")+"\n")
		},
		"a made-up entry of a linked tree": func(r *repository, victim string) {
			os.Rename(filepath.Join(r.dir, ".git"), filepath.Join(r.dir, "fake"))
			r.write(".git", "gitdir: fake\n")
			r.write("fake/commondir", filepath.Join(victim, ".git")+"\n")
			r.write("fake/gitdir", filepath.Join(r.dir, ".git")+"\n")
		},
		"refs and objects of another folder": func(r *repository, victim string) {
			r.write(".git/commondir", filepath.Join(victim, ".git")+"\n")
		},
		"objects as a link": func(r *repository, victim string) {
			os.RemoveAll(filepath.Join(r.dir, ".git", "objects"))
			os.Symlink(filepath.Join(victim, ".git", "objects"), filepath.Join(r.dir, ".git", "objects"))
		},
		"packs as a link": func(r *repository, victim string) {
			os.RemoveAll(filepath.Join(r.dir, ".git", "objects", "pack"))
			os.Symlink(filepath.Join(victim, ".git", "objects", "pack"), filepath.Join(r.dir, ".git", "objects", "pack"))
		},
		"borrowed objects": func(r *repository, victim string) {
			r.write(".git/objects/info/alternates", filepath.Join(victim, ".git", "objects")+"\n")
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			r.commit("a.txt", "a\n")
			victim := t.TempDir()
			r.git("init", "-q", victim)
			writeFile(t, filepath.Join(victim, "secret"), "secret\n")
			r.gitIn(victim, "add", ".")
			r.gitIn(victim, "commit", "-q", "-m", "secret")
			prepare(r, victim)
			c, err := r.copies.Of(t.Context(), r.dir)
			if err == nil {
				_, err = c.Fetch(t.Context(), r.gitIn(victim, "rev-parse", "HEAD"))
			}
			if !errors.Is(err, clone.ErrUnsafe) {
				t.Errorf("got %v, want ErrUnsafe", err)
			}
		})
	}
}

// TestMaintenanceBesideAFetch holds that a repository is read while git's maintenance runs in it.
func TestMaintenanceBesideAFetch(t *testing.T) {
	r := newRepository(t)
	r.commit("a.txt", "a\n")
	r.write(".git/objects/maintenance.lock", "")
	c, err := r.copies.Of(t.Context(), r.dir)
	if err == nil {
		_, err = c.Fetch(t.Context(), "HEAD")
	}
	if err != nil {
		t.Errorf("it is not read: %v", err)
	}
}

// Folders that a repository calls its working trees, but that are others', are left alone.
func TestForwardLeavesForeignTrees(t *testing.T) {
	l := newLanding(t)
	victim := t.TempDir()
	l.git("clone", "-q", l.dir, victim)
	entry := filepath.Join(l.dir, ".git", "worktrees", "evil")
	writeFile(t, filepath.Join(entry, "gitdir"), filepath.Join(victim, ".git")+"\n")
	writeFile(t, filepath.Join(entry, "HEAD"), "ref: refs/heads/main\n")
	writeFile(t, filepath.Join(entry, "commondir"), "../..\n")
	if got := l.forward(); !got.Moved || len(got.Trees) != 1 {
		t.Errorf("got %+v", got)
	}
	if text := read(t, victim, "a.txt"); text != "old a\n" {
		t.Errorf("the file of the other repository is %q", text)
	}

	other := newLandingBeside(l)
	other.git("config", "core.worktree", victim)
	if _, err := other.copy().Forward(t.Context(), "main", other.old.ID, other.new.ID); !errors.Is(err, clone.ErrUnsafe) {
		t.Errorf("core.worktree: %v, want ErrUnsafe", err)
	}
}

// newLandingBeside is newLanding in a clone, with the same copies.
func newLandingBeside(l *landing) *landing {
	l.Helper()
	dir, err := filepath.EvalSymlinks(l.TempDir())
	if err != nil {
		l.Fatal(err)
	}
	l.git("clone", "-q", "--no-local", l.dir, dir)
	r := &repository{T: l.T, dir: dir, copies: l.copies}
	old := r.fetch("HEAD")
	return &landing{repository: r, old: old, new: r.branch("main", "next", "next.txt", "next\n")}
}

func TestReplacedObjectsDoNotCount(t *testing.T) {
	r := newRepository(t)
	first := r.commit("a.txt", "real\n")
	tree := r.git("rev-parse", "HEAD^{tree}")
	other := r.commit("a.txt", "replaced\n")
	r.git("replace", first, other)
	if got := r.fetch(first); got.ID != first || got.Tree != tree {
		t.Errorf("got %+v, want the tree %s", got, tree)
	}
}

// A tree can name paths that git never makes. They are written nowhere.
func TestPathsInsideOfGit(t *testing.T) {
	l := newLanding(t)
	blob := l.git("rev-parse", "HEAD:a.txt")
	object := func(entries string) string {
		file := filepath.Join(t.TempDir(), "tree")
		writeFile(t, file, entries)
		return l.git("hash-object", "-w", "-t", "tree", "--literally", file)
	}
	raw := func(id string) string {
		b, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, name := range []string{".git", "..", ".GIT"} {
		inner := object("100755 post-checkout\x00" + raw(blob))
		tree := object("40000 " + name + "\x00" + raw(inner))
		id := l.git("commit-tree", tree, "-p", "main", "-m", "evil")
		evil := l.fetch(id)
		before := l.everything()
		if got, err := l.copy().Forward(t.Context(), "main", l.old.ID, evil.ID); err == nil && got.Moved {
			t.Errorf("%s has landed", name)
		}
		folder := filepath.Join(t.TempDir(), "try")
		if err := l.copy().Checkout(t.Context(), evil.ID, folder); err == nil {
			t.Errorf("%s was checked out", name)
		}
		if after := l.everything(); after != before {
			t.Errorf("%s has changed the tree", name)
		}
		l.noTraces()
	}
	if got := read(t, l.dir, ".git", "post-checkout"); got != "-" {
		t.Errorf("a file was written: %q", got)
	}
}

// Filters that the user has defined convert files; the repository cannot replace them.
func TestForwardUsesFiltersOfTheUser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the filters of this test are programs of Unix")
	}
	user := filepath.Join(t.TempDir(), "gitconfig")
	writeFile(t, user, userSettings+"[filter \"upper\"]\n\tclean = tr A-Z a-z\n\tsmudge = tr a-z A-Z\n\trequired = true\n")
	t.Setenv("GIT_CONFIG_GLOBAL", user)
	r := serialRepository(t)
	r.commit("a.up", "old\n", ".gitattributes", "*.up filter=upper\n")
	old := r.fetch("main")
	work := r.branch("main", "work", "a.up", "NEW\n")
	writeFile(t, filepath.Join(r.dir, "a.up"), "OLD\n")
	check := r.hostile()
	l := &landing{repository: r, old: old, new: r.merge(old, work).Commit}
	if got := l.forward(); !got.Moved {
		t.Errorf("got %+v", got)
	}
	if got := read(t, r.dir, "a.up"); got != "NEW\n" || strings.Contains(r.gitIn(l.copy().Folder(), "show", l.new.ID+":a.up"), "N") {
		t.Errorf("the file is %q", got)
	}
	check()
}
