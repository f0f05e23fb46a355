package landing_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/landing"
)

// vendors are the vendors of agents.
type vendors map[hub.AgentID]landing.Vendor

func (v vendors) Vendor(_ context.Context, agent hub.AgentID) (landing.Vendor, error) {
	return v[agent], nil
}

// of is an agent that uses programs of vendors, and is awake.
func of(names ...string) landing.Vendor { return landing.Vendor{Names: names, Awake: true} }

// know makes the service know vendors, and asks for a reviewer of another one.
func (w *world) know(v vendors) {
	w.Helper()
	w.Service = landing.New(w.store, w.repo, w.check, w.mail, &landing.Options{Clock: w.clock(), Work: w.work, Vendors: v})
	w.worker = w.NewWorker(w.policy)
	w.set(landing.Setting{Review: hub.ReviewerOtherVendor})
}

func TestOtherVendor(t *testing.T) {
	t.Run("it is refused where agents of fewer than two vendors are known", func(t *testing.T) {
		for why, v := range map[string]vendors{"knows none": nil, "knows anthropic alone": {"ada": of("anthropic"), "bob": of("anthropic"), "rex": of()}} {
			w := newWorld(t, plain)
			w.Service = landing.New(w.store, w.repo, w.check, w.mail, &landing.Options{Clock: w.clock(), Vendors: v})
			_, _, err := w.Set(w.ctx, operator, landing.Setting{Folder: w.repo.dir, Review: hub.ReviewerOtherVendor})
			wantCode(t, err, hub.CodeInvalid)
			if !strings.Contains(err.Error(), why) || !strings.Contains(hintOf(err), "parley agent keep NAME --cli CLI") {
				t.Errorf("got %v, hint %q", err, hintOf(err))
			}
		}
	})
	t.Run("an agent of another vendor is picked, and gets no word of the author", func(t *testing.T) {
		w := newWorld(t, plain)
		w.know(vendors{"ada": of("anthropic"), "bob": of("openai"), "rex": of("anthropic", "google")})
		w.good("words-of-ada")
		w.work.pieces[pieceID] = landing.Piece{
			Subject: landing.Subject{Handoff: pieceID}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "words-of-ada"), Branch: "words-of-ada", Owner: "ada", Title: "words of ada",
			Criteria: []string{"it works"}, Note: "test passed", Asker: "ada", IsDone: true,
		}
		e, err := w.Land(w.ctx, ada, landing.Request{Handoff: pieceID})
		w.must(err)
		v, err := w.Review(w.ctx, "v1")
		w.must(err)
		if v.Reviewer != hub.ReviewerOtherVendor || !slices.Equal(v.Asked, []hub.AgentID{"bob"}) {
			t.Errorf("%s: asked %v", v.Reviewer, v.Asked)
		}
		mail := w.inbox(bob)
		if len(mail) != 1 || !strings.Contains(string(mail[0].Payload), "it works") || !strings.Contains(string(mail[0].Payload), "test passed") || len(mail[0].Context.Artifacts) != 1 {
			t.Fatalf("mail: %+v", mail)
		}
		if text := string(mail[0].Payload); strings.Contains(text, "words") {
			t.Errorf("words of the author: %s", text)
		}
		for _, other := range []hub.Caller{ada, rex} {
			w.read(other, v.ID)
			_, err = w.Give(w.ctx, other, "v1", approve)
			wantCode(t, err, hub.CodeDenied)
		}
		w.approve(bob, "v1")
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("no such agent is awake: it waits and says so, and is asked when one wakes", func(t *testing.T) {
		w := newWorld(t, plain)
		known := vendors{"ada": of("anthropic"), "bob": {Names: []string{"openai"}}, "rex": of()}
		w.know(known)
		w.good("a")
		e := w.land(ada, "a")
		w.turn()
		const why = "no agent of another vendor than anthropic is awake"
		got := w.want(e.ID, hub.EntryWaiting, "waits for the review of other-vendor: "+why)
		if m := got.Missing; len(m) != 1 || m[0].What != "review: "+why || m[0].Who != "operator" || !strings.HasPrefix(m[0].Next, "parley land review l1 approve, or start an agent") {
			t.Errorf("missing: %+v", m)
		}
		isTold := func(l letter) bool { return l.Summary == "the review of l1 waits: "+why }
		if mail := w.inbox(operator); !slices.ContainsFunc(mail, isTold) {
			t.Errorf("the operator: %+v", mail)
		}
		w.must(w.AskOthers(w.ctx))
		if v, err := w.Review(w.ctx, "v1"); err != nil || len(v.Asked) > 0 {
			t.Errorf("asked %v, %v", v.Asked, err)
		}

		known["bob"] = of("openai")
		w.must(w.AskOthers(w.ctx))
		w.must(w.AskOthers(w.ctx))
		if mail := w.inbox(bob); len(mail) != 1 || len(mail[0].Context.Artifacts) != 1 {
			t.Errorf("mail: %+v", mail)
		}
		if got := w.entry(e.ID); got.Reason != "waits for the review of other-vendor" || got.Missing[0].Who != "bob" {
			t.Errorf("after it woke: %q, %+v", got.Reason, got.Missing)
		}
		w.approve(bob, "l1")
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("the vendor of an author is not known: the operator answers", func(t *testing.T) {
		w := newWorld(t, plain)
		w.know(vendors{"bob": of("openai"), "rex": of("anthropic")})
		w.good("a")
		e := w.land(ada, "a")
		w.want(e.ID, hub.EntryWaiting, "the vendor of ada is not known")
		w.approve(operator, "l1")
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("it has the word for what judges a change, after the reviewer of the package", func(t *testing.T) {
		w := newWorld(t, plain)
		w.know(vendors{"ada": of("anthropic"), "bob": of("anthropic"), "rex": of("openai")})
		w.branch("a", map[string]string{"test.sh": "set -e\n"})
		w.work.pieces[pieceID] = landing.Piece{
			Subject: landing.Subject{Handoff: pieceID}, Folder: w.repo.dir, Commit: w.repo.git("", "rev-parse", "a"), Branch: "a", Owner: "ada", Review: "bob", IsDone: true,
		}
		e, err := w.Land(w.ctx, ada, landing.Request{Handoff: pieceID})
		w.must(err)
		w.want(e.ID, hub.EntryWaiting, "waits for the review of bob")
		w.approve(bob, "l1")
		w.want(e.ID, hub.EntryWaiting, "waits for the review of other-vendor: test.sh was modified")
		w.approve(rex, "l1")
		w.turn()
		w.want(e.ID, hub.EntryLanded, "")
	})
	t.Run("no agent has that name", func(t *testing.T) {
		w := newWorld(t, plain)
		err := w.store.Update(w.ctx, hub.SurvivesKill, func(tx hub.Tx) error { return w.keys.Enlist(tx, operator, hub.Agent{ID: hub.ReviewerOtherVendor}) })
		wantCode(t, err, hub.CodeConflict)
	})
}
