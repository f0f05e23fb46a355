package landing_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/landing"
)

func yes() *bool {
	v := true
	return &v
}

// refused wants a setting to be refused with a part of the text, and nothing to be stored.
func (w *world) refused(p landing.Setting, text string) {
	w.Helper()
	before, err := w.Policies(w.ctx)
	w.must(err)
	p.Folder = w.repo.dir
	if p.Into == "" {
		p.Into = "main"
	}
	_, _, err = w.Set(w.ctx, operator, p)
	known := new(hub.Error)
	if !errors.As(err, &known) || !strings.Contains(known.Error()+" "+known.Hint, text) {
		w.Errorf("%+v: got %v, want %q", p, err, text)
	}
	after, err := w.Policies(w.ctx)
	w.must(err)
	if len(after) != len(before) || after[0].Digest() != before[0].Digest() {
		w.Errorf("%+v was stored", p)
	}
}

func TestPolicy(t *testing.T) {
	t.Run("a repository without a check needs no_checks, by name", func(t *testing.T) {
		w := newWorld(t, plain)
		w.check.known = []landing.Check{}
		w.refused(landing.Setting{Reset: true, By: hub.LandingOperator}, "no check is allowed in "+base(w.repo.dir)+": parley check add test -- make test, or --no-checks to land unchecked")
		w.check.known = []landing.Check{{Name: "lint"}, {Name: "inside", InPlace: true}}
		w.refused(landing.Setting{Reset: true}, "--check lint, or --no-checks")
		w.refused(landing.Setting{Checks: []string{"inside"}}, "runs in place")
		w.refused(landing.Setting{Checks: []string{"lnt"}}, "lint")
		got, _ := w.set(landing.Setting{Reset: true, NoChecks: yes()})
		if len(got.Open) != 1 || got.Open[0].Gate != "checks" || got.Open[0].By != hub.Operator || got.Open[0].At.IsZero() {
			t.Errorf("open: %+v", got.Open)
		}
	})
	t.Run("a second set changes what it names, and says so", func(t *testing.T) {
		w := newWorld(t, landing.Setting{Checks: []string{"test"}, Review: "rex", By: hub.LandingAuto})
		got, changed := w.set(landing.Setting{Batch: 2})
		if !slices.Equal(got.Checks, []string{"test"}) || got.Review != "rex" || got.By != hub.LandingAuto || got.Batch != 2 || !slices.Equal(changed, []string{"batch"}) {
			t.Errorf("got %+v, changed %v", got.LandingPolicy, changed)
		}
		got, changed = w.set(landing.Setting{Review: "none"})
		if !slices.Equal(changed, []string{"review"}) || len(got.Open) != 1 || got.Open[0].Gate != "review" {
			t.Errorf("open %+v, changed %v", got.Open, changed)
		}
		got, _ = w.set(landing.Setting{Review: "rex", Default: []string{"batch"}})
		if len(got.Open) != 0 || got.Batch != landing.DefaultBatch {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("by auto needs a reviewer or none by name; a reviewer must be on the hub", func(t *testing.T) {
		w := newWorld(t, landing.Setting{Checks: []string{"test"}})
		w.refused(landing.Setting{By: hub.LandingAuto}, "--review WHO, or --no-review")
		w.refused(landing.Setting{Review: "rexx"}, "no agent named rexx on this hub")
		w.refused(landing.Setting{Review: "role:integrator"}, "no agent on this hub has the role integrator")
		w.refused(landing.Setting{Review: "@security"}, "no agent on this hub has the ability security")
		for _, who := range []string{"rex", "role:reviewer", "operator", "none"} {
			if got, _ := w.set(landing.Setting{By: hub.LandingAuto, Review: who}); got.Review != who {
				t.Errorf("got %q", got.Review)
			}
		}
	})
	t.Run("a policy of an earlier version goes on and is shown as open; one without any check waits", func(t *testing.T) {
		w := newWorld(t, plain)
		old := w.policy
		old.Open = nil
		old.Checks = []string{}
		w.must(w.store.Update(w.ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteLandings().PutPolicy(old) }))
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		got := w.want(e.ID, hub.EntryWaiting, "no check is asked for in")
		if got.Answer != "wait" || len(got.Missing) != 1 || got.Missing[0].Who != "operator" || !strings.Contains(got.Missing[0].Next, "parley land policy set") {
			t.Errorf("missing: %+v", got.Missing)
		}
		all, err := w.Views(w.ctx)
		w.must(err)
		if len(all) != 1 || all[0].Unchecked == "" || len(all[0].Open) != 1 || all[0].Open[0].Gate != "review" {
			t.Errorf("views: %+v", all)
		}

		// A change of the batch alone is refused, too: the line that ends it is named.
		w.refused(landing.Setting{Batch: 2}, "--no-checks")
		w.set(landing.Setting{NoChecks: yes()})
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
}

func base(folder string) string { return folder[strings.LastIndex(folder, "/")+1:] }

func TestWhichChecks(t *testing.T) {
	t.Run("required checks of the repository are asked, whatever the policy names", func(t *testing.T) {
		w := newWorld(t, landing.Setting{NoChecks: yes(), By: hub.LandingAuto})
		w.check.known = []landing.Check{{Name: "test", Required: true}, {Name: "lint"}}
		w.branch("bad", map[string]string{"mod/bad": "broken\n"})
		e := w.land(ada, "bad")
		w.turn()
		if got := w.want(e.ID, hub.EntryReturned, "main fails the check test"); got.Answer != "no" || got.Missing[0].Who != "ada" || got.Missing[0].Next == "" {
			t.Errorf("answer: %+v", got.GateAnswer)
		}
		w.good("good")
		e = w.land(ada, "good")
		w.turn()
		got := w.want(e.ID, hub.EntryLanded, "")
		isAsked := func(v hub.GateEvidence) bool {
			return v.What == "check test" && strings.HasSuffix(v.Evidence, "passed") && v.Of == got.LandedCommit && v.By == hub.Self
		}
		journal, err := hub.Read(w.ctx, w.store, func(r hub.Reader) ([]hub.Entry, error) {
			return r.Journal(hub.JournalQuery{Subject: string(e.ID), Newest: true, Limit: 1})
		})
		w.must(err)
		if len(journal) != 1 || !strings.Contains(string(journal[0].Facts), `"asked":[{"what":"check test","evidence":"k`) {
			t.Errorf("the journal has not the evidence: %s", journal[0].Facts)
		}
		if got.Answer != "yes" || !slices.ContainsFunc(got.Asked, isAsked) {
			t.Errorf("answer: %+v", got.GateAnswer)
		}
	})
	t.Run("evidence of another name repairs nothing", func(t *testing.T) {
		w := newWorld(t, plain)
		w.check.known = []landing.Check{{Name: "test"}, {Name: "lint", Required: true}}
		w.check.commands = map[string]string{"lint": "exit 0"}
		w.branch("bad", map[string]string{"mod/bad": "broken\n"})
		e := w.land(ada, "bad")
		w.turn()
		w.want(e.ID, hub.EntryReturned, "main fails the check test")
	})
	t.Run("a check that was removed or renamed lets entries wait, with both names", func(t *testing.T) {
		w := newWorld(t, plain)
		w.check.known = []landing.Check{{Name: "unit"}}
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "the check test was removed or renamed: "+base(w.repo.dir)+" has unit")
		w.now = w.now.Add(time.Second)
		w.set(landing.Setting{Checks: []string{"unit"}})
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("a change that concerns no check waits, unless the policy lets it land", func(t *testing.T) {
		w := newWorld(t, plain)
		w.check.when = map[string]string{"test": "mod/"}
		w.branch("readme", map[string]string{"README": "text\n"})
		e := w.land(ada, "readme")
		w.turn()
		w.want(e.ID, hub.EntryWaiting, "no check concerns the change: test")
		w.set(landing.Setting{UnconcernedLands: yes()})
		w.turn()
		if got := w.want(e.ID, hub.EntryLanded, ""); !slices.Contains(got.NotAsked, "check test: the change does not concern it") {
			t.Errorf("not asked: %v", got.NotAsked)
		}
		w.good("a") // one that it concerns is checked
		e = w.land(ada, "a")
		w.turn()
		if got := w.want(e.ID, hub.EntryLanded, ""); len(got.Results) == 0 {
			t.Errorf("results: %v", got.Results)
		}
	})
	t.Run("a flaky check is repeated if the policy says so, and the evidence says so", func(t *testing.T) {
		w := newWorld(t, plain)
		w.check.commands = map[string]string{"test": "[ -e " + w.repo.dir + "/once ] || { touch " + w.repo.dir + "/once; exit 1; }"}
		w.good("a")
		repeat := 1
		w.set(landing.Setting{Repeat: &repeat})
		e := w.land(ada, "a")
		w.turn()
		got := w.want(e.ID, hub.EntryLanded, "")
		isNamed := func(v hub.GateEvidence) bool { return v.Evidence == "k2 passed, repeated after k1 failed" }
		if !slices.ContainsFunc(got.Asked, isNamed) {
			t.Errorf("asked: %+v", got.Asked)
		}
	})
	t.Run("the checks of the package are asked for the branch of its handoff, too", func(t *testing.T) {
		const id = hub.HandoffID("01960000-0000-7000-8000-000000000009")
		w := newWorld(t, plain)
		w.check.known = []landing.Check{{Name: "test"}, {Name: "slow"}}
		w.check.commands = map[string]string{"slow": "[ ! -e mod/a ]"}
		w.good("a")
		w.work.pieces[id] = landing.Piece{Subject: landing.Subject{Handoff: id}, Folder: w.repo.dir, Branch: "a", Owner: "ada", Checks: []string{"slow"}, Missing: "it is not completed"}
		e := w.land(ada, "a")
		w.turn()
		w.want(e.ID, hub.EntryReturned, "main fails the check slow")
	})
}

func TestWaive(t *testing.T) {
	w := newWorld(t, landing.Setting{Checks: []string{"test"}, Review: "rex", By: hub.LandingAuto})
	w.branch("fix", map[string]string{"mod/fix": "broken\n"})
	e := w.land(ada, "fix")
	_, err := w.Waive(w.ctx, ada, e.ID, "review", "I am sure")
	wantCode(t, err, hub.CodeDenied)
	_, err = w.Waive(w.ctx, operator, e.ID, "tst", "hotfix")
	wantCode(t, err, hub.CodeInvalid)
	_, err = w.Waive(w.ctx, operator, e.ID, "test", " ")
	wantCode(t, err, hub.CodeInvalid)

	_, err = w.Waive(w.ctx, operator, e.ID, "test", "the test server is down")
	w.must(err)
	w.turn()
	w.want(e.ID, hub.EntryWaiting, "waits for the review of rex")
	_, err = w.Waive(w.ctx, operator, e.ID, "review", "hotfix")
	w.must(err)
	w.turn()
	got := w.want(e.ID, hub.EntryLanded, "")
	for _, what := range []string{"without test", "without review"} {
		if !slices.ContainsFunc(got.Asked, func(v hub.GateEvidence) bool { return v.What == what && v.By == hub.Operator && v.Evidence != "" }) {
			t.Errorf("%s is not in %+v", what, got.Asked)
		}
	}

	// The head is red, as the operator decided: it is shown, and nobody is blamed.
	w.turn()
	view, err := w.View(w.ctx, w.repo.dir, "main")
	w.must(err)
	if view.Target == nil || view.Target.State != landing.TargetRed || view.Target.By != "" {
		t.Errorf("target: %+v", view.Target)
	}
	for _, mail := range w.inbox(operator) {
		if strings.Contains(mail.Summary, "is red at") {
			t.Errorf("the operator reads %q", mail.Summary)
		}
	}

	// The word counts for one commit of one entry.
	w.repo.write(commitOf{branch: "fix", from: "refs/heads/fix", files: map[string]string{"mod/more": "broken\n"}})
	again := w.land(ada, "fix")
	w.turn()
	w.want(again.ID, hub.EntryWaiting, "waits for the review of rex")
}
