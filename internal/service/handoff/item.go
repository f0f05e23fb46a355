package handoff

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// The items of the hub's own queue are tasks without a team. Their states are those of tasks:
//
//   - backlog: it was added to the queue and is free;
//   - in_progress: an agent owns it, since UpdatedAt;
//   - done: it was finished while an agent owned it;
//   - dropped: it was taken out of the queue while it was free, or released though it had
//     never been added.
//
// The item with the smallest number is the next one. CreatedBy and CreatedAt say who added
// an item and when; CreatedAt is zero for an item that was only claimed.

const (
	// maxItem is the number of bytes in the name of an item.
	maxItem = 200
	// maxQueued is the number of items that were added to the queue and are not over.
	maxQueued = 1000
	// maxItems is the number of items in one list.
	maxItems = 200
)

// A QueuedItem is an item that was put into the hub's own queue. It is free while no agent
// owns it.
type QueuedItem struct {
	Item string      `json:"item"`
	By   hub.AgentID `json:"by"`
	At   hub.Time    `json:"at,omitzero"`
}

// queuedItem returns an item as an entry of the queue.
func queuedItem(t hub.Task) QueuedItem {
	return QueuedItem{Item: t.Title, By: t.CreatedBy, At: t.CreatedAt}
}

// wasAdded reports whether an item was added to the queue. Released, it is free again; an
// item that was only claimed is dropped.
func wasAdded(t hub.Task) bool { return !t.CreatedAt.IsZero() }

// claimOf returns the claim of the owner of an item.
func claimOf(t hub.Task) hub.ItemClaim {
	return hub.ItemClaim{Item: t.Title, Owner: t.Owner, At: t.UpdatedAt}
}

// openItem returns the item with a name that is not over. If there is none, it returns a new
// one, which isStored tells.
func openItem(r hub.Reader, name string) (hub.Task, error) {
	var found []hub.Task
	var err error
	if name != "" { // a package may name an item so
		found, err = r.Teamspaces().Tasks(hub.TaskQuery{Item: name, Limit: 1})
	}
	if err != nil || len(found) == 0 {
		return hub.Task{Title: name, Class: hub.ClassNormal, State: hub.TaskBacklog, Queue: hub.QueueNone}, err
	}
	return found[0], nil
}

// isStored reports whether the store has an item.
func isStored(t hub.Task) bool { return t.Revision != 0 }

// freeItems returns the items without an owner, oldest first, at most limit.
func freeItems(r hub.Reader, limit int) ([]hub.Task, error) {
	return r.Teamspaces().Tasks(hub.TaskQuery{Queue: true, States: []hub.TaskState{hub.TaskBacklog}, Limit: limit})
}

// queueFull reports whether maxQueued items were added to the queue and are not over.
func queueFull(r hub.Reader) (bool, error) {
	added := 0
	q := hub.TaskQuery{Queue: true, Limit: maxQueued}
	for more := true; more; {
		page, err := r.Teamspaces().Tasks(q)
		if err != nil {
			return false, err
		}
		for _, t := range page {
			q.Cursor = t.ID
			if wasAdded(t) {
				added++
			}
		}
		more = len(page) == maxQueued && added < maxQueued
	}
	return added >= maxQueued, nil
}

// addItem stores an item as the last one of the queue, with a journal entry. An item that an
// agent claimed before gets a new number for its place; its owner keeps it.
func (m *mover) addItem(t hub.Task) (hub.Task, error) {
	if isStored(t) {
		dropped, err := t.Advance(hub.TaskDropped, m.now)
		if err != nil {
			return t, err
		}
		if _, err := m.tx.WriteTeamspaces().PutTask(dropped); err != nil {
			return t, err
		}
		t.ID, t.Revision = "", 0
	} else {
		t.UpdatedAt = m.now
	}

	t.CreatedBy = m.actor.ID
	t.CreatedAt = m.now
	if _, err := m.tx.WriteTeamspaces().PutTask(t); err != nil {
		return t, err
	}
	return t, m.itemEntry(actions.ItemAdded, t.Title, nil)
}

// giveItem makes an agent the owner of an item, with a journal entry that has the owner
// beside facts.
func (m *mover) giveItem(t hub.Task, owner hub.AgentID, a actions.Action, facts map[string]any) (hub.Task, error) {
	t.Owner = owner
	t, err := t.Advance(hub.TaskInProgress, m.now)
	if err != nil {
		return t, err
	}
	if _, err := m.tx.WriteTeamspaces().PutTask(t); err != nil {
		return t, err
	}
	facts["owner"] = owner
	return t, m.itemEntry(a, t.Title, facts)
}

// takeItem moves an item to a state in which no agent works on it. The journal gets the
// release of the owner, if it had one.
func (m *mover) takeItem(t hub.Task, next hub.TaskState) error {
	moved, err := t.Advance(next, m.now)
	if err != nil {
		return err
	}
	if _, err := m.tx.WriteTeamspaces().PutTask(moved); err != nil || t.Owner == "" {
		return err
	}
	return m.itemEntry(actions.ClaimReleased, t.Title, map[string]any{"owner": t.Owner})
}

// itemEntry writes a journal entry about an item.
func (m *mover) itemEntry(a actions.Action, item string, facts map[string]any) error {
	_, err := m.tx.Append(m.actor.Entry(m.now, a, item, facts))
	return err
}

// checkQueue refuses work on the hub's own queue while another is configured: an item
// would have two owners.
func (s *Service) checkQueue(op string, actor hub.Caller) error {
	if err := active(op, actor); err != nil {
		return err
	}
	if s.queue != nil {
		return hub.Errorf(hub.CodeNotEnabled, op, "this hub uses the queue of its gateway").WithHint("claim and release items there")
	}
	return nil
}

// checkItem refuses what checkQueue refuses, and a text that is not the name of an item.
func (s *Service) checkItem(op string, actor hub.Caller, item string) error {
	if err := s.checkQueue(op, actor); err != nil {
		return err
	}
	if item == "" || len(item) > maxItem || strings.TrimSpace(item) != item {
		return hub.Errorf(hub.CodeInvalid, op, "item must be a name of 1 to %d bytes without spaces around it", maxItem)
	}
	return nil
}

// AddItem puts an item into the hub's own queue, behind the others. One that is in it
// already stays where it is.
func (s *Service) AddItem(ctx context.Context, actor hub.Caller, item string) (QueuedItem, error) {
	const op = "handoff.AddItem"
	if err := s.checkItem(op, actor, item); err != nil {
		return QueuedItem{}, err
	}

	var t hub.Task
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		if t, err = openItem(m.tx, item); err != nil || wasAdded(t) {
			return err
		}
		full, err := queueFull(m.tx)
		if err != nil {
			return err
		}
		if full {
			return hub.Errorf(hub.CodeRateLimited, op, "the queue is full (%d items)", maxQueued).WithHint("{workq.done} removes a finished item")
		}
		t, err = m.addItem(t)
		return err
	})
	if err != nil {
		return QueuedItem{}, err
	}
	return queuedItem(t), nil
}

// NextItem makes the actor the owner of the item that is free for longest in the hub's own
// queue. It reports CodeNotFound when no item is free.
func (s *Service) NextItem(ctx context.Context, actor hub.Caller) (hub.ItemClaim, error) {
	const op = "handoff.NextItem"
	if err := s.checkQueue(op, actor); err != nil {
		return hub.ItemClaim{}, err
	}

	var t hub.Task
	err := s.update(ctx, op, actor, func(m *mover) error {
		free, err := freeItems(m.tx, 1)
		if err != nil {
			return err
		}
		if len(free) == 0 {
			return hub.Errorf(hub.CodeNotFound, op, "no item of the queue is free").WithHint("{workq.add} ITEM adds one; {workq.list} lists the owners")
		}
		t, err = m.giveItem(free[0], actor.ID, actions.Claimed, map[string]any{})
		return err
	})
	if err != nil {
		return hub.ItemClaim{}, err
	}
	return claimOf(t), nil
}

// ClaimItem makes the actor the owner of an item of the hub's own queue. It reports
// CodeOwnership when another agent owns it; a second claim of the owner changes nothing.
func (s *Service) ClaimItem(ctx context.Context, actor hub.Caller, item string) (hub.ItemClaim, error) {
	const op = "handoff.ClaimItem"
	if err := s.checkItem(op, actor, item); err != nil {
		return hub.ItemClaim{}, err
	}

	var t hub.Task
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		t, err = openItem(m.tx, item)
		switch {
		case err != nil || t.Owner == actor.ID:
			return err
		case t.Owner != "":
			return hub.Errorf(hub.CodeOwnership, op, "%s owns %s since %s", t.Owner, item, t.UpdatedAt).WithHint("ask %s to hand it over", t.Owner)
		}
		t, err = m.giveItem(t, actor.ID, actions.Claimed, map[string]any{})
		return err
	})
	if err != nil {
		return hub.ItemClaim{}, err
	}
	return claimOf(t), nil
}

// ReleaseItem gives an item back, so that another agent can claim it. Its owner may, and the
// operator.
func (s *Service) ReleaseItem(ctx context.Context, actor hub.Caller, item string) (hub.ItemClaim, error) {
	const op = "handoff.ReleaseItem"
	if err := s.checkItem(op, actor, item); err != nil {
		return hub.ItemClaim{}, err
	}

	var t hub.Task
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		t, err = openItem(m.tx, item)
		switch {
		case err != nil:
			return err
		case t.Owner == "":
			return hub.Errorf(hub.CodeNotFound, op, "no agent owns %q", item).WithHint("{workq.list} lists the claims")
		case t.Owner != actor.ID && !actor.IsOperator():
			return hub.Errorf(hub.CodeOwnership, op, "%s owns %s; you are %s", t.Owner, item, actor.ID)
		case wasAdded(t):
			return m.takeItem(t, hub.TaskBacklog)
		}
		return m.takeItem(t, hub.TaskDropped)
	})
	if err != nil {
		return hub.ItemClaim{}, err
	}
	return claimOf(t), nil
}

// FinishItem takes an item out of the hub's own queue for good. Its owner may, the agent that
// added it while it is free, and the operator.
func (s *Service) FinishItem(ctx context.Context, actor hub.Caller, item string) (hub.ItemClaim, error) {
	const op = "handoff.FinishItem"
	if err := s.checkItem(op, actor, item); err != nil {
		return hub.ItemClaim{}, err
	}

	var t hub.Task
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		t, err = openItem(m.tx, item)
		switch {
		case err != nil:
			return err
		case !isStored(t):
			return hub.Errorf(hub.CodeNotFound, op, "no item named %q in the queue", item).WithHint("{workq.list} lists the items")
		case t.Owner != "" && t.Owner != actor.ID && !actor.IsOperator():
			return hub.Errorf(hub.CodeOwnership, op, "%s owns %s; you are %s", t.Owner, item, actor.ID)
		case t.Owner == "" && t.CreatedBy != actor.ID && !actor.IsOperator():
			return hub.Errorf(hub.CodeOwnership, op, "%s added %s; you are %s", t.CreatedBy, item, actor.ID).WithHint("claim it first")
		}

		// An item that no agent worked on is not done.
		next := hub.TaskDone
		if t.Owner == "" {
			next = hub.TaskDropped
		}
		if err := m.takeItem(t, next); err != nil {
			return err
		}
		return m.itemEntry(actions.ItemDone, item, nil)
	})
	switch {
	case err != nil:
		return hub.ItemClaim{}, err
	case t.Owner == "":
		return hub.ItemClaim{Item: item}, nil
	}
	return claimOf(t), nil
}

// ItemClaims lists the claims of an agent, or of all, by item.
func (s *Service) ItemClaims(ctx context.Context, owner hub.AgentID) ([]hub.ItemClaim, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (out []hub.ItemClaim, err error) {
		owned, err := r.Teamspaces().Tasks(hub.TaskQuery{Queue: true, Owner: owner, States: []hub.TaskState{hub.TaskInProgress}, ByName: true, Limit: maxItems})
		for _, t := range owned {
			out = append(out, claimOf(t))
		}
		return out, err
	})
}

// FreeItems returns the items of the hub's own queue that no agent owns, oldest first.
func (s *Service) FreeItems(ctx context.Context) ([]QueuedItem, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (out []QueuedItem, err error) {
		free, err := freeItems(r, maxItems)
		for _, t := range free {
			out = append(out, queuedItem(t))
		}
		return out, err
	})
}

// checkClaim is the subject of a check of the hub's own queue.
const checkClaim = "claim of "

// itemConflicts returns a failed check for each item of the hub's own queue that belongs to
// a third agent.
func itemConflicts(r hub.Reader, transfers []hub.Transfer) (out []hub.Check, err error) {
	for _, x := range transfers {
		t, err := openItem(r, x.Item)
		if err != nil {
			return nil, err
		}
		if ofThird(t, x) {
			out = append(out, hub.Check{What: checkClaim + x.Item, Kind: hub.CheckKindClaim, Result: hub.CheckFailed, Reason: hub.RejectOwnershipConflict, Detail: fmt.Sprintf("%s owns it, not %s", t.Owner, x.From)})
		}
	}
	return out, nil
}

// ofThird reports whether an item belongs to an agent that is neither the sender nor the
// receiver of a transfer.
func ofThird(t hub.Task, x hub.Transfer) bool {
	return t.Owner != "" && t.Owner != x.From && t.Owner != x.To
}

// moveItems gives the items of the hub's own queue to the receiver. An item that it does not
// have is in a queue that the hub does not know.
func moveItems(m *mover, transfers []hub.Transfer) (owned hub.Ownership, steps []hub.Check, err error) {
	for _, x := range transfers {
		t, err := openItem(m.tx, x.Item)
		if err != nil {
			return "", nil, err
		}

		got := hub.OwnershipTransferred
		step := hub.Check{What: checkClaim + x.Item, Kind: hub.CheckKindClaim, Result: hub.CheckVerified, Detail: fmt.Sprintf("from %s to %s", x.From, x.To)}
		switch {
		case !isStored(t):
			got = hub.OwnershipManual
			step.Result = hub.CheckUnverifiable
			step.Detail = "it is not in the hub's queue, and no other queue is configured"
		case ofThird(t, x):
			got = hub.OwnershipManual
			step.Result = hub.CheckFailed
			step.Detail = fmt.Sprintf("%s owns it", t.Owner)
		default:
			facts := map[string]any{"handoff": x.Handoff}
			if t.Owner != "" {
				facts["from"] = t.Owner
			}
			t.Handoff = x.Handoff
			if _, err := m.giveItem(t, x.To, actions.ClaimMoved, facts); err != nil {
				return "", nil, err
			}
		}
		owned, steps = worst(owned, got), append(steps, step)
	}
	return owned, steps, nil
}
