package landing_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/landing"
)

// file returns the content of a file in main, "" if there is none.
func (w *world) file(path string) string {
	out, _ := w.repo.run("", "show", "main:"+path)
	return out
}

// aliceLands makes bob's branch, and then lets ada land a change of src/alice.go.
func (w *world) aliceLands() hub.LandingEntry {
	w.Helper()
	w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"src/alice.go": "old\n"}})
	w.branch("bob", map[string]string{"mod/bob": "ok\n"})
	w.branch("alice", map[string]string{"src/alice.go": "new\n", "src/other.go": "new\n"})
	e := w.land(ada, "alice")
	w.turn()
	return w.want(e.ID, hub.EntryLanded, "")
}

func TestTakesBack(t *testing.T) {
	t.Run("a merge with the strategy ours is named, needs a word, and the owner hears of it", func(t *testing.T) {
		w := newWorld(t, plain)
		landed := w.aliceLands()
		w.repo.write(commitOf{branch: "bob", from: "refs/heads/bob", merge: "refs/heads/main"}) // with the files of bob alone
		e := w.land(bob, "bob")
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "waits for the review of operator: takes back src/alice.go, landed l1; src/other.go, landed l1")
		if w.file("src/alice.go") != "new" {
			t.Fatal("it landed")
		}
		w.inbox(ada)
		_, err := w.Give(w.ctx, operator, string(e.ID), approve)
		w.must(err)
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
		got := w.want(landed.ID, hub.EntryUndone, "takes back src/alice.go")
		if got.UndoneBy != e.ID || got.Because == "" || got.Answer != "no" {
			t.Errorf("got %+v", got)
		}
		mail := w.inbox(ada)
		if len(mail) != 1 || !strings.Contains(mail[0].Summary, "l1 (alice) was taken back from main by l2 of bob: it takes back src/alice.go") {
			t.Errorf("mail: %+v", mail)
		}
	})
	t.Run("a merge that is right, and a repair of its own file in the merge, need no word", func(t *testing.T) {
		w := newWorld(t, plain)
		w.aliceLands()
		w.repo.write(commitOf{branch: "bob", from: "refs/heads/bob", merge: "refs/heads/main", files: map[string]string{"src/alice.go": "new\n", "src/other.go": "new\n", "mod/bob": "ok\nok\n"}})
		e := w.land(bob, "bob")
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
		if w.file("src/alice.go") != "new" {
			t.Error("it took something back")
		}
	})
	t.Run("the content from before another landing is named; the reviewer of the policy has the word", func(t *testing.T) {
		w := newWorld(t, landing.Setting{Checks: []string{"test"}, Review: "rex", By: hub.LandingAuto})
		w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"src/alice.go": "old\n"}})
		w.branch("bob", map[string]string{"mod/bob": "ok\n"})
		w.branch("alice", map[string]string{"src/alice.go": "new\n"})
		first := w.land(ada, "alice")
		w.approve(rex, string(first.ID))
		w.turn()
		w.want(first.ID, hub.EntryLanded, "")
		w.repo.write(
			commitOf{branch: "bob", from: "refs/heads/bob", merge: "refs/heads/main", files: map[string]string{"src/alice.go": "new\n"}})
		w.repo.write(commitOf{branch: "bob", from: "refs/heads/bob", files: map[string]string{"src/alice.go": "old\n"}})
		e := w.land(bob, "bob")
		w.approve(rex, string(e.ID)) // before the queue saw it: this is not the word
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "waits for the review of rex: takes back src/alice.go, landed l1")
		w.approve(rex, string(e.ID))
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
		w.want(first.ID, hub.EntryUndone, "")
	})
	t.Run("the owner may take back its own work", func(t *testing.T) {
		w := newWorld(t, plain)
		w.aliceLands()
		w.repo.write(commitOf{branch: "alice", from: "refs/heads/main", files: map[string]string{"src/alice.go": "old\n"}})
		e := w.land(ada, "alice")
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
}

func TestUndone(t *testing.T) {
	t.Run("landed, undone, landed again is in main again", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		w.inbox(ada)
		undo, err := w.Undo(w.ctx, operator, e.ID, "it slows main down")
		w.must(err)
		w.turn()
		w.want(undo.ID, hub.EntryLanded, "")
		got := w.want(e.ID, hub.EntryUndone, "it slows main down")
		if got.UndoneBy != undo.ID || got.Because != "it slows main down" {
			t.Errorf("got %+v", got)
		}
		if mail := w.inbox(ada); len(mail) != 1 || mail[0].Summary != "l1 (a) was taken back from main by l2 of the operator: it slows main down" || mail[0].Next == "" {
			t.Errorf("mail: %+v", mail)
		}
		if w.file("mod/a") != "" {
			t.Fatal("it was not undone")
		}
		w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/a2": "ok\n"}})
		again := w.land(ada, "a")
		w.turn()
		w.want(again.ID, hub.EntryLanded, "")
		if w.file("mod/a") != "ok" || w.file("mod/a2") != "ok" {
			t.Errorf("main has %q and %q", w.file("mod/a"), w.file("mod/a2"))
		}

		// One undo takes all of that back.
		_, err = w.Undo(w.ctx, operator, again.ID, "")
		w.must(err)
		w.turn()
		if w.file("mod/a") != "" || w.file("mod/a2") != "" {
			t.Errorf("main has %q and %q", w.file("mod/a"), w.file("mod/a2"))
		}
	})
	t.Run("the operator's undo takes over the one of an agent that waits, and replaces one that was returned", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		waits, err := w.Undo(w.ctx, ada, e.ID, "")
		w.must(err)
		_, err = w.Undo(w.ctx, ada, e.ID, "")
		wantCode(t, err, hub.CodeConflict)
		if hint := hintOf(err); !strings.Contains(hint, "it waits for operator: parley land review l2 approve") {
			t.Errorf("hint: %q", hint)
		}
		got, err := w.Undo(w.ctx, operator, e.ID, "it slows main down")
		w.must(err)
		if got.ID != waits.ID || got.State != hub.EntryQueued || got.Approved != hub.Operator {
			t.Errorf("the operator's word made %+v", got)
		}
		w.turn()
		w.want(waits.ID, hub.EntryLanded, "")
		w.want(e.ID, hub.EntryUndone, "it slows main down")
		if v, err := w.Review(w.ctx, "v1"); err != nil || v.State != hub.ReviewStateReplaced {
			t.Errorf("the review is %s, %v", v.State, err)
		}

		w.branch("b", map[string]string{"shared.txt": "one\n2\nthree\n"})
		e = w.land(ada, "b")
		w.turn()
		returned, err := w.Undo(w.ctx, ada, e.ID, "")
		w.must(err)
		_, err = w.Give(w.ctx, operator, string(returned.ID), landing.Answer{Verdict: hub.VerdictChanges, Findings: changes.Findings})
		w.must(err)
		w.want(returned.ID, hub.EntryReturned, "")
		_, err = w.Undo(w.ctx, ada, e.ID, "")
		if hint := hintOf(err); hint != "try it again: parley land retry "+string(returned.ID) {
			t.Errorf("hint: %q", hint)
		}
		undo, err := w.Undo(w.ctx, operator, e.ID, "")
		w.must(err)
		w.turn()
		w.want(returned.ID, hub.EntryCancelled, "the operator undoes")
		w.want(undo.ID, hub.EntryLanded, "")
	})
	t.Run("the same commit is landed again, too", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		_, err := w.Undo(w.ctx, operator, e.ID, "")
		w.must(err)
		w.turn()
		again := w.land(ada, "a")
		w.turn()
		w.want(again.ID, hub.EntryLanded, "")
		if w.file("mod/a") != "ok" {
			t.Error("it says landed, and the work is not in main")
		}
	})
	t.Run("an undo that was undone: the change is landed again", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		undo, err := w.Undo(w.ctx, operator, e.ID, "")
		w.must(err)
		w.turn()
		w.inbox(ada)
		_, err = w.Undo(w.ctx, operator, undo.ID, "")
		w.must(err)
		w.turn()
		if mail := w.inbox(ada); len(mail) != 1 || mail[0].Summary != "l1 (a) is in main again: its undo was taken back by l3 of the operator" {
			t.Errorf("mail: %+v", mail)
		}
		w.want(undo.ID, hub.EntryUndone, "")
		w.want(e.ID, hub.EntryLanded, "")
		if w.file("mod/a") != "ok" {
			t.Error("it is not in main")
		}
	})
	t.Run("an agent's undo needs a word", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		undo, err := w.Undo(w.ctx, ada, e.ID, "")
		w.must(err)
		w.turn()
		w.want(undo.ID, hub.EntryWaiting, "waits for the review of operator: takes back l1 (a) of ada")
		_, err = w.Give(w.ctx, operator, string(undo.ID), approve)
		w.must(err)
		w.turn()
		w.want(undo.ID, hub.EntryLanded, "")
		w.want(e.ID, hub.EntryUndone, "")
	})
	t.Run("a landing that a person took back while the hub was stopped is undone, and its owner hears of it", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		w.good("b")
		e, kept := w.land(ada, "a"), w.land(ada, "b")
		w.turn()
		w.inbox(ada)
		w.restart()
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
		w.repo.write(commitOf{branch: "main", from: "refs/heads/main", author: "person", files: map[string]string{"mod/a": ""}})
		w.restart()
		w.turn()
		w.want(e.ID, hub.EntryUndone, "a commit by person took it back")
		w.want(kept.ID, hub.EntryLanded, "")
		w.restart()
		w.turn()
		if mail := w.inbox(ada); len(mail) != 1 || !strings.Contains(mail[0].Summary, "l1 (a) was taken back from main: a commit by person took it back") {
			t.Errorf("mail: %+v", mail)
		}
	})
	t.Run("a landing that a person took back by hand is undone, its owner hears of it, and it can land again", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		w.inbox(ada)
		w.repo.write(commitOf{branch: "main", from: "refs/heads/main", author: "person", files: map[string]string{"mod/a": ""}})
		w.turn()
		w.want(e.ID, hub.EntryUndone, "a commit by person took it back")
		if mail := w.inbox(ada); len(mail) != 1 {
			t.Errorf("mail: %+v", mail)
		}
		again := w.land(ada, "a")
		w.turn()
		w.want(again.ID, hub.EntryLanded, "")
		if w.file("mod/a") != "ok" {
			t.Error("it says landed, and the work is not in main")
		}
	})
}

func TestTarget(t *testing.T) {
	state := func(w *world) landing.Target {
		w.Helper()
		got, err := w.View(w.ctx, w.repo.dir, "main")
		w.must(err)
		if got.Target == nil {
			w.Fatal("the head was not judged")
		}
		return *got.Target
	}
	w := newWorld(t, plain)
	w.good("a")
	w.land(ada, "a")
	w.turn()
	if got := state(w); got.State != landing.TargetGreen || got.Since.IsZero() {
		t.Fatalf("after a landing: %+v", got)
	}

	// Something else moves it: the head is checked, and red. The operator and its author are told.
	w.repo.write(commitOf{branch: "main", from: "refs/heads/main", author: "bob", files: map[string]string{"mod/base": "broken\n"}})
	w.turn()
	red := state(w)
	if red.State != landing.TargetRed || red.Check != "test" || red.By != "bob" {
		t.Errorf("after a push: %+v", red)
	}
	for _, as := range []hub.Caller{operator, bob} {
		if mail := w.inbox(as); len(mail) != 1 || !strings.Contains(mail[0].Summary, "is red at") {
			t.Errorf("%s got %+v", as.ID, mail)
		}
	}

	// A change that does not repair it waits and is not blamed, one that does lands.
	w.good("b")
	w.branch("repair", map[string]string{"mod/base": "ok\n"})
	waits, repairs := w.land(ada, "b"), w.land(bob, "repair")
	w.turn()
	w.want(repairs.ID, hub.EntryLanded, "")
	w.turn()
	w.want(waits.ID, hub.EntryLanded, "")
	if got := state(w); got.State != landing.TargetGreen || !red.Since.Before(got.Since.Time) {
		t.Errorf("after the repair: %+v", got)
	}
}

// hintOf returns the next step of an error.
func hintOf(err error) string {
	var e *hub.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
