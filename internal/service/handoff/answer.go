package handoff

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Accept takes a proposed task over, if everything that its package claims is
// there. Only the receiver may. If a check fails the handoff is rejected with
// the reason and the evidence, which is not an error: the report says so.
func (s *Service) Accept(ctx context.Context, actor hub.Caller, id hub.HandoffID, detail string) (Report, error) {
	const op = "handoff.Accept"
	var h hub.Handoff
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		h, err = acceptable(r, op, actor, id, detail)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: accept: %w", err)
	}
	// Looking may take a while, so it is done before the store is asked to
	// change anything. What was looked at cannot change meanwhile; whether it
	// may still be accepted is asked again.
	checks := s.prove(ctx, h)
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}

	var posted []hub.Message
	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		posted = nil
		var err error
		if h, err = acceptable(tx, op, actor, id, detail); err != nil {
			return err
		}
		m := mover{tx, actor.ID, s.clock.Now()}
		if bad, ok := failed(checks); ok {
			posted, err = s.reject(m, actor, &h, hub.EndedRejected, bad.Reason, bad.What+": "+bad.Detail, checks)
			return err
		}
		if err := m.move(&h, hub.HandoffValidating, "", checks); err != nil {
			return err
		}
		if err := m.move(&h, hub.HandoffAccepted, detail, nil); err != nil {
			return err
		}
		note := ""
		if queued(h) {
			h.Ownership = hub.OwnershipManual
			note = "the task is in a queue that this hub cannot reach: " + string(hub.OwnershipManual)
		}
		if err := m.move(&h, hub.HandoffActivated, note, nil); err != nil {
			return err
		}
		msg, err := s.post(tx, actor, h, hub.TypeHandoffAccept, hub.PriorityNormal, struct {
			ID     hub.HandoffID `json:"handoff_id"`
			Detail string        `json:"detail,omitempty"`
		}{h.ID, cut(detail, 3000)}, false)
		if err != nil {
			return err
		}
		posted = append(posted, msg)
		if h.Ownership != hub.OwnershipManual {
			return nil
		}
		msg, err = s.sender.Tell(tx, "", hub.TypeStatusBlocked, h.ThreadID, map[string]any{
			"summary":    cut(fmt.Sprintf("move the task %s to %s in its queue by hand", h.TaskID, h.To), 270),
			"reason":     string(hub.OwnershipManual),
			"detail":     "This hub cannot reach the queue that the task names. When it is done there: parley handoff activate " + string(h.ID),
			"handoff_id": h.ID,
		})
		if msg.ID != "" {
			posted = append(posted, msg)
		}
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: accept: %w", err)
	}
	s.sender.Announce(posted...)
	return s.answer(h, checks), nil
}

// acceptable returns a handoff that the actor may accept now.
func acceptable(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID, detail string) (hub.Handoff, error) {
	h, err := proposedTo(r, op, actor, id, detail)
	if err == nil && h.NeedsHuman && h.ApprovedAt.IsZero() {
		return h, hub.Errorf(hub.CodePolicy, op, "handoff %s cannot be accepted before the operator approves it", id).
			WithHint("the operator runs: parley approve %s", id)
	}
	return h, err
}

// proposedTo returns a proposed handoff whose receiver is the actor.
func proposedTo(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID, text string) (hub.Handoff, error) {
	if err := checkText(op, "detail", text); err != nil {
		return hub.Handoff{}, err
	}
	return receivedBy(r, op, actor, id, hub.HandoffProposed, "it is not waiting for an answer")
}

// receivedBy returns a handoff in a state whose receiver is the actor. why says
// what is wrong with any other state.
func receivedBy(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID, state hub.HandoffState, why string) (hub.Handoff, error) {
	if err := active(op, actor); err != nil {
		return hub.Handoff{}, err
	}
	h, err := visible(r, op, actor, id)
	switch {
	case err != nil:
		return h, err
	case h.To != actor.ID:
		return h, hub.Errorf(hub.CodeDenied, op, "handoff %s is for %s, and you are %s", id, h.To, actor.ID)
	case h.Status != state:
		return h, outOfState(op, h, why)
	}
	return h, nil
}

func outOfState(op string, h hub.Handoff, why string) *hub.Error {
	return hub.Errorf(hub.CodeConflict, op, "handoff %s is %s: %s", h.ID, h.Status, why).WithHint("parley handoff show %s tells how it got there", h.ID)
}

// maxText bounds what a party says about a move. The protocol's payload cap
// holds for the message in any case.
const maxText = 2000

func checkText(op, name, text string) error {
	if len(text) > maxText {
		return hub.Errorf(hub.CodeTooLarge, op, "%s: at most %d bytes", name, maxText).WithHint("put more into an artifact or a message of its own")
	}
	return nil
}

// queued reports whether the package says that the task is an item of a queue
// outside the hub.
func queued(h hub.Handoff) bool {
	pkg, err := hub.DecodePackage(h.Package)
	if err != nil {
		return false // it was checked a moment ago
	}
	isItem := func(t string) bool { return t == "workq_item" }
	for _, ref := range pkg.Task.ExternalRefs {
		if isItem(ref.Type) {
			return true
		}
	}
	return slices.ContainsFunc(pkg.Artifacts, func(a hub.PackageArtifact) bool { return isItem(a.Ref.Type) })
}

// reject moves a proposed handoff to rejected and tells the other side.
func (s *Service) reject(m mover, actor hub.Caller, h *hub.Handoff, ending hub.Ending, reason hub.RejectReason, detail string, checks []hub.Check) ([]hub.Message, error) {
	if reason == "" {
		reason = hub.RejectOther
	}
	if err := m.move(h, hub.HandoffValidating, "", checks); err != nil {
		return nil, err
	}
	h.Ending, h.RejectReason, h.Notes = ending, reason, string(reason)+": "+detail
	if err := m.move(h, hub.HandoffRejected, h.Notes, nil); err != nil {
		return nil, err
	}
	if h.Restricted {
		detail = onTheHub
	}
	msg, err := s.post(m.tx, actor, *h, hub.TypeHandoffReject, hub.PriorityNormal, struct {
		ID     hub.HandoffID    `json:"handoff_id"`
		Reason hub.RejectReason `json:"reason"`
		Detail string           `json:"detail"`
	}{h.ID, reason, cut(detail, 3000)}, false)
	if err != nil || h.Previous == "" {
		return []hub.Message{msg}, err
	}
	// The sender has given his own handoff up for this one: nobody holds the
	// task by a handoff now, and no deadline watches it.
	told, err := s.sender.Tell(m.tx, "", hub.TypeStatusBlocked, h.ThreadID, map[string]any{
		"summary": cut(fmt.Sprintf("the task %s was handed on and not taken: it is still with %s", h.TaskID, h.From), 270),
		"reason":  "only " + string(h.From) + " or the operator can hand it on", "handoff_id": h.ID,
	})
	if told.ID == "" {
		return []hub.Message{msg}, err
	}
	return []hub.Message{msg, told}, err
}

// Reject turns a proposed task down. Only the receiver may, and says why.
func (s *Service) Reject(ctx context.Context, actor hub.Caller, id hub.HandoffID, reason hub.RejectReason, detail string) (Report, error) {
	const op = "handoff.Reject"
	if !slices.Contains(hub.RejectReasons, reason) {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "reason: %q is not a reason to reject", reason).WithHint("the reasons are %v", hub.RejectReasons)
	}
	if strings.TrimSpace(detail) == "" {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "detail: missing").WithHint("say in a sentence what the sender should know")
	}
	return s.refuse(ctx, op, actor, func(tx hub.Tx) (hub.Handoff, error) {
		return proposedTo(tx, op, actor, id, detail)
	}, hub.EndedRejected, reason, detail)
}

// Withdraw takes a proposal back before it is accepted. Only the sender may.
func (s *Service) Withdraw(ctx context.Context, actor hub.Caller, id hub.HandoffID, detail string) (Report, error) {
	const op = "handoff.Withdraw"
	if err := checkText(op, "detail", detail); err != nil {
		return Report{}, err
	}
	why := string(hub.EndedWithdrawn)
	if detail != "" {
		why += ": " + detail
	}
	return s.refuse(ctx, op, actor, func(tx hub.Tx) (hub.Handoff, error) {
		if err := active(op, actor); err != nil {
			return hub.Handoff{}, err
		}
		h, err := visible(tx, op, actor, id)
		switch {
		case err != nil:
			return h, err
		case h.From != actor.ID:
			return h, hub.Errorf(hub.CodeDenied, op, "handoff %s is from %s, and you are %s", id, h.From, actor.ID).
				WithHint("the receiver can reject it, the operator can release it")
		case h.Status != hub.HandoffProposed:
			return h, outOfState(op, h, "only what was not accepted yet can be withdrawn")
		}
		return h, nil
	}, hub.EndedWithdrawn, hub.RejectOther, why)
}

// refuse rejects the proposed handoff that find returns.
func (s *Service) refuse(ctx context.Context, op string, actor hub.Caller, find func(hub.Tx) (hub.Handoff, error), ending hub.Ending, reason hub.RejectReason, detail string) (Report, error) {
	var h hub.Handoff
	var posted []hub.Message
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if h, err = find(tx); err != nil {
			return err
		}
		posted, err = s.reject(mover{tx, actor.ID, s.clock.Now()}, actor, &h, ending, reason, detail, nil)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", op, err)
	}
	s.sender.Announce(posted...)
	return s.answer(h, nil), nil
}

// Release frees a task from a handoff, whatever its state. Only the operator
// may. What was not accepted is rejected, what was accepted ends undone.
func (s *Service) Release(ctx context.Context, actor hub.Caller, id hub.HandoffID, detail string) (Report, error) {
	const op = "handoff.Release"
	if !actor.IsOperator() {
		return Report{}, hub.Errorf(hub.CodeDenied, op, "only the operator may release a task, and you are %s", actor.ID)
	}
	if err := checkText(op, "detail", detail); err != nil {
		return Report{}, err
	}
	why := "released by the operator"
	if detail != "" {
		why += ": " + detail
	}
	var h hub.Handoff
	var posted []hub.Message
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		posted = nil
		if h, err = visible(tx, op, actor, id); err != nil {
			return err
		}
		m := mover{tx, actor.ID, s.clock.Now()}
		switch h.Status {
		case hub.HandoffProposed:
			posted, err = s.reject(m, actor, &h, hub.EndedReleased, hub.RejectOther, why, nil)
			return err
		case hub.HandoffActivated:
			h.Ending, h.Notes = hub.EndedReleased, why
			msg, err := s.end(m, actor, &h)
			posted = append(posted, msg)
			return err
		}
		return outOfState(op, h, "nobody holds the task by it")
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: release: %w", err)
	}
	s.sender.Announce(posted...)
	return s.answer(h, nil), nil
}
