package handoff

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// Resolve returns the id of the handoff that a short id names. Any other id is
// returned as it is. To an actor that may not see the handoff it reports the same
// error as for a short id that was never given.
func (s *Service) Resolve(ctx context.Context, op string, actor hub.Caller, id hub.HandoffID) (hub.HandoffID, error) {
	if !hub.ShortID(id).Is(hub.ShortHandoff) {
		return id, nil
	}
	var h hub.Handoff
	err := s.store.View(ctx, func(r hub.Reader) error {
		long, err := r.LongID(hub.ShortID(id))
		if err == nil {
			h, err = visible(r, op, actor, hub.HandoffID(long))
		}
		if hub.CodeOf(err) == hub.CodeNotFound {
			return notVisible(op, id)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("handoff: resolve: %w", err)
	}
	return h.ID, nil
}

// refOf returns the name of a handoff for readers: its short id, or its id if it has none.
func refOf(r hub.Reader, id hub.HandoffID) string {
	if short, err := r.ShortID(string(id)); err == nil && short != "" {
		return string(short)
	}
	return string(id)
}

// Name adds their short ids to reports.
func (s *Service) Name(ctx context.Context, reports ...*Report) error {
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		for _, report := range reports {
			if report.ShortID, err = r.ShortID(string(report.ID)); err != nil {
				return err
			}
			if err = s.addProgress(r, report); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("handoff: name: %w", err)
	}
	return nil
}

// maxNotices is the most messages about one handoff.
const maxNotices = 20

// dealtWith marks the messages about a handoff in the actor's inbox as read: the
// actor has just answered them by a move.
func (s *Service) dealtWith(m *mover, actor hub.Caller, h hub.Handoff) error {
	page, err := m.tx.Query(hub.Query{Viewer: actor.ID, Thread: h.ThreadID, Type: hub.TypeHandoffInitiate, Limit: maxNotices})
	if err != nil {
		return err
	}
	for _, msg := range page.Messages {
		var p struct {
			ID hub.HandoffID `json:"handoff_id"`
		}
		if json.Unmarshal(msg.Payload, &p) != nil || p.ID != h.ID || msg.From == actor.ID {
			continue
		}
		if err := s.sender.MarkRead(m.tx, actor, msg.ID); err != nil {
			return err
		}
	}
	return nil
}

// approvalBlocker is the blocker in the messages that ask for the approval of a handoff, here and
// in teams.
const approvalBlocker = "approval"

// approvalsDecided marks the messages that asked for an approval of a handoff as read for all
// their recipients, once that approval was given or the handoff is not proposed any more.
func (s *Service) approvalsDecided(m *mover, h hub.Handoff) error {
	page, err := m.tx.Query(hub.Query{Audit: true, Thread: h.ThreadID, Type: hub.TypeStatusBlocked, From: hub.Self, Limit: maxNotices})
	if err != nil {
		return err
	}
	for _, msg := range page.Messages {
		var p struct {
			ID       hub.HandoffID `json:"handoff_id"`
			Team     hub.TeamID    `json:"team"` // asks for the approval of the team, else of the operator
			Blockers []string      `json:"blockers"`
		}
		if json.Unmarshal(msg.Payload, &p) != nil || p.ID != h.ID || !slices.Contains(p.Blockers, approvalBlocker) {
			continue
		}
		waits := h.WaitsForOperator()
		if p.Team != "" {
			waits = h.WaitsForTeam()
		}
		if waits {
			continue
		}
		for _, id := range msg.To {
			if err := s.sender.MarkRead(m.tx, hub.Caller{ID: id}, msg.ID); err != nil {
				return err
			}
		}
		m.posted = append(m.posted, msg) // its recipients' inboxes are counted again
	}
	return nil
}
