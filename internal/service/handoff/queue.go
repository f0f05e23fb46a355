package handoff

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/shape"
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
			owned, steps, err = moveClaims(m, transfers)
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
		map[string]any{"detail": sentence(queueProblems[owned]) + ". When it is done there: parley handoff workq " + string(h.ID) + " --done"})
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

// checkClaim is the subject of a check of the hub's own queue.
const checkClaim = "claim of "

// claimConflicts returns a failed check for each item of the hub's own queue that
// belongs to a third agent.
func claimConflicts(r hub.Reader, transfers []hub.Transfer) (out []hub.Check, err error) {
	for _, t := range transfers {
		c, err := r.ItemClaim(t.Item)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound:
		case err != nil:
			return nil, err
		case c.Owner != t.From && c.Owner != t.To:
			out = append(out, hub.Check{What: checkClaim + t.Item, Kind: hub.CheckKindClaim, Result: hub.CheckFailed, Reason: hub.RejectOwnershipConflict, Detail: fmt.Sprintf("%s owns it, not %s", c.Owner, t.From)})
		}
	}
	return out, nil
}

// moveClaims gives the items of the hub's own queue to the receiver. An item that it
// does not have is in a queue that the hub does not know.
func moveClaims(m *mover, transfers []hub.Transfer) (owned hub.Ownership, steps []hub.Check, err error) {
	queued, err := readQueued(m.tx)
	if err != nil {
		return "", nil, err
	}
	for _, t := range transfers {
		got, step := hub.OwnershipTransferred, hub.Check{What: checkClaim + t.Item, Kind: hub.CheckKindClaim, Result: hub.CheckVerified, Detail: fmt.Sprintf("from %s to %s", t.From, t.To)}
		c, err := m.tx.ItemClaim(t.Item)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound && queued.has(t.Item): // it is free
			err = m.claim(hub.ItemClaim{Item: t.Item, Owner: t.To, At: m.now}, actions.ClaimMoved, map[string]any{"handoff": t.Handoff})
		case hub.CodeOf(err) == hub.CodeNotFound:
			got = hub.OwnershipManual
			step.Result = hub.CheckUnverifiable
			step.Detail = "the hub's own queue does not have it, and no other is configured"
		case err != nil:
			return "", nil, err
		case c.Owner != t.From && c.Owner != t.To:
			got = hub.OwnershipManual
			step.Result = hub.CheckFailed
			step.Detail = fmt.Sprintf("%s owns it", c.Owner)
		default:
			err = m.claim(hub.ItemClaim{Item: t.Item, Owner: t.To, At: m.now}, actions.ClaimMoved, map[string]any{"from": c.Owner, "handoff": t.Handoff})
		}
		if hub.CodeOf(err) != hub.CodeNotFound && err != nil {
			return "", nil, err
		}
		owned, steps = worst(owned, got), append(steps, step)
	}
	return owned, steps, nil
}

// claim stores a claim with its journal entry.
func (m *mover) claim(c hub.ItemClaim, a actions.Action, facts map[string]any) error {
	if err := m.tx.PutItemClaim(c); err != nil {
		return err
	}
	facts["owner"] = c.Owner
	_, err := m.tx.Append(m.actor.Entry(m.now, a, c.Item, facts))
	return err
}

const (
	maxItem   = 200 // bytes of the name of an item
	maxClaims = 200 // in one list
)

// ownQueue refuses work on the hub's own queue while another is configured: an item
// would have two owners.
func (s *Service) ownQueue(op string, actor hub.Caller, item string) error {
	if err := s.openQueue(op, actor); err != nil {
		return err
	}
	if item == "" || len(item) > maxItem || strings.TrimSpace(item) != item {
		return hub.Errorf(hub.CodeInvalid, op, "item: a name of 1 to %d bytes is required", maxItem)
	}
	return nil
}

// openQueue refuses work on the hub's own queue while another is configured.
func (s *Service) openQueue(op string, actor hub.Caller) error {
	if err := active(op, actor); err != nil {
		return err
	}
	if s.queue != nil {
		return hub.Errorf(hub.CodeNotEnabled, op, "the items of this hub are in the queue of its gateway").WithHint("claim and release them there")
	}
	return nil
}

// ClaimItem makes the actor the owner of an item of the hub's own queue. It reports
// CodeOwnership when another agent owns it; a second claim of the owner changes
// nothing.
func (s *Service) ClaimItem(ctx context.Context, actor hub.Caller, item string) (hub.ItemClaim, error) {
	const op = "handoff.ClaimItem"
	if err := s.ownQueue(op, actor, item); err != nil {
		return hub.ItemClaim{}, err
	}
	var c hub.ItemClaim
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		c, err = m.tx.ItemClaim(item)
		switch {
		case err == nil && c.Owner == actor.ID:
			return nil
		case err == nil:
			return hub.Errorf(hub.CodeOwnership, op, "%s owns %s since %s", c.Owner, item, c.At).WithHint("ask %s to hand it over", c.Owner)
		case hub.CodeOf(err) != hub.CodeNotFound:
			return err
		}
		c = hub.ItemClaim{Item: item, Owner: actor.ID, At: m.now}
		return m.claim(c, actions.Claimed, map[string]any{})
	})
	return c, err
}

// ReleaseItem gives an item back, so that another agent can claim it. Its owner may, and the
// operator.
func (s *Service) ReleaseItem(ctx context.Context, actor hub.Caller, item string) (hub.ItemClaim, error) {
	const op = "handoff.ReleaseItem"
	if err := s.ownQueue(op, actor, item); err != nil {
		return hub.ItemClaim{}, err
	}
	var c hub.ItemClaim
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		c, err = m.tx.ItemClaim(item)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound:
			return hub.Errorf(hub.CodeNotFound, op, "no agent owns %q", item).WithHint("{workq.list} lists the claims")
		case err != nil:
			return err
		case c.Owner != actor.ID && !actor.IsOperator():
			return hub.Errorf(hub.CodeOwnership, op, "%s owns %s, and you are %s", c.Owner, item, actor.ID)
		}
		if err := m.tx.RemoveItemClaim(item); err != nil {
			return err
		}
		_, err = m.tx.Append(actor.Entry(m.now, actions.ClaimReleased, item, map[string]any{"owner": c.Owner}))
		return err
	})
	return c, err
}

// ItemClaims lists the claims of an agent, or of all, by item.
func (s *Service) ItemClaims(ctx context.Context, owner hub.AgentID) ([]hub.ItemClaim, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.ItemClaim, error) { return r.ItemClaims(owner, maxClaims) })
}
