package landing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/landing"
)

// reviewed is a policy that asks agents with the role of reviewers.
var reviewed = landing.Setting{Checks: []string{"test"}, By: hub.LandingAuto, Review: "role:reviewer"}

var (
	approve = landing.Answer{Verdict: hub.VerdictApprove}
	changes = landing.Answer{Verdict: hub.VerdictChanges, Findings: []hub.ReviewFinding{{Path: "mod/a", Line: 1, Text: "say why"}}}
)

func TestReview(t *testing.T) {
	t.Run("an entry is tried after its approval; the reviewer gets the difference", func(t *testing.T) {
		w := newWorld(t, reviewed)
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "waits for the review of role:reviewer")
		mail := w.inbox(rex)
		if len(mail) != 1 || mail[0].Priority != hub.PriorityHigh {
			t.Fatalf("mail: %+v", mail)
		}
		if patch := w.artifact(rex, mail[0].Context.Artifacts[0].SHA256); !strings.Contains(patch, "+ok") {
			t.Errorf("difference: %s", patch)
		}
		_, err := w.Give(w.ctx, ada, string(e.ID), approve)
		wantCode(t, err, hub.CodeDenied)
		_, err = w.Give(w.ctx, bob, string(e.ID), approve)
		wantCode(t, err, hub.CodeDenied)
		got, err := w.Give(w.ctx, rex, string(e.ID), approve)
		w.must(err)
		if got.Verdict != "approve" || got.By != rex.ID || got.Commit != e.Commit {
			t.Errorf("got %+v", got)
		}
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("changes return the entry with the findings; a new commit asks again, with the difference since the approval", func(t *testing.T) {
		w := newWorld(t, reviewed)
		w.good("a")
		e := w.land(ada, "a")
		w.inbox(rex)
		_, err := w.Give(w.ctx, rex, string(e.ID), landing.Answer{Verdict: "changes"})
		wantCode(t, err, hub.CodeInvalid)
		_, err = w.Give(w.ctx, rex, string(e.ID), changes)
		w.must(err)
		w.want(e.ID, hub.EntryReturned, "rex wants changes: mod/a:1: say why")
		w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/why": "ok\n"}})
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "waits for the review")
		_, err = w.Give(w.ctx, rex, string(e.ID), approve)
		w.must(err)

		// The approval is for one commit.
		w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/later": "ok\n"}})
		w.inbox(rex)
		w.land(ada, "a")
		w.want(e.ID, hub.EntryWaiting, "waits for the review")
		mail := w.inbox(rex)
		if len(mail) != 1 || !strings.Contains(mail[0].Summary, "again") {
			t.Fatalf("mail: %+v", mail)
		}
		patch := w.artifact(rex, mail[0].Context.Artifacts[0].SHA256)
		if !strings.Contains(patch, "mod/later") || strings.Contains(patch, "mod/why") {
			t.Errorf("difference since the approval: %s", patch)
		}
		_, err = w.Give(w.ctx, operator, string(e.ID), approve)
		w.must(err)
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("the author of a commit, and an agent of the same launch, may not review", func(t *testing.T) {
		w := newWorld(t, landing.Setting{Checks: []string{"test"}, By: hub.LandingAuto, Review: "rex"})
		w.repo.write(commitOf{branch: "a", from: "refs/heads/main", author: "rex", files: map[string]string{"mod/a": "ok\n"}})
		w.land(ada, "a")
		got, err := w.Review(w.ctx, "v1")
		w.must(err)
		if got.Reviewer != "operator" {
			t.Errorf("the reviewer of a change that rex made is %s", got.Reviewer)
		}

		for _, a := range []hub.AgentID{"bob", "rex"} {
			_, _, err := w.keys.MintKey(w.ctx, operator, keys.NewKey{Agent: a, Label: "launch-1-2"})
			w.must(err)
		}
		w.good("b")
		w.land(bob, "b")
		got, err = w.Review(w.ctx, "v2")
		w.must(err)
		if got.Reviewer != "operator" {
			t.Errorf("the reviewer of a change of the same launch is %s", got.Reviewer)
		}
		_, err = w.Give(w.ctx, rex, "v2", approve)
		wantCode(t, err, hub.CodeDenied)
	})
	t.Run("a silent reviewer is reminded once, then the operator is told", func(t *testing.T) {
		w := newWorld(t, reviewed)
		w.good("a")
		w.land(ada, "a")
		w.inbox(rex)
		sweep := func(after time.Duration) (reminded, told int) {
			w.Helper()
			w.now = w.now.Add(after)
			w.must(w.SweepReviews(w.ctx))
			return len(w.inbox(rex)), len(w.inbox(operator))
		}
		for i, step := range []struct {
			after          time.Duration
			reminded, told int
		}{{10 * time.Minute, 0, 0}, {21 * time.Minute, 1, 0}, {10 * time.Minute, 0, 0}, {21 * time.Minute, 0, 1}, {time.Hour, 0, 0}} {
			if reminded, told := sweep(step.after); reminded != step.reminded || told != step.told {
				t.Errorf("step %d: reminded %d times and told %d, want %d and %d", i, reminded, told, step.reminded, step.told)
			}
		}
	})
}

func TestHandoffs(t *testing.T) {
	const id = hub.HandoffID("01960000-0000-7000-8000-000000000001")
	piece := func(w *world) landing.Piece {
		return landing.Piece{Handoff: id, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "a"), Branch: "a", Owner: "ada", Title: "login", Priority: hub.PriorityNormal}
	}
	t.Run("auto: a completed handoff is queued when its checks are complete", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		p := piece(w)
		p.Missing = "its checks run"
		w.work.pieces[id] = p
		w.turn()
		if got, _ := w.List(w.ctx, landing.Filter{}); len(got.Entries) != 0 {
			t.Fatalf("queued: %+v", got)
		}
		w.work.pieces[id] = piece(w)
		w.turn()
		e := w.want("l1", hub.EntryLanded, "")
		if e.Owner != "ada" || e.Handoff != id {
			t.Errorf("got %+v", e)
		}
		w.turn()
		if got, _ := w.List(w.ctx, landing.Filter{}); len(got.Entries) != 1 {
			t.Errorf("queued twice: %+v", got)
		}
	})
	t.Run("the package decides about the reviewer", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		p := piece(w)
		p.Review = "bob"
		w.work.pieces[id] = p
		w.turn()
		w.want("l1", hub.EntryWaiting, "waits for the review of bob")
		_, err := w.Give(w.ctx, bob, string(id), approve)
		w.must(err)
		w.turn()
		w.want("l1", hub.EntryLanded, "")
	})
	t.Run("work with fewer tests than before waits for the operator's review", func(t *testing.T) {
		w := newWorld(t, plain)
		w.good("a")
		p := piece(w)
		p.Doubt = "tests: 41 before, 12 now"
		w.work.pieces[id] = p
		w.turn()
		w.want("l1", hub.EntryWaiting, "waits for the review of operator")
		_, err := w.Give(w.ctx, operator, string(id), approve)
		w.must(err)
		w.turn()
		w.want("l1", hub.EntryLanded, "")
	})
	t.Run("agents land their own handoffs", func(t *testing.T) {
		w := newWorld(t, landing.Setting{Checks: []string{"test"}})
		w.good("a")
		w.work.pieces[id] = piece(w)
		_, err := w.Land(w.ctx, bob, landing.Request{Handoff: id})
		wantCode(t, err, hub.CodeDenied)
		e, err := w.Land(w.ctx, ada, landing.Request{Handoff: id})
		w.must(err)
		w.want(e.ID, hub.EntryWaiting, "waits for the operator")
		_, err = w.Land(w.ctx, operator, landing.Request{Handoff: id})
		w.must(err)
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
}

func TestReviewWithoutAQueue(t *testing.T) {
	const id = hub.HandoffID("01960000-0000-7000-8000-000000000002")
	w := newWorld(t, plain)
	w.good("a")
	_, err := w.Off(w.ctx, operator, w.repo.dir, "")
	w.must(err)
	w.work.pieces[id] = landing.Piece{
		Handoff: id, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "a"), Base: w.head(), Branch: "a", Owner: "ada", Title: "login", Review: "bob", Note: "test passed",
	}
	w.must(w.LookForReviews(w.ctx))
	mail := w.inbox(bob)
	if len(mail) != 1 || mail[0].Members["checks"] != "test passed" {
		t.Fatalf("mail: %+v", mail)
	}
	got, err := w.Give(w.ctx, bob, string(id), changes)
	w.must(err)
	if got.State != hub.ReviewStateChanges {
		t.Errorf("the review is %s", got.State)
	}
}
