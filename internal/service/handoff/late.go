package handoff

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-agents/parley/hub"
)

const (
	lookEvery    = time.Minute    // how often late tasks are looked for
	escalateWait = 24 * time.Hour // how long before the coordinators are told again
	latePage     = 100
	leaseTime    = 2 * lookEvery // how long another process waits for work of one that died
)

// due returns when an accepted task becomes late: when its time is up or its
// deadline has come, whichever is earlier.
func (s *Service) due(h hub.Handoff) hub.Time {
	due := h.AcceptedAt.Add(s.sla)
	if !h.Deadline.IsZero() && h.Deadline.Before(due.Time) {
		due = h.Deadline
	}
	return due
}

// Run tells the coordinators of tasks that are late, until ctx ends.
func (s *Service) Run(ctx context.Context) {
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

// Escalate tells the coordinators of every task that is late now, each at most
// once a day, and returns how many there were. It changes no state: a late task
// is still its owner's. What was told is kept with the handoff, so that neither
// a restart nor a clock that goes back makes it be told twice.
func (s *Service) Escalate(ctx context.Context) (int, error) {
	lease, err := s.store.Lease(ctx, "handoff.Escalate", leaseTime)
	switch {
	case hub.CodeOf(err) == hub.CodeConflict:
		return 0, nil // another process does it
	case err != nil:
		return 0, fmt.Errorf("handoff: escalate: %w", err)
	}
	told := 0
	for {
		now := s.clock.Now()
		var late []hub.Handoff
		err := s.store.View(ctx, func(r hub.Reader) (err error) {
			late, err = r.Late(now.Add(-s.sla), now, now.Add(-escalateWait), latePage)
			return err
		})
		if err != nil {
			return told, fmt.Errorf("handoff: escalate: %w", err)
		}
		for _, h := range late {
			ok, err := s.escalate(ctx, lease, h.ID)
			if err != nil {
				return told, fmt.Errorf("handoff: escalate %s: %w", h.ID, err)
			}
			if !ok {
				return told, nil // the hub has said enough for now
			}
			told++
		}
		if len(late) < latePage {
			return told, nil
		}
	}
}

// escalate tells the coordinators of one task. It reports false when nothing
// could be written.
func (s *Service) escalate(ctx context.Context, lease hub.Lease, id hub.HandoffID) (bool, error) {
	var msg hub.Message
	told := true
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		msg, told = hub.Message{}, true
		if err := tx.CheckLease(lease); err != nil {
			return err
		}
		m := mover{tx, hub.Self, s.clock.Now()}
		h, err := tx.Handoff(id)
		if err != nil {
			return err
		}
		open := h.Status == hub.HandoffAccepted || h.Status == hub.HandoffActivated
		if !open || s.due(h).After(m.now.Time) || !h.Escalated.IsZero() && m.now.Sub(h.Escalated.Time) < escalateWait {
			return nil // somebody was faster, or the clock went back
		}
		msg, err = s.sender.Tell(tx, h.To, hub.TypeStatusBlocked, h.ThreadID, map[string]any{
			"summary":    cut(fmt.Sprintf("the task %s is late: %s accepted it at %s and has not completed it", h.TaskID, h.To, h.AcceptedAt), 270),
			"reason":     "it was due at " + s.due(h).String(),
			"handoff_id": h.ID,
			"task_id":    h.TaskID,
			"owner":      h.To,
		})
		if err != nil {
			return err
		}
		if told = msg.ID != ""; !told {
			return nil
		}
		h.Escalated = m.now
		if err := tx.NoteHandoff(h); err != nil {
			return err
		}
		return m.entry(hub.ActionHandoffEscalated, h, map[string]any{"task_id": h.TaskID, "to": h.To, "due_at": s.due(h), "message_id": msg.ID})
	})
	if err == nil && msg.ID != "" {
		s.sender.Announce(msg)
	}
	return told, err
}
