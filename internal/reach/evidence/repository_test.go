//go:build unix

package evidence_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

func TestRepository(t *testing.T) {
	root := folder(t)
	repo := filepath.Join(root, "repo")
	first := newRepository(t, repo)
	git(t, repo, "checkout", "-q", "-b", "feature/x")
	second := commitAll(t, repo, "second")
	git(t, repo, "tag", "-a", "-m", "v", "v1")
	tag := git(t, repo, "rev-parse", "v1")
	tree := git(t, repo, "rev-parse", "HEAD^{tree}")
	lost := git(t, repo, "commit-tree", "-m", "lost", tree)
	git(t, repo, "branch", "packed", first)
	git(t, repo, "pack-refs", "--all")
	git(t, repo, "symbolic-ref", "refs/heads/alias", "refs/heads/packed")
	bare := filepath.Join(root, "bare.git")
	git(t, root, "clone", "-q", "--bare", repo, bare)
	write(t, filepath.Join(root, "plain", "file"), "")
	in := inspector(t, nil, root)

	verified := an{hub.CheckVerified, "", ""}
	for _, tt := range []struct {
		name  string
		claim evidence.RepositoryClaim
		what  string
		want  an
	}{
		{"a repository is verified", evidence.RepositoryClaim{Path: repo}, evidence.WhatRepository, verified},
		{"a relative path is looked for under the root", evidence.RepositoryClaim{Path: "repo"}, evidence.WhatRepository, verified},
		{"a bare repository is verified", evidence.RepositoryClaim{Path: bare, Branch: "main", Commit: first}, evidence.WhatCommit, verified},
		{"a folder that is none fails", evidence.RepositoryClaim{Path: filepath.Join(root, "plain")}, evidence.WhatRepository, an{hub.CheckFailed, hub.CodeNotFound, "is not a git repository"}},
		{"a folder inside one fails", evidence.RepositoryClaim{Path: filepath.Join(repo, "src")}, evidence.WhatRepository, an{hub.CheckFailed, hub.CodeNotFound, "not its top folder"}},
		{"a file fails", evidence.RepositoryClaim{Path: filepath.Join(repo, "a.txt")}, evidence.WhatRepository, an{hub.CheckFailed, hub.CodeConflict, "not a folder"}},
		{"nothing at all fails", evidence.RepositoryClaim{}, evidence.WhatRepository, an{hub.CheckFailed, hub.CodeInvalid, "empty"}},
		{"what is claimed of a missing repository fails with it", evidence.RepositoryClaim{Path: filepath.Join(root, "none"), Branch: "main"}, evidence.WhatBranch, an{hub.CheckFailed, hub.CodeNotFound, "there is no"}},

		{"a branch is verified", evidence.RepositoryClaim{Path: repo, Branch: "feature/x"}, evidence.WhatBranch, an{hub.CheckVerified, "", second}},
		{"a branch by its full name is verified", evidence.RepositoryClaim{Path: repo, Branch: "refs/heads/feature/x"}, evidence.WhatBranch, an{hub.CheckVerified, "", second}},
		{"a packed branch is verified", evidence.RepositoryClaim{Path: repo, Branch: "packed"}, evidence.WhatBranch, an{hub.CheckVerified, "", first}},
		{"a branch that names another is verified", evidence.RepositoryClaim{Path: repo, Branch: "alias"}, evidence.WhatBranch, an{hub.CheckVerified, "", first}},
		{"a missing branch fails", evidence.RepositoryClaim{Path: repo, Branch: "none"}, evidence.WhatBranch, an{hub.CheckFailed, hub.CodeNotFound, `no branch named "none"`}},
		{"a folder of branches is no branch", evidence.RepositoryClaim{Path: repo, Branch: "feature"}, evidence.WhatBranch, an{hub.CheckFailed, hub.CodeNotFound, "no branch named"}},
		{"a tag is no branch", evidence.RepositoryClaim{Path: repo, Branch: "v1"}, evidence.WhatBranch, an{hub.CheckFailed, hub.CodeNotFound, "no branch named"}},

		{"a commit on its branch is verified", evidence.RepositoryClaim{Path: repo, Branch: "feature/x", Commit: first}, evidence.WhatCommit, an{hub.CheckVerified, "", first}},
		{"an abbreviated commit is verified", evidence.RepositoryClaim{Path: repo, Branch: "feature/x", Commit: second[:7]}, evidence.WhatCommit, an{hub.CheckVerified, "", second}},
		{"a commit without a branch is verified", evidence.RepositoryClaim{Path: repo, Commit: first}, evidence.WhatCommit, an{hub.CheckVerified, "", "a branch or tag"}},
		{"a commit on another branch fails", evidence.RepositoryClaim{Path: repo, Branch: "main", Commit: second}, evidence.WhatCommit, an{hub.CheckFailed, hub.CodeConflict, `not reachable from branch "main"`}},
		{"a commit on no branch fails", evidence.RepositoryClaim{Path: repo, Commit: lost}, evidence.WhatCommit, an{hub.CheckFailed, hub.CodeConflict, "not reachable from a branch or tag"}},
		{"a missing commit fails", evidence.RepositoryClaim{Path: repo, Commit: strings.Repeat("0", 39) + "1"}, evidence.WhatCommit, an{hub.CheckFailed, hub.CodeNotFound, "does not exist"}},
		{"a commit on a missing branch fails", evidence.RepositoryClaim{Path: repo, Branch: "none", Commit: first}, evidence.WhatCommit, an{hub.CheckFailed, hub.CodeNotFound, "no branch named"}},
		{"a tag is no commit", evidence.RepositoryClaim{Path: repo, Commit: tag}, evidence.WhatCommit, an{hub.CheckFailed, hub.CodeConflict, "is a tag"}},
		{"a tree is no commit", evidence.RepositoryClaim{Path: repo, Commit: tree}, evidence.WhatCommit, an{hub.CheckFailed, hub.CodeConflict, "is a tree"}},

		{"whether a bare repository is clean cannot be said", evidence.RepositoryClaim{Path: bare, Worktree: true}, evidence.WhatClean, an{hub.CheckFailed, hub.CodeConflict, "is not a working tree"}},
	} {
		t.Run(tt.name, func(t *testing.T) { expect(t, of(t, in.Check(t.Context(), tt.claim), tt.what), tt.want) })
	}

	t.Run("each part that is claimed has its check, in order", func(t *testing.T) {
		var got []string
		for _, c := range in.Check(t.Context(), evidence.RepositoryClaim{Path: repo, Branch: "main", Commit: first, Worktree: true}) {
			got = append(got, c.What)
		}
		want := []string{evidence.WhatRepository, evidence.WhatBranch, evidence.WhatCommit, evidence.WhatWorktree, evidence.WhatClean}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("without git the commit is unverifiable", func(t *testing.T) {
		in := inspector(t, &evidence.Options{Git: "no-such-git"}, root)
		checks := in.Check(t.Context(), evidence.RepositoryClaim{Path: repo, Commit: first})
		expect(t, of(t, checks, evidence.WhatCommit), an{hub.CheckUnverifiable, hub.CodeNotEnabled, "git is not installed"})
	})
}

func TestRepositoryKinds(t *testing.T) {
	root := folder(t)
	in := inspector(t, nil, root)
	verify := func(t *testing.T, claim evidence.RepositoryClaim) {
		t.Helper()
		for _, c := range in.Check(t.Context(), claim) {
			expect(t, c, an{hub.CheckVerified, "", ""})
			if c.What == evidence.WhatClean && !strings.HasPrefix(c.Detail, "clean: ") {
				t.Errorf("got %s, want clean", c.Detail)
			}
		}
	}
	t.Run("names of objects may be SHA-256", func(t *testing.T) {
		repo := filepath.Join(root, "sha256")
		first := newRepository(t, repo, "--object-format=sha256")
		verify(t, evidence.RepositoryClaim{Path: repo, Branch: "main", Commit: first, Worktree: true})
		verify(t, evidence.RepositoryClaim{Path: repo, Commit: first[:12]})
	})
	t.Run("objects may be packed", func(t *testing.T) {
		repo := filepath.Join(root, "packed")
		first := newRepository(t, repo)
		git(t, repo, "gc", "-q")
		verify(t, evidence.RepositoryClaim{Path: repo, Branch: "main", Commit: first, Worktree: true})
	})
	t.Run("history may be cut off", func(t *testing.T) {
		full, shallow := filepath.Join(root, "full"), filepath.Join(root, "shallow")
		first := newRepository(t, full)
		second := commitAll(t, full, "second")
		git(t, root, "clone", "-q", "--depth=1", "file://"+full, shallow)
		verify(t, evidence.RepositoryClaim{Path: shallow, Branch: "main", Commit: second, Worktree: true})
		expect(t, of(t, in.Check(t.Context(), evidence.RepositoryClaim{Path: shallow, Commit: first}), evidence.WhatCommit), an{hub.CheckFailed, hub.CodeNotFound, ""})
	})
	t.Run("what a partial clone lacks is unverifiable and not fetched", func(t *testing.T) {
		full, partial := filepath.Join(root, "server"), filepath.Join(root, "partial")
		newRepository(t, full)
		git(t, full, "config", "uploadpack.allowFilter", "true")
		git(t, root, "clone", "-q", "--filter=blob:none", "file://"+full, partial)
		later := commitAll(t, full, "later")
		expect(t, of(t, in.Check(t.Context(), evidence.RepositoryClaim{Path: partial, Commit: later}), evidence.WhatCommit), an{hub.CheckUnverifiable, hub.CodeNotEnabled, "nothing is fetched"})
	})
	t.Run("a branch whose commit is missing does not hide the others", func(t *testing.T) {
		repo := filepath.Join(root, "broken")
		first := newRepository(t, repo)
		write(t, filepath.Join(repo, ".git", "refs", "heads", "broken"), strings.Repeat("1", 40)+"\n")
		verify(t, evidence.RepositoryClaim{Path: repo, Commit: first})
		expect(t, of(t, in.Check(t.Context(), evidence.RepositoryClaim{Path: repo, Branch: "broken"}), evidence.WhatBranch), an{hub.CheckFailed, hub.CodeNotFound, "does not exist"})
	})
	t.Run("there may be no commit yet", func(t *testing.T) {
		repo := filepath.Join(root, "empty")
		git(t, root, "init", "-q", repo)
		checks := in.Check(t.Context(), evidence.RepositoryClaim{Path: repo, Branch: "main", Commit: strings.Repeat("a", 40), Worktree: true})
		expect(t, of(t, checks, evidence.WhatBranch), an{hub.CheckFailed, hub.CodeNotFound, "no branch named"})
		expect(t, of(t, checks, evidence.WhatCommit), an{hub.CheckFailed, hub.CodeNotFound, "does not exist"})
		expect(t, of(t, checks, evidence.WhatWorktree), an{hub.CheckVerified, "", "has no commit yet"})
		expect(t, of(t, checks, evidence.WhatClean), an{hub.CheckUnverifiable, hub.CodeNotEnabled, "no commit to compare"})
	})
	t.Run("a submodule is a repository", func(t *testing.T) {
		sub, outer := filepath.Join(root, "sub"), filepath.Join(root, "outer")
		first := newRepository(t, sub)
		newRepository(t, outer)
		git(t, outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "sub")
		verify(t, evidence.RepositoryClaim{Path: filepath.Join(outer, "sub"), Branch: "main", Commit: first, Worktree: true})
	})
	t.Run("a reftable is not read", func(t *testing.T) {
		repo := filepath.Join(root, "reftable")
		newRepository(t, repo)
		if err := os.Mkdir(filepath.Join(repo, ".git", "reftable"), 0o755); err != nil {
			t.Fatal(err)
		}
		expect(t, in.Check(t.Context(), evidence.RepositoryClaim{Path: repo})[0], an{hub.CheckUnverifiable, hub.CodeNotEnabled, "reftable"})
	})
}

func TestWorktree(t *testing.T) {
	root := folder(t)
	repo, linked := filepath.Join(root, "repo"), filepath.Join(root, "linked")
	first := newRepository(t, repo)
	git(t, repo, "worktree", "add", "-q", "-b", "side", linked)
	detached := filepath.Join(root, "detached")
	git(t, repo, "worktree", "add", "-q", "--detach", detached)

	// A folder that says it belongs to the repository, but the repository does
	// not know it.
	forged := filepath.Join(root, "forged")
	write(t, filepath.Join(forged, ".git"), "gitdir: "+filepath.Join(root, "forged-dir")+"\n")
	write(t, filepath.Join(root, "forged-dir", "HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(root, "forged-dir", "commondir"), filepath.Join(repo, ".git")+"\n")
	write(t, filepath.Join(root, "forged-dir", "gitdir"), filepath.Join(forged, ".git")+"\n")
	copied := filepath.Join(root, "copied")
	write(t, filepath.Join(copied, ".git"), "gitdir: "+filepath.Join(repo, ".git", "worktrees", "linked")+"\n")

	in := inspector(t, nil, root)
	refused := an{hub.CheckFailed, hub.CodeConflict, "is not a working tree of the repository"}
	for _, tt := range []struct {
		name, worktree string
		want           an
	}{
		{"the main one is verified", repo, an{hub.CheckVerified, "", `on branch "main" at ` + first}},
		{"a linked one is verified", linked, an{hub.CheckVerified, "", `on branch "side" at ` + first}},
		{"a detached one is verified", detached, an{hub.CheckVerified, "", "is at " + first}},
		{"one that the repository does not know fails", forged, refused},
		{"a copy of a linked one fails", copied, refused},
		{"the repository's own folder fails", filepath.Join(repo, ".git"), refused},
		{"a missing one fails", filepath.Join(root, "none"), an{hub.CheckFailed, hub.CodeNotFound, "there is no"}},
		{"a plain folder fails", filepath.Join(repo, "src"), an{hub.CheckFailed, hub.CodeNotFound, "is not a git repository"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checks := in.Check(t.Context(), evidence.RepositoryClaim{Path: tt.worktree, Worktree: true})
			expect(t, of(t, checks, evidence.WhatWorktree), tt.want)
			if tt.want.result != hub.CheckVerified {
				expect(t, of(t, checks, evidence.WhatClean), tt.want)
			}
		})
	}
	t.Run("a linked one stands for its repository", func(t *testing.T) {
		for _, c := range in.Check(t.Context(), evidence.RepositoryClaim{Path: linked, Branch: "main", Commit: first, Worktree: true}) {
			expect(t, c, an{hub.CheckVerified, "", ""})
		}
	})
}

func TestNamesAreNeverOptions(t *testing.T) {
	root := folder(t)
	repo := filepath.Join(root, "repo")
	newRepository(t, repo)
	in := inspector(t, nil, root)
	for _, name := range []string{
		"-x", "--upload-pack=touch x", "--output=x", "@", "main@{1}", "main@{upstream}", "a..b", "main^", "main~1", "HEAD:a.txt",
		"refs/heads/*:refs/heads/*", "+main", "a b", "a\nb", "a\x00b", "a\x7f", "a\u202eb", "\xff", "a//b", "/a", "a/", "a/.b", ".", "..",
		"../../config", "a.lock", "a.lock/b", "a.", "a\\b", "a[b", "a?", strings.Repeat("a", 256), "refs/heads/", "refs/heads/-x",
	} {
		checks := in.Check(t.Context(), evidence.RepositoryClaim{Path: repo, Branch: name})
		want := an{hub.CheckFailed, hub.CodeInvalid, "is not a valid branch name"}
		if name == "+main" { // an odd name, but a name
			want = an{hub.CheckFailed, hub.CodeNotFound, "no branch named"}
		}
		expect(t, of(t, checks, evidence.WhatBranch), want)
	}
	for _, name := range []string{"-x", "HEAD", "main", "abc", "abcdef", strings.Repeat("a", 65), "ABCDEF1", "abcdef1^", "abcdef1\n", "abcdef1 ", "--batch-all-objects"} {
		checks := in.Check(t.Context(), evidence.RepositoryClaim{Path: repo, Commit: name})
		expect(t, of(t, checks, evidence.WhatCommit), an{hub.CheckFailed, hub.CodeInvalid, "is not a commit hash"})
	}
}

func TestClean(t *testing.T) {
	in := func(dir string, names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   an
	}{
		{"files as committed are clean", func(*testing.T, string) {}, an{hub.CheckVerified, "", "clean: the files are those of"}},
		{"a changed file is seen", func(t *testing.T, dir string) { write(t, in(dir, "a.txt"), "other\n") }, an{hub.CheckVerified, "", `1 changed, such as "a.txt"`}},
		{"a staged file is seen", func(t *testing.T, dir string) {
			write(t, in(dir, "new"), "new\n")
			git(t, dir, "add", "new")
		}, an{hub.CheckVerified, "", `1 untracked, such as "new"`}},
		{"a change that the index hides is seen", func(t *testing.T, dir string) {
			git(t, dir, "update-index", "--assume-unchanged", "a.txt")
			write(t, in(dir, "a.txt"), "eno\nowt\n")
		}, an{hub.CheckVerified, "", "1 changed"}},
		{"a missing file is seen", func(t *testing.T, dir string) { os.RemoveAll(in(dir, "src")) }, an{hub.CheckVerified, "", `1 missing, such as "src/b.txt"`}},
		{"a file in place of a folder is seen", func(t *testing.T, dir string) {
			os.RemoveAll(in(dir, "src"))
			write(t, in(dir, "src"), "")
		}, an{hub.CheckVerified, "", "1 missing, 1 untracked"}},
		{"a folder in place of a file is seen", func(t *testing.T, dir string) {
			os.Remove(in(dir, "a.txt"))
			write(t, in(dir, "a.txt", "x"), "")
		}, an{hub.CheckVerified, "", `1 changed, 1 untracked`}},
		{"a link in place of a file is seen, even to the same content", func(t *testing.T, dir string) {
			os.Remove(in(dir, "a.txt"))
			write(t, in(dir, ".git", "twin"), "one\ntwo\n")
			link(t, ".git/twin", in(dir, "a.txt"))
		}, an{hub.CheckVerified, "", "1 changed"}},
		{"another permission to run is seen", func(t *testing.T, dir string) { os.Chmod(in(dir, "a.txt"), 0o755) }, an{hub.CheckVerified, "", "1 changed"}},
		{"a committed link is compared by where it leads", func(t *testing.T, dir string) {
			link(t, "a.txt", in(dir, "link"))
			link(t, "/nowhere", in(dir, "far"))
			commitAll(t, dir, "links")
		}, an{hub.CheckVerified, "", "clean: "}},
		{"a link that leads elsewhere is seen", func(t *testing.T, dir string) {
			link(t, "a.txt", in(dir, "link"))
			commitAll(t, dir, "link")
			os.Remove(in(dir, "link"))
			link(t, "src", in(dir, "link"))
		}, an{hub.CheckVerified, "", `1 changed, such as "link"`}},
		{"an untracked file in an untracked folder is seen", func(t *testing.T, dir string) { write(t, in(dir, "x", "y", "z"), "") }, an{hub.CheckVerified, "", `1 untracked, such as "x/y/z"`}},
		{"an empty folder is nothing", func(t *testing.T, dir string) { os.MkdirAll(in(dir, "x", "y"), 0o755) }, an{hub.CheckVerified, "", "clean: "}},
		{"another repository inside is one thing", func(t *testing.T, dir string) { newRepository(t, in(dir, "inner")) }, an{hub.CheckVerified, "", `1 untracked, such as "inner"`}},
		{"odd names are only names", func(t *testing.T, dir string) {
			for _, name := range []string{":(top)a", "-x", "a\nb", "\xff", " ", "*", "!x"} {
				write(t, in(dir, name), "")
			}
			commitAll(t, dir, "odd")
			write(t, in(dir, ":(exclude)x"), "")
			write(t, in(dir, "--y"), "")
		}, an{hub.CheckVerified, "", "2 untracked"}},
		{"ignored files are nothing", func(t *testing.T, dir string) {
			write(t, in(dir, ".gitignore"), "*.o\n/build/\n")
			write(t, in(dir, "src", ".gitignore"), "!keep.o\nlocal\n")
			commitAll(t, dir, "ignore")
			write(t, in(dir, ".git", "info", "exclude"), "private\n")
			for _, name := range []string{"x.o", "build/a/b", "src/local", "private", "out/y.o"} {
				write(t, in(dir, name), "")
			}
		}, an{hub.CheckVerified, "", "clean: "}},
		{"another repository that is ignored is nothing", func(t *testing.T, dir string) {
			write(t, in(dir, ".gitignore"), "inner/\n")
			commitAll(t, dir, "ignore")
			newRepository(t, in(dir, "inner"))
		}, an{hub.CheckVerified, "", "clean: "}},
		{"what an inner rule takes back is seen", func(t *testing.T, dir string) {
			write(t, in(dir, ".gitignore"), "*.o\n")
			write(t, in(dir, "src", ".gitignore"), "!keep.o\n")
			commitAll(t, dir, "ignore")
			write(t, in(dir, "src", "keep.o"), "")
			write(t, in(dir, "src", "drop.o"), "")
		}, an{hub.CheckVerified, "", `1 untracked, such as "src/keep.o"`}},
		{"other line endings are stated", func(t *testing.T, dir string) { write(t, in(dir, "a.txt"), "one\r\ntwo\r\n") }, an{hub.CheckVerified, "", "1 with other line endings"}},
		{"other line endings hide no change", func(t *testing.T, dir string) { write(t, in(dir, "a.txt"), "one\r\ntwo\r\nthree\r\n") }, an{hub.CheckVerified, "", "1 changed"}},
		{"a lone carriage return is a change", func(t *testing.T, dir string) { write(t, in(dir, "a.txt"), "one\ntwo\n\r") }, an{hub.CheckVerified, "", "1 changed"}},
		{"a file that goes through a filter is not judged", func(t *testing.T, dir string) {
			write(t, in(dir, ".gitattributes"), "*.txt filter=lfs\n")
			commitAll(t, dir, "filter")
			write(t, in(dir, "a.txt"), "real content\n")
		}, an{hub.CheckUnverifiable, hub.CodeNotEnabled, "1 files need a filter"}},
		{"a filter hides no other change", func(t *testing.T, dir string) {
			write(t, in(dir, ".gitattributes"), "a.txt filter=lfs\n")
			commitAll(t, dir, "filter")
			write(t, in(dir, "a.txt"), "real content\n")
			write(t, in(dir, "src", "b.txt"), "other\n")
		}, an{hub.CheckVerified, "", "1 changed, 1 not judged"}},
		{"a filter set without committing it is a change itself", func(t *testing.T, dir string) {
			write(t, in(dir, ".gitattributes"), "*.txt filter=lfs\n")
			write(t, in(dir, "a.txt"), "other\n")
		}, an{hub.CheckVerified, "", `1 untracked, 1 not judged`}},
		{"a sparse working tree is not judged", func(t *testing.T, dir string) { git(t, dir, "sparse-checkout", "set", "--no-cone", "/a.txt") }, an{hub.CheckUnverifiable, hub.CodeNotEnabled, "sparse"}},
		{"a submodule is left out", func(t *testing.T, dir string) {
			newRepository(t, in(dir, "sub"))
			commitAll(t, dir, "submodule")
			write(t, in(dir, "sub", "a.txt"), "changed")
		}, an{hub.CheckVerified, "", "clean: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := folder(t)
			repo := filepath.Join(root, "repo")
			newRepository(t, repo)
			tt.change(t, repo)
			before := listing(t, repo)
			checks := inspector(t, nil, root).Check(t.Context(), evidence.RepositoryClaim{Path: repo, Worktree: true})
			expect(t, of(t, checks, evidence.WhatClean), tt.want)
			if got := listing(t, repo); got != before {
				t.Errorf("the repository was changed: got\n%s\nwant\n%s", got, before)
			}
		})
	}
}

// listing describes every file below dir.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			b.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
