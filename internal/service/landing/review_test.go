package landing_test

import (
	"fmt"
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
		_, err = w.Give(w.ctx, rex, string(e.ID), approve) // it fetched nothing
		wantCode(t, err, hub.CodeConflict)
		got := w.approve(rex, string(e.ID))
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
		w.approve(rex, string(e.ID))

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
	t.Run("an agent that made the author, that an author made, or that began a run of the work, may not review", func(t *testing.T) {
		kid := hub.Caller{Kind: hub.CallerAgent, ID: "kid", Role: hub.RoleExecutor}
		for _, c := range []struct {
			why             string
			maker           hub.Caller
			author, wanted  hub.Caller
			begins, forbids bool
		}{
			{"rex made the agent kid, who made a part of the change", rex, kid, rex, false, true},
			{"kid was made by ada, who made a part of the change", ada, ada, kid, false, true},
			{"rex began a run of the work", operator, kid, rex, true, true},
			{"", operator, kid, rex, false, false},
		} {
			w := newWorld(t, plain)
			w.must(w.store.Update(w.ctx, hub.SurvivesKill, func(tx hub.Tx) error { return w.keys.Enlist(tx, c.maker, hub.Agent{ID: "kid", Role: hub.RoleExecutor}) }))
			w.set(landing.Setting{Review: string(c.wanted.ID)})
			if c.begins {
				run := hub.Run{ID: "01960000-0000-7000-8000-00000000000b", Agent: "kid", By: "rex", Task: "t", Dir: w.repo.dir, ThreadID: "t", State: hub.RunStarting, StartedAt: w.clock().Now(), ExpiresAt: w.clock().Now()}
				w.must(w.store.Update(w.ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutRun(run, "") }))
			}
			w.good("a")
			w.land(c.author, "a")
			got, err := w.Review(w.ctx, "v1")
			w.must(err)
			if isForbidden := got.Reviewer == "operator"; isForbidden != c.forbids || !strings.Contains(got.Note, c.why) {
				t.Errorf("%s: the reviewer is %s: %q", c.why, got.Reviewer, got.Note)
			}
		}
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

// A change that removes tests needs a review, whatever else is in its batch.
func TestFewerTests(t *testing.T) {
	begin := func(t *testing.T) *world {
		w := newWorld(t, plain)
		w.check.command = testCommand + `; echo "tests=$(ls unit | wc -l)"`
		w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"unit/1": "1\n", "unit/2": "2\n", "unit/3": "3\n"}})
		w.branch("more", map[string]string{"unit/4": "4\n"})
		w.branch("fewer", map[string]string{"unit/1": "", "unit/2": ""})
		return w
	}
	t.Run("it waits for the operator, and the others land", func(t *testing.T) {
		w := begin(t)
		more := w.land(ada, "more")
		fewer := w.land(bob, "fewer")
		w.good("a")
		last := w.land(ada, "a")
		w.turn()
		w.want(more.ID, hub.EntryLanded, "")
		w.want(last.ID, hub.EntryLanded, "")
		if e := w.want(fewer.ID, hub.EntryWaiting, "waits for the review of operator: tests: 4 before, 2 now"); e.Waits != hub.WaitsForReview {
			t.Errorf("waits for %s", e.Waits)
		}
		mail := w.inbox(operator)
		if len(mail) != 1 || mail[0].Members["checks"] != "tests: 4 before, 2 now" {
			t.Errorf("mail: %+v", mail)
		}
		_, err := w.Give(w.ctx, operator, string(fewer.ID), approve)
		w.must(err)
		w.good("b")
		w.land(ada, "b")
		w.turn()
		w.want(fewer.ID, hub.EntryLanded, "")
		w.want("l4", hub.EntryLanded, "")
	})
	t.Run("the operator lets it land without a review", func(t *testing.T) {
		w := begin(t)
		e := w.land(bob, "fewer")
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "tests: 3 before, 1 now")
		_, err := w.Waive(w.ctx, operator, e.ID, "review", "they moved to another repository")
		w.must(err)
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("the review of the policy is enough", func(t *testing.T) {
		w := begin(t)
		w.set(landing.Setting{Review: "rex"})
		e := w.land(bob, "fewer")
		w.want(e.ID, hub.EntryWaiting, "waits for the review of rex")
		w.approve(rex, string(e.ID))
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("the work of a handoff with fewer tests waits before it is tried", func(t *testing.T) {
		const id = hub.HandoffID("01960000-0000-7000-8000-000000000003")
		w := begin(t)
		w.work.pieces[id] = landing.Piece{
			Subject: landing.Subject{Handoff: id}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "fewer"), Owner: "ada", Title: "login", Note: "test passed (tests: 3 before, 1 now)", Fewer: "tests: 3 before, 1 now",
		}
		w.turn()
		w.want("l1", hub.EntryWaiting, "waits for the review of operator: tests: 3 before, 1 now")
		if e := w.entry("l1"); e.Tries != 0 {
			t.Errorf("%d tries", e.Tries)
		}
	})
}

func TestHandoffs(t *testing.T) {
	const id = hub.HandoffID("01960000-0000-7000-8000-000000000001")
	piece := func(w *world) landing.Piece {
		return landing.Piece{Subject: landing.Subject{Handoff: id}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "a"), Branch: "a", Owner: "ada", Title: "login", Priority: hub.PriorityNormal}
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
		w.approve(bob, string(id))
		w.turn()
		w.want("l1", hub.EntryLanded, "")
	})
	t.Run("returned work is active again; each completion queues it, five times, then the operator decides", func(t *testing.T) {
		w := newWorld(t, plain)
		w.branch("a", map[string]string{"mod/a": "broken\n"})
		p := piece(w)
		p.Ended = w.clock().Now()
		w.work.pieces[id] = p
		w.turn()
		w.want("l1", hub.EntryReturned, "main fails the check test")
		mail := w.inbox(ada)
		if len(mail) != 1 || mail[0].Priority != hub.PriorityHigh || !strings.Contains(mail[0].Next, "the task is yours again: merge main into your branch and repair what test reports, then commit and complete it") {
			t.Errorf("mail: %+v", mail)
		}

		// A commit alone queues nothing, and a retry is refused while the task is active.
		w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/a": "broken 1\n"}})
		w.turn()
		w.want("l1", hub.EntryReturned, "")
		_, err := w.Retry(w.ctx, operator, "l1")
		wantCode(t, err, hub.CodeConflict)

		for n := 2; n <= 5; n++ {
			w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/a": fmt.Sprintf("broken %d\n", n)}})
			p := piece(w)
			p.Ended = w.clock().Now()
			w.work.pieces[id] = p
			w.now = w.now.Add(time.Minute)
			w.turn()
			if e := w.want("l1", hub.EntryReturned, ""); e.Returns != n || len(w.work.returned) != n {
				t.Fatalf("completion %d: %d returns, %q", n, e.Returns, w.work.returned)
			}
		}
		w.repo.write(commitOf{branch: "a", from: "refs/heads/a", files: map[string]string{"mod/a": "ok\n"}})
		p = piece(w)
		p.Ended = w.clock().Now()
		w.work.pieces[id] = p
		w.now = w.now.Add(time.Minute)
		w.turn()
		if e := w.want("l1", hub.EntryWaiting, "it was returned 5 times: the operator decides"); e.Waits != hub.WaitsForOperator {
			t.Errorf("waits for %s", e.Waits)
		}
		_, err = w.Retry(w.ctx, operator, "l1")
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
		Subject: landing.Subject{Handoff: id}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "a"), Base: w.head(), Branch: "a", Owner: "ada", Title: "login", Review: "bob", Note: "test passed",
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
	if len(w.work.returned) != 1 || !strings.HasPrefix(w.work.returned[0], string(id)+": bob wants changes") {
		t.Errorf("returned: %q", w.work.returned)
	}
}

// Who may review: no author, by what the hub and git know, and a reviewer that is there.
func TestAuthors(t *testing.T) {
	policy := landing.Setting{Checks: []string{"test"}, By: hub.LandingAuto, Review: "rex"}
	for _, c := range []struct {
		name     string
		commit   commitOf
		isAuthor bool
	}{
		{"the author in git", commitOf{author: "rex"}, true},
		{"a co-author in a trailer", commitOf{trailer: "Co-authored-by: rex <rex@localhost>"}, true},
		{"a person whose name is written in another way", commitOf{author: "Rex"}, false},
		{"the person of the repository", commitOf{author: "Ana Lopez"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, policy)
			c.commit.branch = "a"
			c.commit.from = "refs/heads/main"
			c.commit.files = map[string]string{"mod/a": "ok\n"}
			w.repo.write(c.commit)
			e := w.land(ada, "a")
			v, err := w.Review(w.ctx, string(e.ID))
			w.must(err)
			w.read(rex, v.ID)
			_, err = w.Give(w.ctx, rex, string(e.ID), approve)
			if c.isAuthor {
				wantCode(t, err, hub.CodeDenied)
				if v.Reviewer != "operator" || v.For != "rex" {
					t.Errorf("%s is asked for %s", v.Reviewer, v.For)
				}
				_, err = w.Give(w.ctx, operator, string(e.ID), approve)
			}
			w.must(err)
			w.turn()
			w.want(e.ID, hub.EntryLanded, "")
		})
	}
	t.Run("the owner of a handoff whose commit another agent lands", func(t *testing.T) {
		const id = hub.HandoffID("01960000-0000-7000-8000-000000000005")
		w := newWorld(t, policy)
		w.good("a")
		w.work.pieces[id] = landing.Piece{Subject: landing.Subject{Handoff: id}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "a"), Owner: "rex", Missing: "it is not completed"}
		e := w.land(ada, "a")
		_, err := w.Give(w.ctx, rex, string(e.ID), approve)
		wantCode(t, err, hub.CodeDenied)
	})
	t.Run("a package cannot replace the reviewer of the policy: both have to approve", func(t *testing.T) {
		const id = hub.HandoffID("01960000-0000-7000-8000-000000000006")
		for _, review := range []string{"none", "bob"} {
			w := newWorld(t, policy)
			w.good("a")
			w.work.pieces[id] = landing.Piece{Subject: landing.Subject{Handoff: id}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "a"), Branch: "a", Owner: "ada", Title: "login", Review: review}
			w.turn()
			if review == "bob" {
				w.want("l1", hub.EntryWaiting, "waits for the review of bob")
				w.approve(bob, string(id))
				w.turn()
			}
			w.want("l1", hub.EntryWaiting, "waits for the review of rex")
			w.approve(rex, string(id))
			w.turn()
			w.want("l1", hub.EntryLanded, "")
		}
	})
	t.Run("a reviewer that left the hub: the entry says who is missing, and so does the operator's mail", func(t *testing.T) {
		w := newWorld(t, policy)
		p := w.policy
		p.Review = "gone"
		w.must(w.store.Update(w.ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteLandings().PutPolicy(p) }))
		w.good("a")
		e := w.land(ada, "a")
		w.want(e.ID, hub.EntryWaiting, "waits for the review of gone")
		if mail := w.inbox(operator); len(mail) != 1 || !strings.Contains(fmt.Sprint(mail[0].Members["checks"]), "no agent named gone on this hub") {
			t.Errorf("mail: %+v", mail)
		}
		_, err := w.Give(w.ctx, operator, string(e.ID), approve)
		w.must(err)
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
}

// An agent approves what it fetched whole, however large it is.
func TestWholeDifference(t *testing.T) {
	w := newWorld(t, reviewed)
	w.branch("a", map[string]string{"mod/a": "ok\n", "data.txt": strings.Repeat("0123456789 and so on\n", 60_000)})
	e := w.land(ada, "a")
	v, err := w.Review(w.ctx, string(e.ID))
	w.must(err)
	if len(v.Parts) == 0 || v.Size < 1<<20 {
		t.Fatalf("parts %v of %d bytes", v.Parts, v.Size)
	}
	w.must(w.Fetched(w.ctx, rex, v.Difference))
	w.must(w.Fetched(w.ctx, bob, v.Parts[0])) // what another agent fetched does not count
	_, err = w.Give(w.ctx, rex, string(e.ID), approve)
	wantCode(t, err, hub.CodeConflict)
	w.approve(rex, string(e.ID))
	w.turn()
	w.want(e.ID, hub.EntryLanded, "")
}

// A review that a package asks for holds on every way to land.
func TestReviewOfAPackageHolds(t *testing.T) {
	const id = hub.HandoffID("01960000-0000-7000-8000-000000000007")
	begin := func(t *testing.T, asker hub.AgentID) *world {
		w := newWorld(t, plain)
		w.good("a")
		w.work.pieces[id] = landing.Piece{
			Subject: landing.Subject{Handoff: id}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "a"), Branch: "a", Owner: "ada", Title: "login", Review: "rex", Asker: asker, Missing: "it is not completed",
		}
		w.repo.git("", "branch", "copy", "a")
		w.repo.write(commitOf{branch: "picked", from: "refs/heads/main", author: "other", files: map[string]string{"mod/a": "ok\n"}})
		w.repo.write(commitOf{branch: "above", from: "refs/heads/a", files: map[string]string{"mod/more": "ok\n"}})
		return w
	}
	for _, by := range []hub.Caller{ada, bob} {
		for _, ref := range []string{"a", "copy", "above", "picked"} {
			t.Run(string(by.ID)+" lands "+ref, func(t *testing.T) {
				w := begin(t, "planner")
				e := w.land(by, ref)
				w.turn()
				if got := w.want(e.ID, hub.EntryWaiting, "waits for the review of rex"); got.Holder != id || got.Missing[0].Who != "rex" {
					t.Errorf("got %+v", got)
				}
				w.approve(rex, string(e.ID))
				w.turn()
				w.want(e.ID, hub.EntryLanded, "")
			})
		}
	}
	t.Run("the operator's own commits are held by what the operator asked for alone", func(t *testing.T) {
		for asker, want := range map[hub.AgentID]hub.LandingState{"planner": hub.EntryLanded, hub.Operator: hub.EntryWaiting} {
			w := begin(t, asker)
			e := w.land(operator, "picked")
			w.turn()
			w.want(e.ID, want, "")
			if asker != "planner" {
				continue
			}
			e = w.land(operator, "copy") // the commit of the handoff's owner
			w.turn()
			w.want(e.ID, hub.EntryWaiting, "waits for the review of rex")
		}
	})
}
