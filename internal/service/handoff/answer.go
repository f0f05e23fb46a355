package handoff

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// Accept makes the receiver of a proposed handoff the owner of its task, if all
// claims of the package hold. If a check fails, the handoff is rejected with the
// reason and the evidence. That is no error: the status of the report is rejected.
func (s *Service) Accept(ctx context.Context, actor hub.Caller, id hub.HandoffID, detail string) (Report, error) {
	const op = "handoff.Accept"
	var h hub.Handoff
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		h, err = s.acceptable(r, op, actor, id, detail)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: accept: %w", err)
	}

	// The checks take long, so they run before the transaction. The package cannot
	// change meanwhile; the state of the handoff can, and is checked again.
	transfers := transfersOf(h, actor.Session)
	checks, err := s.checkPackage(ctx, op, h, transfers)
	if err != nil {
		return Report{}, fmt.Errorf("handoff: accept: %w", err)
	}

	// The store owns two rules here: it does not run an update whose context has ended,
	// and PutHandoff refuses a handoff whose state changed since it was read.
	err = s.update(ctx, op, actor, func(m *mover) (err error) {
		if h, err = s.acceptable(m.tx, op, actor, id, detail); err != nil {
			return err
		}
		return s.accept(m, actor, &h, detail, transfers, checks)
	})
	if err != nil {
		return Report{}, err
	}
	if h.Status == hub.HandoffAccepted {
		if h, _, err = s.takeOver(ctx, op, actor, h); err != nil {
			return Report{}, err
		}
	}

	out := s.answer(h, checks)
	if pkg, err := shape.DecodePackage(h.Package); err == nil {
		out.Criteria = pkg.Task.Criteria
	}
	return s.withFiles(ctx, actor, h, out)
}

// checkPackage checks the claims of a package and, if they hold, asks the queue about the
// items that change hands. It refuses a folder that the hub may not look into.
func (s *Service) checkPackage(ctx context.Context, op string, h hub.Handoff, transfers []hub.Transfer) ([]hub.Check, error) {
	if pkg, err := shape.DecodePackage(h.Package); err == nil { // else the checks reject it
		if err := s.checkRoots(ctx, op, h.Package, pkg, "then accept it, or reject it now"); err != nil {
			return nil, err
		}
	}
	checks := s.prove(ctx, h)
	if _, bad := failed(checks); bad || s.queue == nil {
		return checks, nil
	}
	for _, t := range transfers {
		if c := s.queue.Inspect(ctx, t); c.Result == hub.CheckFailed {
			checks = append(checks, c)
		}
	}
	return checks, nil
}

// accept moves a proposed handoff to accepted or, if a check failed, to rejected. With the
// hub's own queue the items change hands in the same transaction, and the receiver owns the
// task after it; another queue answers outside of transactions, see takeOver.
func (s *Service) accept(m *mover, actor hub.Caller, h *hub.Handoff, detail string, transfers []hub.Transfer, checks []hub.Check) error {
	if err := s.dealtWith(m, actor, *h); err != nil {
		return err
	}

	// Items of another queue were inspected with the package, outside of the transaction.
	all := checks
	if s.queue == nil {
		conflicts, err := itemConflicts(m.tx, transfers)
		if err != nil {
			return err
		}
		all = append(slices.Clip(checks), conflicts...)
	}
	if bad, ok := failed(all); ok {
		return s.reject(m, actor, h, hub.EndedRejected, bad.Reason, bad.What+": "+bad.Detail, all)
	}

	if err := m.move(h, hub.HandoffValidating, "", checks); err != nil {
		return err
	}
	if err := m.move(h, hub.HandoffAccepted, detail, nil); err != nil {
		return err
	}
	if err := s.moveTask(m, *h, false); err != nil {
		return err
	}
	if err := s.postAccept(m, actor, *h, detail); err != nil {
		return err
	}

	// Items of another queue move after this transaction, in takeOver.
	if s.queue != nil && len(transfers) > 0 {
		return nil
	}
	owned, steps, err := moveItems(m, transfers)
	if err != nil {
		return err
	}
	return s.activate(m, h, owned, steps)
}

// postAccept tells the sender of a handoff that it was accepted.
func (s *Service) postAccept(m *mover, actor hub.Caller, h hub.Handoff, detail string) error {
	if h.Restricted && detail != "" {
		detail = onTheHub
	}
	return s.post(m, actor, h, hub.TypeHandoffAccept, hub.PriorityNormal, struct {
		ID     hub.HandoffID `json:"handoff_id"`
		Detail string        `json:"detail,omitempty"`
	}{h.ID, cut(detail, 3000)}, false)
}

// waitForApproval is the hint for the receiver of a handoff that others must approve first.
const waitForApproval = "you get a message when it is approved"

// acceptable returns a handoff that the actor may accept now.
func (s *Service) acceptable(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID, detail string) (hub.Handoff, error) {
	h, err := proposedTo(r, op, actor, id, detail)
	if err != nil {
		return h, err
	}
	if h.NeedsHuman && h.ApprovedAt.IsZero() {
		refused := hub.Errorf(hub.CodePolicy, op, "handoff %s cannot be accepted before the operator approves it", id)
		if actor.IsOperator() {
			return h, refused.WithHint("{approve} %s", id)
		}
		return h, refused.WithHint(waitForApproval)
	}
	if h.Team != "" && h.TeamApprovedBy == "" {
		who, err := s.approvers(r, h)
		if err != nil {
			return h, err
		}
		return h, hub.Errorf(hub.CodePolicy, op, "handoff %s cannot be accepted before %s approves it", id, who).
			WithHint(waitForApproval) // a party of the handoff cannot approve it
	}
	return h, nil
}

// proposedTo returns a proposed handoff whose receiver is the actor.
func proposedTo(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID, text string) (hub.Handoff, error) {
	if err := checkText(op, "detail", text); err != nil {
		return hub.Handoff{}, err
	}
	return receivedBy(r, op, actor, id, hub.HandoffProposed, "it is not waiting for an answer")
}

// receivedBy returns a handoff in a state whose receiver is the actor. why is the
// text of the error for another state.
func receivedBy(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID, state hub.HandoffState, why string) (hub.Handoff, error) {
	if err := active(op, actor); err != nil {
		return hub.Handoff{}, err
	}
	h, err := visible(r, op, actor, id)
	switch {
	case err != nil:
		return h, err
	case h.To != actor.ID:
		return h, hub.Errorf(hub.CodeDenied, op, "handoff %s is for %s, not for %s", id, h.To, actor.ID)
	case h.Status != state:
		return h, outOfState(r, op, h, why)
	}
	return h, nil
}

func outOfState(r hub.Reader, op string, h hub.Handoff, why string) *hub.Error {
	ref := refOf(r, h.ID)
	return hub.Errorf(hub.CodeConflict, op, "handoff %s is %s: %s", ref, h.Status, why).WithHint("its history: {handoff.show} %s", ref)
}

// maxText is the most bytes that a party writes about a move. The protocol limits
// the payload of the message as well.
const maxText = 2000

func checkText(op, name, text string) error {
	if len(text) > maxText {
		return hub.Errorf(hub.CodeTooLarge, op, "%s must be at most %d bytes, got %d", name, maxText, len(text)).WithHint("put long text into an artifact or another message")
	}
	return nil
}

// reject moves a proposed handoff to rejected and notifies the other side.
func (s *Service) reject(m *mover, actor hub.Caller, h *hub.Handoff, ending hub.Ending, reason hub.RejectReason, detail string, checks []hub.Check) error {
	err := s.turnDown(m, actor, h, ending, reason, detail, checks)
	if err != nil || h.Previous == "" {
		return err
	}
	if made, err := continuationOf(m.tx, *h); err != nil || made != nil {
		return err // the next successor is asked
	}

	// The sender ended its own handoff of the task for this one. So the task has no
	// active handoff now, and no deadline.
	_, err = s.tell(m, "", *h, fmt.Sprintf("the task %s was handed on but not accepted: %s still owns it", h.TaskID, h.From),
		"only "+string(h.From)+" or the operator can hand it on", nil)
	return err
}

// turnDown is reject for a task that another agent may be offered at once.
func (s *Service) turnDown(m *mover, actor hub.Caller, h *hub.Handoff, ending hub.Ending, reason hub.RejectReason, detail string, checks []hub.Check) error {
	if reason == "" {
		reason = hub.RejectOther
	}
	if err := m.move(h, hub.HandoffValidating, "", checks); err != nil {
		return err
	}
	h.Ending = ending
	h.RejectReason = reason
	h.Notes = string(reason) + ": " + detail
	if err := m.move(h, hub.HandoffRejected, h.Notes, nil); err != nil {
		return err
	}
	if err := s.approvalsDecided(m, *h); err != nil {
		return err
	}
	if h.Restricted {
		detail = onTheHub
	}
	return s.post(m, actor, *h, hub.TypeHandoffReject, hub.PriorityNormal, struct {
		ID     hub.HandoffID    `json:"handoff_id"`
		Reason hub.RejectReason `json:"reason"`
		Detail string           `json:"detail"`
		Proof  hub.Proof        `json:"proof"`
	}{h.ID, reason, cut(detail, 3000), proofOf(*h, checks).Proof}, false)
}

// Reject rejects a proposed handoff. Only its receiver may, with a reason.
func (s *Service) Reject(ctx context.Context, actor hub.Caller, id hub.HandoffID, reason hub.RejectReason, detail string) (Report, error) {
	const op = "handoff.Reject"
	if !slices.Contains(hub.RejectReasons, reason) {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "unknown reason %q", reason).WithHint("use %s", hub.JoinWords(hub.RejectReasons))
	}
	if strings.TrimSpace(detail) == "" {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "detail is required").WithHint("explain the rejection to the sender in one sentence")
	}
	return s.refuse(ctx, op, actor, func(tx hub.Tx) (hub.Handoff, error) {
		return proposedTo(tx, op, actor, id, detail)
	}, hub.EndedRejected, reason, detail)
}

// Withdraw ends a proposal before it is accepted. Only its sender may.
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
			return h, hub.Errorf(hub.CodeDenied, op, "handoff %s is from %s, not from %s", id, h.From, actor.ID).
				WithHint("the receiver can reject it, the operator can release it")
		case h.Status != hub.HandoffProposed:
			return h, outOfState(tx, op, h, "only a handoff that has not been accepted can be withdrawn")
		}
		return h, nil
	}, hub.EndedWithdrawn, hub.RejectOther, why)
}

// refuse rejects the proposed handoff that find returns.
func (s *Service) refuse(ctx context.Context, op string, actor hub.Caller, find func(hub.Tx) (hub.Handoff, error), ending hub.Ending, reason hub.RejectReason, detail string) (Report, error) {
	var h hub.Handoff
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		if h, err = find(m.tx); err != nil {
			return err
		}
		if err := s.dealtWith(m, actor, h); err != nil {
			return err
		}
		return s.reject(m, actor, &h, ending, reason, detail, nil)
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, nil), nil
}

// Release ends the handoff of a task in any state. Only the operator may. A
// proposed handoff is rejected; an accepted one ends without its task done.
func (s *Service) Release(ctx context.Context, actor hub.Caller, id hub.HandoffID, detail string) (Report, error) {
	const op = "handoff.Release"
	if !actor.IsOperator() {
		return Report{}, hub.Errorf(hub.CodeDenied, op, "only the operator can release a task; you are %s", actor.ID)
	}
	if err := checkText(op, "detail", detail); err != nil {
		return Report{}, err
	}

	why := "released by the operator"
	if detail != "" {
		why += ": " + detail
	}

	var h hub.Handoff
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		if h, err = visible(m.tx, op, actor, id); err != nil {
			return err
		}
		switch h.Status {
		case hub.HandoffProposed:
			return s.reject(m, actor, &h, hub.EndedReleased, hub.RejectOther, why, nil)
		case hub.HandoffActivated:
			h.Ending, h.Notes = hub.EndedReleased, why
			return s.end(m, actor, &h)
		}
		return outOfState(m.tx, op, h, "it no longer holds the task")
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, nil), nil
}
