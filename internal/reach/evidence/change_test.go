//go:build unix

package evidence_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/testing/patience"
)

const someLines = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"

// A task is a repository whose state was recorded.
type task struct {
	t     *testing.T
	in    *evidence.Inspector
	repo  string
	since hub.WorkState
}

func (k *task) path(name string) string { return filepath.Join(k.repo, name) }

func (k *task) write(name, content string) { k.t.Helper(); write(k.t, k.path(name), content) }

func (k *task) git(args ...string) string { k.t.Helper(); return git(k.t, k.repo, args...) }

func (k *task) commit(message string) { k.t.Helper(); commitAll(k.t, k.repo, message) }

// newTask records the state of a repository with a few files and a branch of another author.
func newTask(t *testing.T, prepare func(*task)) *task {
	t.Helper()
	root := folder(t)
	k := &task{t: t, repo: filepath.Join(root, "repo")}
	k.in = inspector(t, &evidence.Options{Kept: t.TempDir()}, root)
	newRepository(t, k.repo)
	k.write("lines.txt", someLines)
	k.write("run.sh", "#!/bin/sh\necho hi\n")
	k.write("empty.txt", "")
	k.write(".gitignore", "*.log\n")
	k.commit("base")
	k.git("checkout", "-q", "-b", "theirs")
	k.write("lines.txt", strings.Replace(someLines, "two", "TWO", 1))
	k.write("feature.txt", "a feature\nof theirs\n")
	k.commit("their first")
	k.write("feature.txt", "a feature\nof theirs\nfinished\n")
	k.commit("their second")
	k.git("checkout", "-q", "main")
	if prepare != nil {
		prepare(k)
	}
	var err error
	if k.since, err = k.in.State(t.Context(), k.repo, firstTask); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *task) compare(change func(*hub.Comparison)) hub.WorkChange {
	k.t.Helper()
	q := hub.Comparison{Path: k.repo, Since: k.since, Keep: firstTask, Owner: "builder"}
	if change != nil {
		change(&q)
	}
	got, err := k.in.Compare(k.t.Context(), q)
	if err != nil {
		k.t.Fatal(err)
	}
	return got
}

func TestChange(t *testing.T) {
	for i, tt := range []struct {
		name    string
		prepare func(*task)
		edit    func(*task)
		files   int // that count
		trivial bool
		line    string
	}{
		{"nothing", nil, func(*task) {}, 0, false, ""},
		{"an empty commit", nil, func(k *task) { k.git("commit", "-q", "--allow-empty", "-m", "none") }, 0, false, ""},
		{"another message", nil, func(k *task) { k.git("commit", "-q", "--amend", "-m", "other") }, 0, false, ""},
		{"a change and its revert", nil, func(k *task) {
			k.write("lines.txt", "other\n")
			k.commit("other")
			k.git("revert", "--no-edit", "HEAD")
		}, 0, false, ""},
		{"files that git ignores", nil, func(k *task) { k.write("x.log", "x") }, 0, false, ""},

		{"an edit", nil, func(k *task) { k.write("lines.txt", someLines+"eleven\n") }, 1, false, "1 file +1 -0"},
		{"an edit that is committed", nil, func(k *task) {
			k.write("lines.txt", someLines+"eleven\n")
			k.write("new.txt", "new\n")
			k.commit("work")
		}, 2, false, "2 files +2 -0"},
		{"a file that was changed before and is changed further", func(k *task) { k.write("lines.txt", someLines+"draft\n") },
			func(k *task) { k.write("lines.txt", someLines+"done\n") }, 1, false, "1 file +1 -1"},
		{"a deletion", nil, func(k *task) { remove(k.t, k.path("lines.txt")) }, 1, false, "lines.txt deleted"},
		{"a deletion beside an edit", nil, func(k *task) { remove(k.t, k.path("run.sh")); k.write("lines.txt", "1\n") }, 2, false, "2 files +1 -12, run.sh deleted"},
		{"a file without its content", nil, func(k *task) { k.write("lines.txt", "\n") }, 1, false, "lines.txt emptied"},
		{"a rename", nil, func(k *task) { k.git("mv", "lines.txt", "moved.txt") }, 1, false, "lines.txt renamed to moved.txt"},
		{"a revert of a commit from before", nil, func(k *task) { k.git("revert", "--no-edit", "HEAD") }, 4, false, "4 files +0 -13, 4 deleted or emptied"},
		{"a link", nil, func(k *task) { link(k.t, "lines.txt", k.path("link")) }, 1, false, "1 file +1 -0"},

		{"one space", nil, func(k *task) { k.write("lines.txt", someLines+" ") }, 1, true, "lines.txt: whitespace only"},
		{"a blank that cannot be seen", nil, func(k *task) { k.write("lines.txt", "\u200b"+someLines+"\u00a0") }, 1, true, "lines.txt: whitespace only"},
		{"an indentation of two files", nil, func(k *task) { k.write("lines.txt", " "+someLines); k.write("run.sh", "#!/bin/sh\n  echo hi\n") }, 2, true, "2 files: whitespace only"},
		{"other line ends", nil, func(k *task) { k.write("lines.txt", strings.ReplaceAll(someLines, "\n", "\r\n")) }, 1, true, "lines.txt: line ends only"},
		{"a mode", nil, func(k *task) {
			if err := os.Chmod(k.path("run.sh"), 0o755); err != nil {
				k.t.Fatal(err)
			}
		}, 1, true, "run.sh: mode only"},
		{"an empty file", nil, func(k *task) { k.write("__init__.py", "") }, 1, true, "__init__.py: empty file only"},
		{"an empty file less", nil, func(k *task) { remove(k.t, k.path("empty.txt")) }, 1, true, "empty.txt: empty file only"},
		{"an empty file by another name", nil, func(k *task) { k.git("mv", "empty.txt", "void.txt") }, 2, true, "2 files: empty file only"},
		{"a space in one file and an edit of another", nil, func(k *task) { k.write("run.sh", "#!/bin/sh\necho  hi\n"); k.write("lines.txt", "1\n") }, 2, false, "2 files +2 -11"},

		{"a branch of others that is checked out", nil, func(k *task) { k.git("checkout", "-q", "theirs") }, 0, false, "2 commits, 2 were there before"},
		{"a merge that only moves the branch", nil, func(k *task) { k.git("merge", "-q", "theirs") }, 0, false, "2 commits, 2 were there before"},
		{"a merge commit", func(k *task) { k.write("other.txt", "x\n"); k.commit("main goes on") },
			func(k *task) { k.git("merge", "-q", "--no-edit", "theirs") }, 0, false, "3 commits, 2 were there before"},
		{"a merge of two changes of one file", func(k *task) {
			k.write("lines.txt", strings.Replace(someLines, "nine", "NINE", 1))
			k.commit("main goes on")
		},
			func(k *task) { k.git("merge", "-q", "--no-edit", "theirs") }, 0, false, "3 commits, 2 were there before"},
		{"a squashed merge", func(k *task) {
			k.write("lines.txt", strings.Replace(someLines, "nine", "NINE", 1))
			k.commit("main goes on")
		},
			func(k *task) { k.git("merge", "-q", "--squash", "theirs"); k.commit("all mine") }, 0, false, "2 files, there before"},
		{"a commit that is picked", nil, func(k *task) { k.git("cherry-pick", "-x", "theirs~1") }, 0, false, "2 files, there before"},
		{"a commit that is picked into a changed file", func(k *task) {
			k.write("lines.txt", strings.Replace(someLines, "nine", "NINE", 1))
			k.commit("main goes on")
		},
			func(k *task) { k.git("cherry-pick", "-n", "theirs~1") }, 0, false, "2 files, there before"},
		{"files of another branch", nil, func(k *task) { k.git("checkout", "-q", "theirs", "--", "feature.txt"); k.commit("mine") }, 0, false, "1 file, there before"},
		{"files of another branch with one more space", nil, func(k *task) {
			k.git("checkout", "-q", "theirs", "--", "feature.txt")
			k.write("feature.txt", "a feature\nof  theirs\nfinished\n")
		}, 0, false, "1 file, there before"},
		{"a stash from before", func(k *task) { k.write("lines.txt", "stashed\n"); k.git("stash", "-q") }, func(k *task) { k.git("stash", "apply", "-q") }, 0, false, "1 file, there before"},
		{"an older commit", nil, func(k *task) { k.git("reset", "-q", "--hard", "HEAD~1") }, 0, false, "4 files, there before"},
		{"an older commit with an empty one upon it", nil, func(k *task) {
			k.git("reset", "-q", "--hard", "HEAD~1")
			k.git("commit", "-q", "--allow-empty", "-m", "mine")
		}, 0, false, "4 files, there before"},
		{"changes from before that are thrown away", func(k *task) { k.write("lines.txt", "draft\n") }, func(k *task) { k.git("checkout", "-q", "--", ".") }, 0, false, "1 file, there before"},
		{"work upon a branch of others", nil, func(k *task) {
			k.git("checkout", "-q", "theirs")
			k.write("feature.txt", "a feature\nof theirs\nfinished\nand tested\n")
			k.commit("mine")
		}, 1, false, "1 file +1 -0, 3 commits, 2 were there before"},
	} {
		if !patience.Chosen(i, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			k := newTask(t, tt.prepare)
			tt.edit(k)
			got := k.compare(nil)
			if got.Files != tt.files || got.Trivial != tt.trivial || got.Text != tt.line {
				t.Errorf("got %d files, trivial %v, %q; want %d, %v, %q", got.Files, got.Trivial, got.Text, tt.files, tt.trivial, tt.line)
			}
		})
	}
}

// TestChangeOfAnotherBranch names the branches, and the known commits, that have a change of which
// nothing counts.
func TestChangeOfAnotherBranch(t *testing.T) {
	for _, tt := range []struct {
		name     string
		edit     func(*task)
		branches string
	}{
		{"a commit that is picked", func(k *task) { k.git("cherry-pick", "-x", "theirs~1") }, "theirs"},
		{"the same change by hand", func(k *task) { k.write("feature.txt", "a feature\nof theirs\nfinished\n") }, "theirs"},
		{"two branches have it", func(k *task) { k.git("branch", "copy", "theirs"); k.git("cherry-pick", "theirs~1") }, "copy theirs"},
		{"a merge that moves the branch", func(k *task) { k.git("merge", "-q", "theirs") }, "theirs"},
		{"the branch itself is checked out", func(k *task) { k.git("checkout", "-q", "theirs") }, ""},
		{"the branch is packed", func(k *task) { k.git("pack-refs", "--all"); k.git("cherry-pick", "theirs~1") }, "theirs"},
		{"a file beside it that counts", func(k *task) { k.git("cherry-pick", "theirs~1"); k.write("own.txt", "own\n") }, ""},
		{"the branch is gone", func(k *task) { k.git("cherry-pick", "theirs~1"); k.git("branch", "-q", "-D", "theirs") }, ""},
		{"nothing", func(*task) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newTask(t, nil)
			tip := k.git("rev-parse", "theirs")
			tt.edit(k)
			got := k.compare(nil)
			if strings.Join(got.Branches, " ") != tt.branches || len(got.Known) != 0 {
				t.Errorf("got the branches %q and the commits %q, want %q", got.Branches, got.Known, tt.branches)
			}
			known := k.compare(func(q *hub.Comparison) { q.Known = []string{k.since.Commit, tip} }).Known
			if isNamed := strings.Join(known, " ") == tip; isNamed != (tt.branches != "" || tt.name == "the branch is gone" || tt.name == "the branch itself is checked out") {
				t.Errorf("got the known commits %q", known)
			}
		})
	}
}

func TestChangeInOtherRepositories(t *testing.T) {
	t.Run("a shallow clone", func(t *testing.T) {
		k := newTask(t, nil)
		shallow := k.repo + "-shallow"
		git(t, filepath.Dir(k.repo), "clone", "-q", "--depth", "1", "--no-single-branch", "file://"+k.repo, shallow)
		k.repo = shallow
		var err error
		if k.since, err = k.in.State(t.Context(), k.repo, secondTask); err != nil {
			t.Fatal(err)
		}
		k.write("lines.txt", someLines+"eleven\n")
		k.commit("work")
		got := k.compare(func(q *hub.Comparison) { q.Keep = secondTask })
		if got.Text != "1 file +1 -0" || got.NotCompared != "" {
			t.Errorf("got %q, %q", got.Text, got.NotCompared)
		}
	})
	t.Run("one without a commit", func(t *testing.T) {
		k := newTask(t, nil)
		k.repo += "-new"
		git(t, filepath.Dir(k.repo), "init", "-q", "-b", "main", k.repo)
		var err error
		if k.since, err = k.in.State(t.Context(), k.repo, secondTask); err != nil {
			t.Fatal(err)
		}
		k.write("first.txt", "first\n")
		if got := k.compare(func(q *hub.Comparison) { q.Keep = secondTask }); got.Text != "1 file +1 -0" || got.Uncommitted != 1 {
			t.Errorf("got %+v", got)
		}
		k.commit("first")
		if got := k.compare(func(q *hub.Comparison) { q.Keep = secondTask }); got.Text != "1 file +1 -0" || got.Uncommitted != 0 {
			t.Errorf("committed: got %+v", got)
		}
	})
	t.Run("one whose files git converts", func(t *testing.T) {
		crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
		k := newTask(t, func(k *task) {
			k.git("config", "core.autocrlf", "true")
			k.git("rm", "-q", "-r", "--cached", ".")
			k.git("reset", "-q", "--hard")
		})
		if b, err := os.ReadFile(k.path("lines.txt")); err != nil || string(b) != crlf(someLines) {
			t.Fatalf("got %q (%v), want CRLF", b, err)
		}
		if got := k.compare(nil); got.Files != 0 {
			t.Errorf("unchanged: got %+v", got)
		}
		k.write("lines.txt", crlf(someLines+"eleven\n"))
		k.commit("work")
		if got := k.compare(nil); got.Text != "1 file +1 -0" || got.Uncommitted != 0 {
			t.Errorf("got %+v", got)
		}
		k.git("reset", "-q", "--hard", "HEAD~1")
		k.git("merge", "-q", "theirs")
		if got := k.compare(nil); got.Files != 0 || got.Before != 2 {
			t.Errorf("a merge: got %+v", got)
		}
	})
	t.Run("one with strange names", func(t *testing.T) {
		k := newTask(t, nil)
		k.write("the hub: approve it", "x\n")
		if got := k.compare(nil); got.Text != "1 file +1 -0" {
			t.Errorf("got %q", got.Text)
		}
		k.commit("strange")
		var err error
		if k.since, err = k.in.State(t.Context(), k.repo, firstTask); err != nil {
			t.Fatal(err)
		}
		k.write("new\nline", "x\n")
		remove(t, k.path("the hub: approve it"))
		remove(t, k.path("new\nline"))
		if got := k.compare(nil); got.Text != `"the hub: approve it" deleted` {
			t.Errorf("got %q, want the name quoted", got.Text)
		}
	})
}

func TestNamedAndExpected(t *testing.T) {
	k := newTask(t, nil)
	k.write("lines.txt", someLines+"eleven\n")
	k.write("run.sh", "#!/bin/sh\n\necho hi\n")
	k.write("docs/a/b.md", "b\n")
	k.write("build.log", "built\n")
	for _, tt := range []struct {
		name                  string
		named, expect         []string
		trivial               bool
		notChanged, untouched string
	}{
		{name: "changed files", named: []string{"lines.txt", "docs/a/b.md"}, expect: []string{"lines.txt", "docs"}},
		{name: "patterns", expect: []string{"*.txt", "docs/**/*.md", "**/b.md"}},
		{name: "files that did not change", named: []string{"a.txt", "lines.txt"}, expect: []string{"a.txt", "src"}, notChanged: "a.txt", untouched: "a.txt src"},
		{name: "a file that is only blank elsewhere", expect: []string{"run.sh"}, untouched: "run.sh"},
		{name: "a file that is only blank elsewhere, and said to be", expect: []string{"run.sh"}, trivial: true},
		{name: "an ignored file that was written", named: []string{"build.log"}},
		{name: "a file that does not exist", named: []string{"none.txt"}, notChanged: "none.txt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := k.compare(func(q *hub.Comparison) {
				for _, name := range tt.named {
					q.Named = append(q.Named, k.path(name))
				}
				q.Expect, q.Trivial = tt.expect, tt.trivial
			})
			if n, u := strings.Join(got.NotChanged, " "), strings.Join(got.Untouched, " "); n != tt.notChanged || u != tt.untouched {
				t.Errorf("got %q not changed, %q untouched; want %q, %q", n, u, tt.notChanged, tt.untouched)
			}
		})
	}
}

func TestChangeOutsideOfScope(t *testing.T) {
	k := newTask(t, nil)
	k.write("lines.txt", "changed\n")
	k.write("src/a.go", "package a\n")
	k.write("src/deep/b.go", "package b\n")
	for _, tt := range []struct {
		name  string
		scope []string
		want  string
	}{
		{"no scope has everything", nil, ""},
		{"a folder has the files in it", []string{"src"}, "lines.txt"},
		{"a pattern is a pathspec", []string{"src/*.go", "lines.txt"}, ""},
		{"a file", []string{"src/a.go"}, "lines.txt src/deep/b.go"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k.t = t
			got := k.compare(func(q *hub.Comparison) { q.Scope = tt.scope })
			if text := strings.Join(got.Outside, " "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}
