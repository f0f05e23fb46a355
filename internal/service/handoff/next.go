package handoff

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	// queuedKey is where the items of the hub's own queue are stored, oldest first.
	queuedKey = "workq"
	// maxQueued is the most items in that queue.
	maxQueued = 1000
)

// A QueuedItem is an item that was put into the hub's own queue. It is free while no agent
// owns it.
type QueuedItem struct {
	Item string      `json:"item"`
	By   hub.AgentID `json:"by"`
	At   hub.Time    `json:"at,omitzero"`
}

// queuedItems are the items of the hub's own queue, oldest first.
type queuedItems []QueuedItem

func readQueued(r hub.MetaReader) (queuedItems, error) {
	return hub.ReadMeta[queuedItems](r, queuedKey)
}

func (q queuedItems) index(item string) int {
	return slices.IndexFunc(q, func(i QueuedItem) bool { return i.Item == item })
}

func (q queuedItems) has(item string) bool { return q.index(item) >= 0 }

// AddItem puts an item into the hub's own queue, behind the others. One that is in it
// already stays where it is.
func (s *Service) AddItem(ctx context.Context, actor hub.Caller, item string) (QueuedItem, error) {
	const op = "handoff.AddItem"
	if err := s.ownQueue(op, actor, item); err != nil {
		return QueuedItem{}, err
	}
	var out QueuedItem
	err := s.update(ctx, op, actor, func(m *mover) error {
		queued, err := readQueued(m.tx)
		if err != nil {
			return err
		}
		if i := queued.index(item); i >= 0 {
			out = queued[i]
			return nil
		}
		if len(queued) >= maxQueued {
			return hub.Errorf(hub.CodeRateLimited, op, "the queue has %d items, which is the limit", maxQueued).WithHint("{workq.done} takes one out that is done")
		}
		out = QueuedItem{Item: item, By: actor.ID, At: m.now}
		if err := hub.WriteMeta(m.tx, queuedKey, append(queued, out)); err != nil {
			return err
		}
		_, err = m.tx.Append(actor.Entry(m.now, actions.ItemAdded, item, nil))
		return err
	})
	return out, err
}

// NextItem makes the actor the owner of the item that is free for longest in the hub's own
// queue. It reports CodeNotFound when no item is free.
func (s *Service) NextItem(ctx context.Context, actor hub.Caller) (hub.ItemClaim, error) {
	const op = "handoff.NextItem"
	if err := s.openQueue(op, actor); err != nil {
		return hub.ItemClaim{}, err
	}
	var c hub.ItemClaim
	err := s.update(ctx, op, actor, func(m *mover) error {
		free, err := freeItems(m.tx, 1)
		if err != nil {
			return err
		}
		if len(free) == 0 {
			return hub.Errorf(hub.CodeNotFound, op, "no item of the queue is free").WithHint("{workq.add} ITEM puts one in; {workq.list} lists the owners")
		}
		c = hub.ItemClaim{Item: free[0].Item, Owner: actor.ID, At: m.now}
		return m.claim(c, actions.Claimed, map[string]any{})
	})
	return c, err
}

// freeItems returns the items of the queue that no agent owns, oldest first, at most limit.
func freeItems(r hub.Reader, limit int) (out []QueuedItem, err error) {
	queued, err := readQueued(r)
	if err != nil {
		return nil, err
	}
	for _, q := range queued {
		if len(out) == limit {
			break
		}
		_, err := r.ItemClaim(q.Item)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound:
			out = append(out, q)
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}

// FreeItems returns the items of the hub's own queue that no agent owns, oldest first.
func (s *Service) FreeItems(ctx context.Context) ([]QueuedItem, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]QueuedItem, error) { return freeItems(r, maxClaims) })
}

// FinishItem takes an item out of the hub's own queue for good, with its claim. Its owner
// may, the agent that added it while it is free, and the operator.
func (s *Service) FinishItem(ctx context.Context, actor hub.Caller, item string) (hub.ItemClaim, error) {
	const op = "handoff.FinishItem"
	if err := s.ownQueue(op, actor, item); err != nil {
		return hub.ItemClaim{}, err
	}
	c := hub.ItemClaim{}
	err := s.update(ctx, op, actor, func(m *mover) error {
		queued, err := readQueued(m.tx)
		if err != nil {
			return err
		}
		place := queued.index(item)
		c, err = m.tx.ItemClaim(item)
		owned := err == nil
		switch {
		case err != nil && hub.CodeOf(err) != hub.CodeNotFound:
			return err
		case !owned && place < 0:
			return hub.Errorf(hub.CodeNotFound, op, "the queue has no item %q", item).WithHint("{workq.list} lists the items")
		case owned && c.Owner != actor.ID && !actor.IsOperator():
			return hub.Errorf(hub.CodeOwnership, op, "%s owns %s, and you are %s", c.Owner, item, actor.ID)
		case !owned && queued[place].By != actor.ID && !actor.IsOperator():
			return hub.Errorf(hub.CodeOwnership, op, "%s added %s, and you are %s", queued[place].By, item, actor.ID).WithHint("claim it first")
		}
		c.Item = item
		return m.finishItem(queued, place, c)
	})
	return c, err
}

// finishItem removes an item from the queue, and its claim if it has an owner.
func (m *mover) finishItem(queued queuedItems, place int, c hub.ItemClaim) error {
	if place >= 0 {
		if err := hub.WriteMeta(m.tx, queuedKey, slices.Delete(queued, place, place+1)); err != nil {
			return err
		}
	}
	if c.Owner != "" {
		if err := m.tx.RemoveItemClaim(c.Item); err != nil {
			return err
		}
		if _, err := m.tx.Append(m.actor.Entry(m.now, actions.ClaimReleased, c.Item, map[string]any{"owner": c.Owner})); err != nil {
			return err
		}
	}
	_, err := m.tx.Append(m.actor.Entry(m.now, actions.ItemDone, c.Item, nil))
	return err
}
