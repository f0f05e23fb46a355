//go:build unix

package evidence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

// trees returns the working trees under a root.
func trees(t *testing.T, root string) *evidence.Trees {
	t.Helper()
	return evidence.NewTrees(inspector(t, nil, root), "")
}

// treeAt returns the working tree of a folder.
func treeAt(t *testing.T, all *evidence.Trees, path string) hub.WorkingTree {
	t.Helper()
	got, err := all.Tree(t.Context(), path)
	if err != nil {
		t.Fatalf("the tree of %s: %v", path, err)
	}
	return got
}

func TestTree(t *testing.T) {
	root, elsewhere := folder(t), folder(t)
	repo := filepath.Join(root, "repo")
	newRepository(t, repo)
	git(t, repo, "worktree", "add", "-q", filepath.Join(root, "linked"), "-b", "side")
	write(t, filepath.Join(root, "plain", "notes", "a.txt"), "a\n")
	write(t, filepath.Join(root, "liar", ".git"), "gitdir: ../repo/.git\n")
	link(t, elsewhere, filepath.Join(root, "out"))
	link(t, repo, filepath.Join(root, "in"))
	outside := filepath.Join(elsewhere, "repo")
	newRepository(t, outside)
	all := trees(t, root)
	common := filepath.Join(repo, ".git")

	for _, tt := range []struct {
		name, path string
		want       hub.WorkingTree
	}{
		{"the top of a repository", repo, hub.WorkingTree{Path: repo, Repository: common}},
		{"a folder in a repository", filepath.Join(repo, "src"), hub.WorkingTree{Path: repo, Repository: common}},
		{"a linked working tree has the repository of the first", filepath.Join(root, "linked"), hub.WorkingTree{Path: filepath.Join(root, "linked"), Repository: common}},
		{"a link to a repository is that repository", filepath.Join(root, "in", "src"), hub.WorkingTree{Path: repo, Repository: common}},
		{"a folder without git is part of its root", filepath.Join(root, "plain", "notes"), hub.WorkingTree{Path: root}},
		{"a folder that claims a repository has none", filepath.Join(root, "liar"), hub.WorkingTree{Path: filepath.Join(root, "liar")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := treeAt(t, all, tt.path); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		name, path string
		want       hub.Code
	}{
		{"a folder under no root", outside, hub.CodeOutsideRoots},
		{"a folder under no root that does not exist", filepath.Join(elsewhere, "none"), hub.CodeOutsideRoots},
		{"a link out of the root", filepath.Join(root, "out"), hub.CodeInvalid},
		{"a way up out of the root", root + "/../" + filepath.Base(elsewhere), hub.CodeInvalid},
		{"a file", filepath.Join(repo, "a.txt"), hub.CodeInvalid},
		{"a relative path", "repo", hub.CodeInvalid},
		{"a folder that was moved or deleted", filepath.Join(root, "gone"), hub.CodeNotFound},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			got, err := all.Tree(t.Context(), tt.path)
			if hub.CodeOf(err) != tt.want {
				t.Errorf("got %+v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	root, elsewhere := folder(t), folder(t)
	repo := filepath.Join(root, "repo")
	newRepository(t, repo)
	newRepository(t, filepath.Join(repo, "sub"))
	link(t, "src", filepath.Join(repo, "same"))
	link(t, filepath.Join(repo, "a.txt"), filepath.Join(repo, "alias.txt"))
	link(t, elsewhere, filepath.Join(repo, "out"))
	link(t, filepath.Join(elsewhere, "new.txt"), filepath.Join(repo, "dangling.txt"))
	link(t, "loop", filepath.Join(repo, "loop"))
	all := trees(t, root)
	tree := treeAt(t, all, repo)

	for _, tt := range []struct{ name, path, want string }{
		{"a file", "a.txt", "a.txt"},
		{"a file that does not exist yet", "new/folder/c.txt", "new/folder/c.txt"},
		{"a file behind a link to its folder", "same/b.txt", "src/b.txt"},
		{"a file behind a link to it", "alias.txt", "a.txt"},
		{"a name with a way up inside of the tree", "src/../a.txt", "a.txt"},
		{"a name that differs in case is another file", "A.TXT", "A.TXT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := all.Names(t.Context(), tree, []string{filepath.Join(repo, tt.path)})
			if err != nil || !slices.Equal(got, []string{tt.want}) {
				t.Errorf("got %v, %v, want %s", got, err, tt.want)
			}
		})
	}
	for _, tt := range []struct{ name, path string }{
		{"the top itself", repo},
		{"a file beside the tree", filepath.Join(root, "b.txt")},
		{"a file elsewhere", "/etc/passwd"},
		{"a file behind a link out of the tree", filepath.Join(repo, "out", "x.txt")},
		{"a link to a new file elsewhere", filepath.Join(repo, "dangling.txt")},
		{"a link to itself", filepath.Join(repo, "loop", "x.txt")},
		{"a file of a submodule", filepath.Join(repo, "sub", "a.txt")},
		{"a relative path", "a.txt"},
		{"a name with a zero byte", repo + "/a\x00b"},
		{"a name that is too long", repo + "/" + strings.Repeat("x", 5000)},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			got, err := all.Names(t.Context(), tree, []string{tt.path})
			if hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("got %v, %v, want %s", got, err, hub.CodeInvalid)
			}
		})
	}
	t.Run("where case does not matter every spelling is one file", func(t *testing.T) {
		all.FoldCase()
		got, err := all.Names(t.Context(), tree, []string{filepath.Join(repo, "SRC", "B.txt"), filepath.Join(repo, "src", "b.txt"), filepath.Join(repo, "Src", "New.txt")})
		if want := []string{"src/b.txt", "src/b.txt", "src/New.txt"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	})
}

func TestFilesOfATree(t *testing.T) {
	root := folder(t)
	repo := filepath.Join(root, "repo")
	newRepository(t, repo)
	write(t, filepath.Join(repo, ".gitignore"), "*.log\n")
	write(t, filepath.Join(repo, "lines.txt"), "one\ntwo\n")
	commitAll(t, repo, "second")
	all := trees(t, root)
	tree := treeAt(t, all, repo)
	look := func(t *testing.T, tree hub.WorkingTree, name string) hub.TreeFile {
		t.Helper()
		got, err := all.Files(t.Context(), tree, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		return got[name]
	}

	for _, tt := range []struct {
		name, file string
		change     func(path string)
		want       hub.TreeFile
	}{
		{"a file as committed is clean", "a.txt", func(string) {}, hub.TreeFile{Digest: sum("one\ntwo\n"), Clean: true, Tracked: true}},
		{"a changed file is not", "a.txt", func(p string) { write(t, p, "other\n") }, hub.TreeFile{Digest: sum("other\n"), Tracked: true}},
		{"a deleted file is not", "src/b.txt", func(p string) { os.Remove(p) }, hub.TreeFile{Tracked: true}},
		{"a new file is not", "new.txt", func(p string) { write(t, p, "new\n") }, hub.TreeFile{Digest: sum("new\n")}},
		{"a staged file is tracked", "new.txt", func(string) { git(t, repo, "add", "new.txt") }, hub.TreeFile{Digest: sum("new\n"), Tracked: true}},
		{"an ignored file never is clean", "x.log", func(p string) { write(t, p, "x\n") }, hub.TreeFile{Digest: sum("x\n")}},
		{"a file that never was is clean", "none.txt", func(string) {}, hub.TreeFile{Clean: true}},
		{"line endings may differ", "lines.txt", func(p string) { write(t, p, "one\r\ntwo\r\n") }, hub.TreeFile{Digest: sum("one\r\ntwo\r\n"), Clean: true, Tracked: true}},
		{"a folder has no content", "src", func(string) {}, hub.TreeFile{Clean: true}},
		{"a name with a newline is unknown to git", "a\nb", func(p string) { write(t, p, "x") }, hub.TreeFile{Digest: sum("x")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.change(filepath.Join(repo, tt.file))
			got := look(t, tree, tt.file)
			isHead := got.Object != "" && got.Object == got.Head
			if isHead && !got.Clean {
				t.Errorf("got %+v, want a clean file", got)
			}
			got.Object = ""
			got.Head = ""
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("after the commit it is clean", func(t *testing.T) {
		commitAll(t, repo, "third")
		if got := look(t, tree, "new.txt"); !got.Clean {
			t.Errorf("got %+v, want a clean file", got)
		}
	})
	t.Run("without git no file is clean or tracked", func(t *testing.T) {
		write(t, filepath.Join(root, "plain.txt"), "p\n")
		if got, want := look(t, treeAt(t, all, root), "plain.txt"), (hub.TreeFile{Digest: sum("p\n")}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("a repository without a commit has no clean files", func(t *testing.T) {
		fresh := filepath.Join(root, "fresh")
		write(t, filepath.Join(fresh, "a.txt"), "a\n")
		git(t, fresh, "init", "-q")
		got := look(t, treeAt(t, all, fresh), "a.txt")
		if want := (hub.TreeFile{Digest: sum("a\n"), Object: got.Object}); got != want || got.Object == "" {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("many files take one answer", func(t *testing.T) {
		var names []string
		for i := range 4096 {
			names = append(names, fmt.Sprintf("many/%s/%d.txt", strings.Repeat("n", 100), i))
		}
		got, err := all.Files(t.Context(), tree, names)
		if err != nil || len(got) != len(names) {
			t.Errorf("got %d files, %v, want %d", len(got), err, len(names))
		}
	})
	t.Run("a tree that was moved has no files", func(t *testing.T) {
		_, err := all.Files(t.Context(), hub.WorkingTree{Path: filepath.Join(root, "gone")}, []string{"a.txt"})
		if hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("got %v, want %s", err, hub.CodeNotFound)
		}
	})
}

func TestQuestionsAboutATree(t *testing.T) {
	root := folder(t)
	repo := filepath.Join(root, "repo")
	newRepository(t, repo)
	git(t, repo, "branch", "old")
	write(t, filepath.Join(repo, "a.txt"), "one\nthree\n")
	commitAll(t, repo, "second")
	write(t, filepath.Join(repo, ".gitignore"), "*.log\n")
	write(t, filepath.Join(repo, "src", "c.log"), "ignored\n")
	write(t, filepath.Join(repo, "src", "deep", "d.txt"), "new\n")
	all := trees(t, root)
	tree := treeAt(t, all, repo)
	plain := treeAt(t, all, root)

	t.Run("a pathspec counts tracked and new files", func(t *testing.T) {
		for pattern, want := range map[string]int{"src/*.txt": 2, "src": 2, "*.log": 0, "a.txt": 1, "none": 0} {
			if got, err := all.Count(t.Context(), tree, pattern, 100); err != nil || got != want {
				t.Errorf("%s: got %d, %v, want %d", pattern, got, err, want)
			}
		}
		if got, err := all.Count(t.Context(), tree, "src", 1); err != nil || got != 1 {
			t.Errorf("with a limit: got %d, %v, want 1", got, err)
		}
		if got, err := all.Count(t.Context(), plain, "repo/src/*.txt", 100); err != nil || got != 2 {
			t.Errorf("without git: got %d, %v, want 2", got, err)
		}
	})
	t.Run("files differ between commits", func(t *testing.T) {
		got, err := all.Differs(t.Context(), tree, "old", []string{"a.txt", "src/b.txt"})
		if err != nil || !slices.Equal(got, []string{"a.txt"}) {
			t.Errorf("got %v, %v, want a.txt", got, err)
		}
		for _, ref := range []string{"nowhere", "--output=x", ""} {
			if got, err := all.Differs(t.Context(), tree, ref, []string{"a.txt"}); err == nil {
				t.Errorf("%q: got %v, want an error", ref, got)
			}
		}
	})
	t.Run("staged files", func(t *testing.T) {
		git(t, repo, "add", "src/deep/d.txt")
		got, err := all.Staged(t.Context(), tree)
		if err != nil || !slices.Equal(got, []string{"src/deep/d.txt"}) {
			t.Errorf("got %v, %v, want src/deep/d.txt", got, err)
		}
	})
	t.Run("the difference of a file", func(t *testing.T) {
		write(t, filepath.Join(repo, "a.txt"), "one\nthree\nfour\n")
		got, err := all.Difference(t.Context(), tree, "a.txt")
		if err != nil || got.Lines != 1 || !strings.Contains(got.Text, "+four") || !strings.Contains(got.Text, "a/a.txt") {
			t.Errorf("got %+v, %v, want one added line", got, err)
		}
		write(t, filepath.Join(repo, "fresh.txt"), "1\n2\n")
		if got, err = all.Difference(t.Context(), tree, "fresh.txt"); err != nil || got.Lines != 2 {
			t.Errorf("a new file: got %+v, %v, want two lines", got, err)
		}
		os.Remove(filepath.Join(repo, "src", "b.txt"))
		if got, err = all.Difference(t.Context(), tree, "src/b.txt"); err != nil || got.Lines != 1 || !strings.Contains(got.Text, "-b") {
			t.Errorf("a deleted file: got %+v, %v, want one removed line", got, err)
		}
	})
}

func TestTreesRunNothingOfARepository(t *testing.T) {
	root, marks := folder(t), folder(t)
	repo := filepath.Join(root, "repo")
	first := trapped(t, repo, marks)
	all := trees(t, root)
	tree := treeAt(t, all, repo)
	names := []string{"filtered.txt", "processed.txt", "driven.txt", "a.txt", "untracked.txt"}
	if _, err := all.Files(t.Context(), tree, names); err != nil {
		t.Error(err)
	}
	if _, err := all.Count(t.Context(), tree, "*.txt", 100); err != nil {
		t.Error(err)
	}
	if _, err := all.Differs(t.Context(), tree, first, names); err != nil {
		t.Error(err)
	}
	if _, err := all.Staged(t.Context(), tree); err != nil {
		t.Error(err)
	}
	for _, name := range names {
		if _, err := all.Difference(t.Context(), tree, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := sprung(t, marks); len(got) > 0 {
		t.Errorf("got marks of %v, want none", got)
	}
}
