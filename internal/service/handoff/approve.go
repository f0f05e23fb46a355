package handoff

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// Waiting returns the proposed handoffs that need the operator's approval,
// oldest first.
func (s *Service) Waiting(ctx context.Context, actor hub.Caller) ([]Report, error) {
	if !actor.Audits() {
		return nil, hub.Errorf(hub.CodeDenied, "handoff.Waiting", "only the operator and auditors can list handoffs that wait for approval")
	}
	out := []Report{}
	err := s.store.View(ctx, func(r hub.Reader) error {
		out = out[:0]
		q := hub.HandoffQuery{States: []hub.HandoffState{hub.HandoffProposed}, Limit: s.page}
		for {
			page, err := r.Handoffs(q)
			if err != nil {
				return err
			}
			for _, h := range page {
				if h.NeedsHuman && h.ApprovedAt.IsZero() {
					out = append(out, s.report(h, nil))
				}
			}
			if len(page) < q.Limit || len(out) >= maxPage {
				return nil
			}
			q.Cursor = page[len(page)-1].ID
		}
	})
	if err != nil {
		return nil, fmt.Errorf("handoff: waiting: %w", err)
	}
	return out, nil
}

// Approve allows the receiver to accept a handoff that needs the approval of a
// human. Only the operator may.
func (s *Service) Approve(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	const op = "handoff.Approve"
	var h hub.Handoff
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		if h, err = undecided(m.tx, op, actor, id); err != nil {
			return err
		}
		h.ApprovedAt = m.now
		if err := m.tx.PutHandoff(h, h.Status, nil); err != nil {
			return err
		}
		if err := m.entry(hub.ActionHandoffApproved, h, map[string]any{"task_id": h.TaskID, "package_hash": h.Hash}); err != nil {
			return err
		}
		return s.post(m, actor, h, hub.TypeStatusUpdate, hub.PriorityNormal, map[string]any{
			"summary": cut(fmt.Sprintf("the operator has approved the handoff of %s: %s may accept it", h.TaskID, h.To), 270), "handoff_id": h.ID,
		}, false)
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, nil), nil
}

// Deny rejects a handoff that needs the approval of a human. Only the operator may.
func (s *Service) Deny(ctx context.Context, actor hub.Caller, id hub.HandoffID, reason string) (Report, error) {
	const op = "handoff.Deny"
	if err := checkText(op, "reason", reason); err != nil {
		return Report{}, err
	}
	why := "denied by the operator"
	if reason != "" {
		why += ": " + reason
	}
	return s.refuse(ctx, op, actor, func(tx hub.Tx) (hub.Handoff, error) {
		return undecided(tx, op, actor, id)
	}, hub.EndedRejected, hub.RejectPolicyViolation, why)
}

// undecided returns a handoff that waits for the decision of the operator.
func undecided(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID) (hub.Handoff, error) {
	if !actor.IsOperator() {
		return hub.Handoff{}, hub.Errorf(hub.CodeDenied, op, "only the operator approves or denies a handoff, and you are %s", actor.ID)
	}
	h, err := visible(r, op, actor, id)
	switch {
	case err != nil:
		return h, err
	case h.Status != hub.HandoffProposed:
		return h, outOfState(op, h, "it waits for no decision")
	case !h.NeedsHuman:
		return h, hub.Errorf(hub.CodeConflict, op, "handoff %s needs no approval", id)
	case !h.ApprovedAt.IsZero():
		return h, hub.Errorf(hub.CodeConflict, op, "handoff %s was approved at %s", id, h.ApprovedAt)
	}
	return h, nil
}

// ApproveTeam lets a handoff into a team be accepted. A member whose role permits it may,
// neither the sender nor the receiver.
func (s *Service) ApproveTeam(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	const op = "handoff.ApproveTeam"
	if err := active(op, actor); err != nil {
		return Report{}, err
	}
	var h hub.Handoff
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		if h, err = visible(m.tx, op, actor, id); err != nil {
			return err
		}
		switch {
		case h.Team == "" || s.board == nil:
			return hub.Errorf(hub.CodeConflict, op, "handoff %s goes into no team", id)
		case h.Status != hub.HandoffProposed:
			return outOfState(op, h, "it waits for no approval")
		case h.TeamApprovedBy != "":
			return hub.Errorf(hub.CodeConflict, op, "handoff %s was approved by %s", id, h.TeamApprovedBy)
		}
		if err := s.board.Approvable(m.tx, actor, h); err != nil {
			return err
		}
		h.TeamApprovedBy = actor.ID
		if err := m.tx.PutHandoff(h, h.Status, nil); err != nil {
			return err
		}
		if err := m.entry(hub.ActionHandoffForTeam, h, map[string]any{"task_id": h.TaskID, "package_hash": h.Hash, "team": h.Team}); err != nil {
			return err
		}
		return s.post(m, actor, h, hub.TypeStatusUpdate, hub.PriorityNormal, map[string]any{
			"summary": cut(fmt.Sprintf("%s has approved the handoff of %s into the team %s: %s may accept it", actor.ID, h.TaskID, h.Team, h.To), 270), "handoff_id": h.ID,
		}, false)
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, nil), nil
}

// moveTask moves the task of a handoff into a team with the handoff: when it is accepted,
// and when it has ended.
func (s *Service) moveTask(m *mover, h hub.Handoff, ended bool) error {
	if h.Team == "" || s.board == nil {
		return nil
	}
	move := s.board.Taken
	if ended {
		move = s.board.Ended
	}
	posted, err := move(m.tx, m.actor, h)
	m.posted = append(m.posted, posted...)
	return err
}
