package handoff

import "github.com/parley-agents/parley/hub"

// Return makes a completed handoff active again, because a landing queue or a reviewer returned
// its work, inside tx. It reports whether the owner has to work on the task: not if another
// handoff has it by now. The caller tells the owner, and announces the messages after the commit.
func (s *Service) Return(tx hub.Tx, id hub.HandoffID, reason string) (active bool, posted []hub.Message, err error) {
	h, err := tx.Handoff(id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return false, nil, nil
	}
	isDone := (h.Status == hub.HandoffClosed || h.Status == hub.HandoffCompleted) && h.Ending == hub.EndedDone
	if err != nil || !isDone {
		return h.Status == hub.HandoffActivated, nil, err
	}
	hasNext, err := handedAgain(tx, h)
	if err != nil || hasNext {
		return false, nil, err
	}

	m := &mover{tx: tx, actor: hub.Caller{ID: hub.Self}, now: s.clock.Now(), files: s.files}
	waited := h.Status == hub.HandoffCompleted // for a review; the team does not know the task as done
	if waited {
		if err := m.move(&h, hub.HandoffClosed, "", nil); err != nil {
			return false, nil, err
		}
	}
	if err := m.move(&h, hub.HandoffActivated, cut(reason, maxReason), nil); err != nil {
		return false, nil, err
	}
	if h.Team != "" && s.board != nil && !waited {
		posted, err := s.board.Returned(tx, m.actor, h, reason)
		m.posted = append(m.posted, posted...)
		if err != nil {
			return false, nil, err
		}
	}
	return true, m.posted, nil
}

// handedAgain reports whether a later handoff has the task of h, or is about to.
func handedAgain(r hub.Reader, h hub.Handoff) (bool, error) {
	for _, q := range []hub.HandoffQuery{{Task: h.TaskID, Owned: true, Limit: 1}, {Task: h.TaskID, States: hub.ActiveHandoffs, Limit: 1}} {
		newest, err := r.Handoffs(q)
		if err != nil {
			return false, err
		}
		if len(newest) > 0 && newest[0].ID != h.ID {
			return true, nil
		}
	}
	return false, nil
}
