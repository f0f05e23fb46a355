package handoff

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	lookEvery    = time.Minute    // the time between two searches for late tasks
	escalateWait = 24 * time.Hour // the time between two messages about one late task
	leaseTime    = 2 * lookEvery  // the time until another process takes over from one that died
)

// due returns the time at which an accepted task becomes late: the end of the SLA
// or its deadline, whichever is earlier.
func (s *Service) due(h hub.Handoff) hub.Time {
	due := h.AcceptedAt.Add(s.sla)
	if !h.Deadline.IsZero() && h.Deadline.Before(due.Time) {
		due = h.Deadline
	}
	return due
}

// Run escalates late tasks and ends completions whose checks have ended, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	var ending sync.WaitGroup
	defer ending.Wait()
	if s.checks != nil {
		ending.Go(func() { s.runChecked(ctx) })
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if _, err := s.Escalate(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("late handoffs could not be escalated", "op", "handoff.Escalate", "code", hub.CodeOf(err), "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Escalate sends the coordinators a message about every task that is late now, at
// most once a day for each, and returns how many messages it sent. It changes no
// state: a late task keeps its owner. The time of the message is stored with the
// handoff, so that neither a restart nor a clock that goes back sends it twice.
func (s *Service) Escalate(ctx context.Context) (int, error) {
	lease, err := s.store.Lease(ctx, "handoff.Escalate", leaseTime)
	switch {
	case hub.CodeOf(err) == hub.CodeConflict:
		return 0, nil // another process does it
	case err != nil:
		return 0, fmt.Errorf("handoff: escalate: %w", err)
	}

	// An escalated task leaves the query, so each round reads the first page again.
	told := 0
	for {
		now := s.clock.Now()
		var late []hub.Handoff
		err := s.store.View(ctx, func(r hub.Reader) (err error) {
			late, err = r.Handoffs(hub.HandoffQuery{Late: &hub.Lateness{
				AcceptedBefore: now.Add(-s.sla), DeadlineBy: now, EscalatedBefore: now.Add(-escalateWait),
			}, Limit: s.page})
			return err
		})
		if err != nil {
			return told, fmt.Errorf("handoff: escalate: %w", err)
		}

		for _, h := range late {
			sent, full, err := s.escalate(ctx, lease, h.ID)
			if err != nil {
				return told, fmt.Errorf("handoff: escalate %s: %w", h.ID, err)
			}
			if full {
				return told, nil
			}
			if sent {
				told++
			}
		}

		if len(late) < s.page {
			return told, nil
		}
	}
}

// escalate sends the message about one late task, and reports whether it did. It
// does not if the task is not late any more, or if the hub is over its limit of
// messages: then full is true.
func (s *Service) escalate(ctx context.Context, lease hub.Lease, id hub.HandoffID) (sent, full bool, err error) {
	err = s.update(ctx, "handoff.Escalate", hub.Caller{ID: hub.Self}, func(m *mover) error {
		sent, full = false, false
		if err := m.tx.CheckLease(lease); err != nil {
			return err
		}
		h, err := m.tx.Handoff(id)
		if err != nil {
			return err
		}
		open := h.Status == hub.HandoffAccepted || h.Status == hub.HandoffActivated
		escalatedLately := !h.Escalated.IsZero() && m.now.Sub(h.Escalated.Time) < escalateWait
		if !open || s.due(h).After(m.now.Time) || escalatedLately {
			return nil // its state changed meanwhile, or the clock went back
		}
		summary := fmt.Sprintf("the task %s is late: %s accepted it at %s and has not completed it", h.TaskID, h.To, h.AcceptedAt)
		sent, err = s.tell(m, h.To, h, summary, "it was due at "+s.due(h).String(), map[string]any{"task_id": h.TaskID, "owner": h.To})
		if full = !sent; err != nil || full {
			return err
		}
		h.Escalated = m.now
		if err := m.tx.PutHandoff(h, h.Status, nil); err != nil {
			return err
		}
		return m.entry(actions.HandoffEscalated, h, map[string]any{"task_id": h.TaskID, "to": h.To, "due_at": s.due(h), "message_id": m.posted[0].ID})
	})
	return sent, full, err
}
