package handoff

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// queueProblems are the ownerships that the operator has to look at, in words.
var queueProblems = map[hub.Ownership]string{
	hub.OwnershipManual:   "the task is in a queue that this hub cannot use",
	hub.OwnershipDegraded: "the queue did not give the task to its new owner",
}

// transferTime bounds the calls of one transfer.
const transferTime = 90 * time.Second

// transfersOf returns the items of queues that the package names, each with the change
// of its owner. session is the one from which the receiver calls.
func transfersOf(h hub.Handoff, session string) (out []hub.Transfer) {
	const kind = "workq_item"
	pkg, err := shape.DecodePackage(h.Package)
	if err != nil {
		return nil // the checks reject it
	}
	add := func(item string) {
		t := hub.Transfer{Item: item, Handoff: h.ID, From: h.From, To: h.To, Session: session}
		if !h.Restricted { // the package of another one stays on the hub
			t.Title = h.Title
			t.Branch = pkg.WorkState.Branch
			t.Worktree = pkg.WorkState.Worktree
		}
		out = append(out, t)
	}
	for _, ref := range pkg.Task.ExternalRefs {
		if ref.Type == kind {
			add(ref.Value)
		}
	}
	for _, a := range pkg.Artifacts {
		if a.Ref.Type == kind {
			add(a.Ref.Path)
		}
	}
	return out
}

// worst returns the ownership of a task with several items: the one that needs the
// operator most.
func worst(a, b hub.Ownership) hub.Ownership {
	for _, o := range []hub.Ownership{hub.OwnershipDegraded, hub.OwnershipManual} {
		if a == o || b == o {
			return o
		}
	}
	return b
}

// transfer moves the items of an accepted handoff in their queue: in that of the
// options outside of a transaction, else in the hub's own.
func (s *Service) transfer(ctx context.Context, op string, actor hub.Caller, h hub.Handoff) (owned hub.Ownership, steps []hub.Check, err error) {
	transfers := transfersOf(h, actor.Session)
	if s.queue == nil {
		err = s.update(ctx, op, actor, func(m *mover) (err error) {
			owned, steps, err = moveItems(m, transfers)
			return err
		})
		return owned, steps, err
	}
	// A caller that leaves must not leave an item behind that no agent owns.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transferTime)
	defer cancel()
	for _, t := range transfers {
		got, made := s.queue.Transfer(ctx, t)
		owned, steps = worst(owned, got), append(steps, made...)
	}
	return owned, steps, nil
}

// takeOver moves the items of an accepted handoff and then activates it. Another call
// that was faster may have done so already.
func (s *Service) takeOver(ctx context.Context, op string, actor hub.Caller, h hub.Handoff) (hub.Handoff, []hub.Check, error) {
	owned, steps, err := s.transfer(ctx, op, actor, h)
	if err != nil {
		return h, nil, err
	}
	err = s.update(context.WithoutCancel(ctx), op, actor, func(m *mover) (err error) {
		if h, err = m.tx.Handoff(h.ID); err != nil || h.Status != hub.HandoffAccepted {
			return err
		}
		return s.activate(m, &h, owned, steps)
	})
	return h, steps, err
}

// activate makes the receiver the owner of the task, with the result of the queue and
// its steps in the history. The coordinators learn of an item that needs the operator.
func (s *Service) activate(m *mover, h *hub.Handoff, owned hub.Ownership, steps []hub.Check) error {
	note := ""
	if h.Ownership = owned; owned != hub.OwnershipHub {
		note = "ownership in the queue: " + string(owned)
	}
	if n := len(steps); n > 0 { // verify reads it there
		steps[n-1].Ownership = owned
	}
	if err := m.move(h, hub.HandoffActivated, note, steps); err != nil || !owned.NeedsOperator() {
		return err
	}
	_, err := s.tell(m, "", *h, fmt.Sprintf("move the task %s to %s in its queue by hand", h.TaskID, h.To), string(owned),
		map[string]any{"detail": sentence(queueProblems[owned]) + ". Then run parley handoff workq " + string(h.ID) + " --done"})
	return err
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// MoveItem deals with an item whose ownership needs the operator: with done the operator
// says that it was moved by hand, without it the hub tries the transfer again. Only the
// operator may. A handoff without such an item stays as it is.
func (s *Service) MoveItem(ctx context.Context, actor hub.Caller, id hub.HandoffID, done bool) (Report, error) {
	const op = "handoff.MoveItem"
	if err := actor.OperatorOnly(op); err != nil {
		return Report{}, err
	}

	var h hub.Handoff
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		h, err = visible(r, op, actor, id)
		return err
	})

	// The operator's word counts as a confirmed transfer.
	owned, steps := hub.OwnershipConfirmed, []hub.Check(nil)
	if err == nil && h.Ownership.NeedsOperator() && !done {
		owned, steps, err = s.transfer(ctx, op, actor, h)
	}
	if err != nil || !h.Ownership.NeedsOperator() {
		return s.answer(h, nil), err
	}

	// A transfer that happened is recorded even if the caller is gone.
	err = s.update(context.WithoutCancel(ctx), op, actor, func(m *mover) (err error) {
		if h, err = m.tx.Handoff(id); err != nil || !h.Ownership.NeedsOperator() {
			return err
		}
		h.Ownership = owned
		if err := m.tx.PutHandoff(h, h.Status, nil); err != nil {
			return err
		}
		return m.entry(actions.HandoffOwned, h, map[string]any{"task_id": h.TaskID, "to": h.To, "ownership": owned, "steps": steps})
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, steps), nil
}
