package continuation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/handoff"
)

// active returns the agents that own the task.
func (w *world) active() (out []hub.AgentID) {
	w.Helper()
	all, err := hub.Read(w.ctx, w.store, func(r hub.Reader) ([]hub.Handoff, error) {
		return r.Handoffs(hub.HandoffQuery{Task: "T-1", States: []hub.HandoffState{hub.HandoffActivated}, Limit: 10})
	})
	w.must(err)
	for _, h := range all {
		out = append(out, h.To)
	}
	return out
}

// TestOneOwner has two agents that could both go on with a task: one owns it at a time, and it is not
// lost.
func TestOneOwner(t *testing.T) {
	t.Run("an offer that is not answered is withdrawn, and the next successor is asked", func(t *testing.T) {
		w := newWorld(t, "reviewer")
		w.give("planner", "builder")
		w.stop("builder", hub.ContinueQuota, "tester", "reviewer")
		w.pass(patience / 2)
		first := w.want(hub.ContinuationOffered, "tester").Next
		w.pass(patience)
		w.want(hub.ContinuationOffered, "reviewer")
		if _, err := w.hands.Accept(w.ctx, agent("tester"), first, ""); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("tester accepts an offer that was withdrawn: %v", err)
		}
		if text, err := w.Pending(w.ctx, "tester"); text != "" || err != nil {
			t.Errorf("tester reads %q (%v)", text, err)
		}
		w.accept("reviewer", w.last().Next)
		w.pass(2 * patience)
		if c := w.want(hub.ContinuationTaken, "reviewer"); c.Rescue == nil {
			t.Errorf("the kept work is not named: %+v", c)
		}
		if got := w.active(); !slices.Equal(got, []hub.AgentID{"reviewer"}) {
			t.Errorf("the owners are %v", got)
		}
	})
	t.Run("the last offer without an answer is told to the operator and the sender, with the next step", func(t *testing.T) {
		w := newWorld(t)
		w.give("planner", "builder")
		w.stop("builder", hub.ContinueQuota, "tester")
		for _, name := range []hub.AgentID{"planner", hub.Operator} {
			w.hears(name)
		}
		w.pass(2 * patience)
		w.pass(2 * patience)
		for _, name := range []hub.AgentID{"planner", hub.Operator} {
			text := strings.Join(w.hears(name), "\n")
			const part = "tester gave no answer within 10m0s; there is no other successor; parley continue h1 --with"
			if strings.Count(text, part) != 1 {
				t.Errorf("%s hears %s", name, text)
			}
		}
		got, err := w.Continue(w.ctx, operator, continuation.Request{Handoff: w.last().Handoff, With: "tester"})
		if err != nil || got.State != hub.ContinuationOffered {
			t.Errorf("a person asks it again: got %+v (%v)", got, err)
		}
	})
	t.Run("a CLI that was started for an offer and does not answer gives the folder free", func(t *testing.T) {
		w := newWorld(t)
		w.give("planner", "builder")
		w.stop("builder", hub.ContinueQuota, "codex", "tester")
		w.want(hub.ContinuationOffered, "builder-codex")
		w.pass(patience)
		w.want(hub.ContinuationOffered, "tester")
		if !slices.Equal(w.crew.dropped, []hub.AgentID{"builder-codex"}) {
			t.Errorf("dismissed: %v", w.crew.dropped)
		}
	})
	t.Run("an offer whose receiver works, and one that waits for an approval, stay open", func(t *testing.T) {
		for name, policy := range map[string]map[string]any{"works": nil, "approval": {"requires_human_approval": true}} {
			w := newWorld(t)
			id := w.offerTask("planner", "builder", func(m map[string]any) {
				if policy != nil {
					m["policy"] = policy
				}
			})
			if policy != nil {
				_, err := w.hands.Approve(w.ctx, operator, id)
				w.must(err)
			}
			w.accept("builder", id)
			if name == "works" {
				w.crew.working = "tester"
			}
			w.stop("builder", hub.ContinueQuota, "tester")
			w.pass(2 * patience)
			w.want(hub.ContinuationOffered, "tester")
		}
	})
	t.Run("a first agent that comes back while an offer is open reads whose task it is, and cannot end it", func(t *testing.T) {
		w := newWorld(t)
		first := w.give("planner", "builder")
		w.stop("builder", hub.ContinueQuota, "tester")
		text, err := w.Returned(w.ctx, "builder")
		if err != nil || !strings.Contains(text, "is offered to tester") || !strings.Contains(text, "Do not work on it") {
			t.Errorf("builder reads %q (%v)", text, err)
		}
		if _, err := w.hands.Complete(w.ctx, agent("builder"), first, handoff.Completion{Summary: "done"}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("builder completes a task that is offered to another agent: %v", err)
		}
		next := w.last().Next
		w.accept("tester", next)
		if text, err := w.Returned(w.ctx, "builder"); err != nil || !strings.Contains(text, `tester has the task`) {
			t.Errorf("builder reads %q (%v)", text, err)
		}
		if got := w.active(); !slices.Equal(got, []hub.AgentID{"tester"}) {
			t.Errorf("the owners are %v", got)
		}
		w.complete("tester", next)
	})
	t.Run("an agent that stops twice has one continuation, and unchanged work is kept once", func(t *testing.T) {
		w := newWorld(t)
		w.give("planner", "builder")
		w.stop("builder", hub.ContinueQuota)
		kept := w.last().Rescue.ID
		w.stop("builder", hub.ContinueLogin)
		got, err := w.List(w.ctx, operator, false)
		w.must(err)
		if len(got.Continuations) != 1 || got.Continuations[0].Reason != hub.ContinueLogin || got.Continuations[0].Rescue.ID != kept {
			t.Errorf("got %+v", got.Continuations)
		}
	})
}
