package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Queue moves items of a queue outside the hub. The gateway is one.
type Queue interface {
	// Transfer moves an item to its new owner and returns the result with its steps.
	Transfer(ctx context.Context, t hub.Transfer) (hub.Ownership, []hub.Check)
}

const (
	// queueKey is where the tasks are stored whose owners the queue does not know yet.
	queueKey = "team/queue"
	// maxQueued is the number of such tasks; a further one is left to a person.
	maxQueued = 1000
	// mirrorTime bounds the transfers of one task, and is the lease of the work.
	mirrorTime = 90 * time.Second
)

// queueItems returns the items of a queue that a task refers to.
func queueItems(t hub.Task) (items []string) {
	for _, r := range t.ExternalRefs {
		if r.Type == "workq_item" {
			items = append(items, r.Value)
		}
	}
	return items
}

// enqueue has the queue outside the hub told of the new owner of a task, after the
// transaction that stores it. Without such a queue the board is the queue.
func (c *change) enqueue(t *hub.Task) error {
	if t.Queue = hub.QueueNone; c.s.queue == nil || len(queueItems(*t)) == 0 {
		return nil
	}
	waiting, err := hub.ReadMeta[[]hub.TaskID](c.tx, queueKey)
	if t.Queue = hub.OwnershipPending; len(waiting) >= maxQueued {
		t.Queue = hub.OwnershipManual
	}
	return err
}

// noteQueue remembers a task whose owner the queue is to be told.
func (c *change) noteQueue(t hub.Task) error {
	if t.Queue != hub.OwnershipPending {
		return nil
	}
	waiting, err := hub.ReadMeta[[]hub.TaskID](c.tx, queueKey)
	if err != nil || slices.Contains(waiting, t.ID) {
		return err
	}
	return hub.WriteMeta(c.tx, queueKey, append(waiting, t.ID))
}

// mirror tells the queue outside the hub the owners of tasks that it does not know yet.
func (s *Service) mirror(ctx context.Context) error {
	if s.queue == nil {
		return nil
	}
	waiting, err := s.unmirrored(ctx)
	if err != nil || len(waiting) == 0 {
		return err
	}
	return hub.Alone(ctx, s.store, queueKey, mirrorTime, func(store hub.Store) error {
		for waiting, err := s.unmirrored(ctx); len(waiting) > 0; waiting, err = s.unmirrored(ctx) {
			if err = errors.Join(err, s.mirrorTask(ctx, store, waiting[0])); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Service) unmirrored(ctx context.Context) ([]hub.TaskID, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.TaskID, error) { return hub.ReadMeta[[]hub.TaskID](r, queueKey) })
}

// mirrorTask moves the items of one task to its owner. Repeated after a crash it
// completes the transfers that were begun.
func (s *Service) mirrorTask(ctx context.Context, store hub.Store, id hub.TaskID) error {
	task, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Task, error) { return r.Teamspaces().Task(id) })
	if err != nil {
		return err
	}

	// The queue is outside the hub: transfers run before the transaction, with a time limit.
	result, failed := hub.OwnershipTransferred, ""
	bounded, cancel := context.WithTimeout(ctx, mirrorTime)
	defer cancel()
	for _, item := range queueItems(task) {
		if task.Owner == "" {
			result, failed = hub.OwnershipManual, fmt.Sprintf("%s has no owner; release %s by hand", task.ID, item)
			break
		}
		got, steps := s.queue.Transfer(bounded, hub.Transfer{Item: item, From: task.QueueOwner, To: task.Owner, Title: task.Title})
		if got != hub.OwnershipTransferred {
			result, failed = got, fmt.Sprintf("%s was not moved to %s in its queue", item, task.Owner)
			if n := len(steps); n > 0 {
				failed += ": " + steps[n-1].Detail
			}
		}
	}

	if ctx.Err() != nil {
		return ctx.Err() // the next start tries it again
	}

	// The result is stored only if the task still has the owner that the queue was told.
	var posted []hub.Message
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		waiting, err := hub.ReadMeta[[]hub.TaskID](tx, queueKey)
		if err != nil {
			return err
		}
		now, err := tx.Teamspaces().Task(id)
		if err != nil || now.Owner != task.Owner {
			return err // the next round moves it to the new owner
		}
		if err := hub.WriteMeta(tx, queueKey, slices.DeleteFunc(waiting, func(t hub.TaskID) bool { return t == id })); err != nil {
			return err
		}

		c, err := s.begin(tx, "team.mirror", hub.Caller{ID: hub.Self}, now.Team)
		if hub.CodeOf(err) == hub.CodeConflict || (err == nil && now.State.Over()) {
			return nil // it is over
		}
		if err != nil {
			return err
		}

		if now.Queue = result; result == hub.OwnershipTransferred {
			now.QueueOwner = now.Owner
		}
		if err := c.putTask(&now); err != nil || failed == "" {
			return err
		}
		err = c.tell([]hub.AgentID{now.CreatedBy, now.Owner}, hub.TypeStatusUpdate, map[string]any{
			"summary": cut(strings.ToUpper(failed[:1])+failed[1:], 270), "task_id": now.ID, "queue": now.Queue,
		})
		posted = c.posted
		return err
	})
	if err == nil {
		s.mail.Announce(posted...)
	}
	return err
}
