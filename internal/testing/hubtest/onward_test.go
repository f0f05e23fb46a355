package hubtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/keys"
)

// A slowWorkshop does something while work is kept, and counts the names that are dropped.
type slowWorkshop struct {
	workshop
	meanwhile func()
	dropped   int
}

func (w *slowWorkshop) Save(ctx context.Context, folder, name, message string) (continuation.Saved, error) {
	if w.meanwhile != nil {
		w.meanwhile()
	}
	return w.workshop.Save(ctx, folder, name, message)
}

func (w *slowWorkshop) Drop(context.Context, hub.Rescue) error {
	w.dropped++
	return nil
}

// A passage hands tasks on, after or while something else happens.
type passage struct {
	*handoff.Service
	before func()
	within func() error // in the transaction, at its end
}

func (p passage) Continue(ctx context.Context, actor hub.Caller, h hub.Handoff, o hub.Onward, offered func(hub.Tx, hub.Handoff) error) error {
	if p.before != nil {
		p.before()
	}
	return p.Service.Continue(ctx, actor, h, o, func(tx hub.Tx, next hub.Handoff) error {
		if err := offered(tx, next); err != nil || p.within == nil {
			return err
		}
		return p.within()
	})
}

// stoppedTask is a house in which builder owns a task and cannot go on, with its handoff.
func stoppedTask(t *testing.T) (*house, hub.HandoffID) {
	t.Helper()
	h := newHouse(t)
	_, _, _, err := h.keys.AddAgent(h.ctx, operator, hub.Agent{ID: "tester", Role: hub.RoleExecutor}, keys.NewKey{})
	h.must(err)
	id := h.accepted()
	h.must(last(h.onward.Stop(h.ctx, continuation.Cause{Agent: "builder", Reason: hub.ContinueQuota})))
	return h, id
}

// continued returns the continuations of the house, the newest first.
func (h *house) continued() []hub.Continuation {
	h.t.Helper()
	got, err := h.onward.List(h.ctx, operator, false)
	h.must(err)
	return got.Continuations
}

func TestHandingOnIsOneStep(t *testing.T) {
	t.Run("a kill leaves the task with its owner, and nothing of the offer", func(t *testing.T) {
		h, id := stoppedTask(t)
		request := continuation.Request{Handoff: id, With: "tester"}
		killed := errors.New("killed")
		broken := continuation.New(h.store, continuation.Parts{Trees: workshop{}, Handoffs: passage{h.handoffs, nil, func() error { return killed }}, Agents: workshop{}, Mail: h.mail}, nil)
		if _, err := broken.Continue(h.ctx, operator, request); !errors.Is(err, killed) {
			t.Fatalf("got %v", err)
		}
		if c := h.continued(); len(c) != 1 || c[0].State != hub.ContinuationWaiting || c[0].Next != "" {
			t.Errorf("got %+v", c)
		}
		if text, err := h.onward.Pending(h.ctx, "tester"); text != "" || err != nil {
			t.Errorf("tester reads %q (%v)", text, err)
		}

		// The next try hands the task on, and its receiver reads about it once.
		got, err := h.onward.Continue(h.ctx, operator, request)
		if err != nil || got.State != hub.ContinuationOffered || got.To != "tester" {
			t.Fatalf("got %+v (%v)", got, err)
		}
		for i, isThere := range []bool{true, false} {
			if text, err := h.onward.Pending(h.ctx, "tester"); (text != "") != isThere || err != nil {
				t.Errorf("time %d: tester reads %q (%v)", i, text, err)
			}
		}
		h.verify()
	})
	t.Run("an owner that took its task back in the meantime keeps it", func(t *testing.T) {
		h, id := stoppedTask(t)
		back := func() {
			if text, err := h.onward.Returned(h.ctx, "builder"); text == "" || err != nil {
				t.Errorf("builder reads %q (%v)", text, err)
			}
		}
		late := continuation.New(h.store, continuation.Parts{Trees: workshop{}, Handoffs: passage{h.handoffs, back, nil}, Agents: workshop{}, Mail: h.mail}, nil)
		if _, err := late.Continue(h.ctx, operator, continuation.Request{Handoff: id, With: "tester"}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("got %v", err)
		}
		if c := h.continued(); len(c) != 1 || c[0].State != hub.ContinuationTaken || c[0].To != "builder" {
			t.Errorf("got %+v", c)
		}
		all, err := hub.Read(h.ctx, h.store, func(r hub.Reader) ([]hub.Handoff, error) { return r.Handoffs(hub.HandoffQuery{Limit: 10}) })
		if err != nil || len(all) != 1 || all[0].Status != hub.HandoffActivated {
			t.Errorf("got %+v (%v)", all, err)
		}
		h.verify()
	})
	t.Run("the text about a task that was refused is not read", func(t *testing.T) {
		h, id := stoppedTask(t)
		got, err := h.onward.Continue(h.ctx, operator, continuation.Request{Handoff: id, With: "tester"})
		h.must(err)
		tester := hub.Caller{Kind: hub.CallerAgent, ID: "tester"}
		h.must(last(h.handoffs.Reject(h.ctx, tester, got.Next, hub.RejectOther, "no time")))
		if text, err := h.onward.Pending(h.ctx, "tester"); text != "" || err != nil {
			t.Errorf("tester reads %q (%v)", text, err)
		}
	})
}

func TestOneContinuation(t *testing.T) {
	cause := continuation.Cause{Agent: "builder", Reason: hub.ContinueQuota}
	for name, meanwhile := range map[string]func(h *house){
		"another hub on the store makes it": func(h *house) { h.must(last(h.onward.Stop(h.ctx, cause))) },
		"the owner completes the task": func(h *house) {
			list, err := hub.Read(h.ctx, h.store, func(r hub.Reader) ([]hub.Handoff, error) { return r.Handoffs(hub.HandoffQuery{Limit: 1}) })
			h.must(err)
			h.must(last(h.handoffs.Complete(h.ctx, builder, list[0].ID, handoff.Completion{Summary: "done", NoChanges: true})))
		},
	} {
		t.Run("while work is kept, "+name, func(t *testing.T) {
			h := newHouse(t)
			h.accepted()
			trees := &slowWorkshop{meanwhile: func() { meanwhile(h) }}
			slow := continuation.New(h.store, continuation.Parts{Trees: trees, Handoffs: h.handoffs, Agents: workshop{}, Mail: h.mail}, nil)
			made, err := slow.Stop(h.ctx, cause)
			if err != nil || len(made) != 0 || trees.dropped != 1 {
				t.Errorf("made %+v (%v), dropped %d", made, err, trees.dropped)
			}
			if c := h.continued(); len(c) > 1 {
				t.Errorf("got %+v", c)
			}
			h.verify()
		})
	}
	t.Run("work whose rescue was dropped is kept again", func(t *testing.T) {
		h, _ := stoppedTask(t)
		h.must(h.onward.Drop(h.ctx, operator, "s1"))
		h.must(last(h.onward.Stop(h.ctx, cause)))
		if c := h.continued(); len(c) != 1 || c[0].Rescue == nil || c[0].Rescue.ID != "s2" {
			t.Errorf("got %+v", c)
		}
		if got, err := h.onward.Rescues(h.ctx, operator); err != nil || len(got.Rescues) != 1 {
			t.Errorf("got %+v (%v)", got, err)
		}
	})
}
