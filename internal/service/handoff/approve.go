package handoff

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Reports returns handoffs as the actor may see them, without checks, package and history.
func (s *Service) Reports(actor hub.Caller, handoffs []hub.Handoff) []Report {
	out := make([]Report, len(handoffs))
	for i, h := range handoffs {
		out[i] = s.report(h, nil)
		if h.Restricted && actor.ReadsAsAuditor() && !h.Concerns(actor.ID) {
			out[i].withhold()
		}
	}
	return out
}

// approvable returns the handoffs of others into teams that the actor may approve now,
// newest first, as far as the filter of q has them.
func (s *Service) approvable(r hub.Reader, actor hub.Caller, q hub.HandoffQuery) ([]hub.Handoff, error) {
	if s.board == nil {
		return nil, nil
	}
	q.Viewer = ""
	return s.proposed(r, q, func(h hub.Handoff) bool {
		return h.WaitsForTeam() && s.board.Approvable(r, actor, h) == nil
	})
}

// proposed returns the proposed handoffs that keep accepts, newest first, at most
// maxPage.
func (s *Service) proposed(r hub.Reader, q hub.HandoffQuery, keep func(hub.Handoff) bool) ([]hub.Handoff, error) {
	var out []hub.Handoff
	q.States, q.Limit = []hub.HandoffState{hub.HandoffProposed}, s.page
	for {
		page, err := r.Handoffs(q)
		if err != nil {
			return nil, err
		}
		for _, h := range page {
			if keep(h) {
				out = append(out, h)
			}
		}
		if len(page) < q.Limit || len(out) >= maxPage {
			return out, nil
		}
		q.Cursor = page[len(page)-1].ID
	}
}

// Approve allows the receiver to accept a handoff that needs an approval: that of a human,
// that of its team, or both. Only the operator may.
func (s *Service) Approve(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	const op = "handoff.Approve"
	var h hub.Handoff
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		if h, err = undecided(m.tx, op, actor, id); err != nil {
			return err
		}

		// One call gives both approvals, unless the actor is a party of the handoff.
		human := h.WaitsForOperator()
		forTeam := h.WaitsForTeam() && s.board != nil && (!human || !h.Concerns(actor.ID))
		if forTeam {
			if err := s.approveForTeam(m, &h); err != nil {
				return err
			}
		}

		if !human {
			return nil
		}
		h.ApprovedAt = m.now
		if err := m.tx.PutHandoff(h, h.Status, nil); err != nil {
			return err
		}
		if err := m.entry(actions.HandoffApproved, h, map[string]any{"task_id": h.TaskID, "package_hash": h.Hash}); err != nil {
			return err
		}

		if err := s.approvalsDecided(m, h); err != nil {
			return err
		}
		if forTeam {
			return nil // one message is enough
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
		return hub.Handoff{}, hub.Errorf(hub.CodeDenied, op, "only the operator can approve or deny a handoff; you are %s", actor.ID)
	}
	h, err := visible(r, op, actor, id)
	switch {
	case err != nil:
		return h, err
	case h.Status != hub.HandoffProposed:
		return h, outOfState(r, op, h, "it is not waiting for a decision")
	case h.WaitsForOperator() || h.WaitsForTeam():
		return h, nil
	case !h.ApprovedAt.IsZero():
		return h, hub.Errorf(hub.CodeConflict, op, "handoff %s was already approved at %s", id, h.ApprovedAt)
	case h.TeamApprovedBy != "":
		return h, hub.Errorf(hub.CodeConflict, op, "handoff %s was already approved by %s", id, h.TeamApprovedBy)
	}
	return h, hub.Errorf(hub.CodeConflict, op, "handoff %s needs no approval", id)
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
			return hub.Errorf(hub.CodeConflict, op, "handoff %s does not belong to a team", id)
		case h.Status != hub.HandoffProposed:
			return outOfState(m.tx, op, h, "it is not waiting for approval")
		case h.TeamApprovedBy != "":
			return hub.Errorf(hub.CodeConflict, op, "handoff %s was already approved by %s", id, h.TeamApprovedBy)
		}
		return s.approveForTeam(m, &h)
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, nil), nil
}

// approveForTeam stores the approval of the actor for the team of a handoff, and tells
// both sides.
func (s *Service) approveForTeam(m *mover, h *hub.Handoff) error {
	if err := s.board.Approvable(m.tx, m.actor, *h); err != nil {
		return err
	}
	if err := m.approveForTeam(h); err != nil {
		return err
	}
	if err := s.approvalsDecided(m, *h); err != nil {
		return err
	}
	summary := fmt.Sprintf("%s has approved the handoff of %s into the team %s: %s may accept it", m.actor.ID, h.TaskID, h.Team, h.To)
	if h.WaitsForOperator() && !m.actor.IsOperator() {
		summary = fmt.Sprintf("%s has approved the handoff of %s into the team %s; it still waits for the operator", m.actor.ID, h.TaskID, h.Team)
	}
	return s.post(m, m.actor, *h, hub.TypeStatusUpdate, hub.PriorityNormal, map[string]any{"summary": cut(summary, 270), "handoff_id": h.ID}, false)
}

// approveForTeam stores the approval of the actor for the team of a handoff.
func (m *mover) approveForTeam(h *hub.Handoff) error {
	h.TeamApprovedBy = m.actor.ID
	if err := m.tx.PutHandoff(*h, h.Status, nil); err != nil {
		return err
	}
	return m.entry(actions.HandoffForTeam, *h, map[string]any{"task_id": h.TaskID, "package_hash": h.Hash, "team": h.Team})
}

// approvers names those who can approve a handoff into a team: its members whose role
// permits it, or the operator.
func (s *Service) approvers(r hub.Reader, h hub.Handoff) (string, error) {
	if s.board == nil {
		return "the operator", nil
	}
	able, err := s.board.Approvers(r, h)
	if err != nil {
		return "", err
	}
	if !h.Concerns(hub.Operator) {
		able = append(able, "the operator")
	}
	if len(able) == 0 {
		return fmt.Sprintf("a member of the team %s whose role permits it (no member's role does: change one)", h.Team), nil
	}
	names := make([]string, len(able))
	for i, id := range able {
		names[i] = string(id)
	}
	return strings.Join(names, " or "), nil
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
