//go:build unix

package evidence_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

func TestMissing(t *testing.T) {
	const work = someLines + "eleven\ntwelve\nthirteen\nfourteen\n"
	commit := func(k *task) { k.write("lines.txt", work); k.commit("work") }
	loose := func(k *task) { k.write("lines.txt", work) }
	for _, tt := range []struct {
		name    string
		work    func(*task)
		after   func(*task)
		missing bool
	}{
		{"work that is left alone", commit, func(*task) {}, false},
		{"committed work on another branch", commit, func(k *task) { k.git("branch", "done"); k.git("reset", "-q", "--hard", "HEAD~1") }, false},
		{"committed work in a tag", commit, func(k *task) { k.git("tag", "done"); k.git("reset", "-q", "--hard", "HEAD~1") }, false},
		{"committed work that is taken back", commit, func(k *task) { k.git("reset", "-q", "--hard", "HEAD~1") }, true},
		{"committed work whose branch is deleted", func(k *task) { k.git("checkout", "-q", "-b", "mine"); commit(k) },
			func(k *task) { k.git("checkout", "-q", "main"); k.git("branch", "-q", "-D", "mine") }, true},
		{"committed work that another branch has squashed", func(k *task) { k.git("checkout", "-q", "-b", "mine"); commit(k) }, func(k *task) {
			k.git("checkout", "-q", "main")
			k.git("merge", "-q", "--squash", "mine")
			k.commit("squashed")
			k.write("lines.txt", "something else\n")
			k.commit("later")
			k.git("branch", "-q", "-D", "mine")
		}, false},
		{"work that was reverted in the open", commit, func(k *task) { k.git("revert", "--no-edit", "HEAD") }, false},
		{"work that goes on", loose, func(k *task) { k.write("lines.txt", strings.Replace(work, "twelve", "a dozen", 1)) }, false},
		{"work that was replaced", loose, func(k *task) { k.write("lines.txt", "something else\n") }, true},
		{"loose work that is taken back", loose, func(k *task) { k.git("checkout", "-q", "--", ".") }, true},
		{"loose work that is stashed", loose, func(k *task) { k.git("stash", "-q") }, false},
		{"a new file that is removed", func(k *task) { k.write("new.txt", "new\n") }, func(k *task) { remove(k.t, k.path("new.txt")) }, true},
		{"a deletion", func(k *task) { remove(k.t, k.path("lines.txt")) }, func(*task) {}, false},
		{"a deletion that is taken back", func(k *task) { remove(k.t, k.path("lines.txt")) }, func(k *task) { k.git("checkout", "-q", "--", ".") }, true},
		{"work in a folder that is removed", loose, func(k *task) {
			if err := os.RemoveAll(k.repo); err != nil {
				k.t.Fatal(err)
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newTask(t, nil)
			tt.work(k)
			c := k.compare(nil)
			before := time.Now()
			tt.after(k)
			got, err := k.in.Missing(t.Context(), c)
			if err != nil || got.IsZero() == tt.missing {
				t.Fatalf("got %v (%v), want missing %v", got, err, tt.missing)
			}
			if tt.missing && (got.Before(before.Add(-time.Minute)) || got.After(time.Now().Add(time.Minute))) {
				t.Errorf("got %v, want the time at which it was taken back", got)
			}
		})
	}
	t.Run("a worktree that is removed after its branch was merged", func(t *testing.T) {
		k := newTask(t, nil)
		main := k.repo
		k.repo += "-side"
		git(t, main, "worktree", "add", "-q", "-b", "side", k.repo)
		var err error
		if k.since, err = k.in.State(t.Context(), k.repo, firstTask); err != nil {
			t.Fatal(err)
		}
		commit(k)
		c := k.compare(nil)
		git(t, main, "merge", "-q", "side")
		git(t, main, "worktree", "remove", k.repo)
		if got, err := k.in.Missing(t.Context(), c); err != nil || !got.IsZero() {
			t.Errorf("merged: got %v (%v), want that it is there", got, err)
		}
		git(t, main, "reset", "-q", "--hard", "HEAD~1")
		git(t, main, "branch", "-q", "-D", "side")
		if got, err := k.in.Missing(t.Context(), c); err != nil || got.IsZero() {
			t.Errorf("taken back: got %v (%v), want that it is missing", got, err)
		}
	})
}

func TestSweep(t *testing.T) {
	root, kept := folder(t), folder(t)
	repo := filepath.Join(root, "repo")
	newRepository(t, repo)
	in := inspector(t, &evidence.Options{Kept: kept}, root)
	since := map[hub.HandoffID]hub.WorkState{}
	for _, id := range []hub.HandoffID{firstTask, secondTask} {
		var err error
		if since[id], err = in.State(t.Context(), repo, id); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(repo, "a.txt"), "changed\n")
	compare := func(id hub.HandoffID) error {
		_, err := in.Compare(t.Context(), hub.Comparison{Path: repo, Since: since[id], Keep: id, Owner: "builder"})
		return err
	}
	if err := compare(firstTask); err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for _, step := range []struct {
		age  time.Duration
		left int
	}{{29 * day, 2}, {31 * day, 1}, {364 * day, 1}, {366 * day, 0}} {
		if err := in.Sweep(time.Now().Add(step.age)); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(kept, "*", "*"))
		if err != nil || len(left) != step.left {
			t.Errorf("after %v: got %v (%v), want %d", step.age, left, err, step.left)
		}
	}
	if err := compare(secondTask); hub.CodeOf(err) != hub.CodeNotEnabled {
		t.Errorf("a state that is not kept: got %v, want %s", err, hub.CodeNotEnabled)
	}
}
