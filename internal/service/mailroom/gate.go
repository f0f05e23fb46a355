package mailroom

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Verdict is the decision of the operator about a held message.
type Verdict struct {
	ID       hub.EnvelopeID    `json:"id"`
	Status   hub.MessageStatus `json:"status"`
	Decision string            `json:"decision"` // approved or denied
	From     hub.AgentID       `json:"from"`
	To       []hub.AgentID     `json:"to"`
}

// Approve releases a held message to its recipients. Only the operator may.
func (m *Mailroom) Approve(ctx context.Context, actor hub.Caller, id hub.EnvelopeID) (Verdict, error) {
	return m.decide(ctx, "mailroom.Approve", actor, id, true, "")
}

// Deny ends a held message as failed. Only the operator may.
func (m *Mailroom) Deny(ctx context.Context, actor hub.Caller, id hub.EnvelopeID, reason string) (Verdict, error) {
	return m.decide(ctx, "mailroom.Deny", actor, id, false, reason)
}

// decide stores the decision of the operator about a held message and tells its sender.
func (m *Mailroom) decide(ctx context.Context, op string, actor hub.Caller, id hub.EnvelopeID, approve bool, reason string) (Verdict, error) {
	if !actor.IsOperator() {
		return Verdict{}, hub.Errorf(hub.CodeDenied, op, "only the operator can approve or deny held messages; you are %s", actor.ID)
	}
	if len(reason) > 1000 {
		return Verdict{}, hub.Errorf(hub.CodeTooLarge, op, "reason must be at most 1000 bytes, got %d", len(reason))
	}
	x := gating{Mailroom: m, op: op, actor: actor, id: id, approve: approve, reason: reason}
	if err := m.store.Update(ctx, hub.SurvivesPowerLoss, x.commit); err != nil {
		return Verdict{}, fmt.Errorf("mailroom: %s: %w", x.word(), err)
	}

	released := sendResult{message: x.msg}
	for _, f := range x.forecasts {
		released.readers = append(released.readers, f.Recipient)
	}
	m.announce(released, x.reply)
	return Verdict{ID: id, Status: x.msg.Status, Decision: x.word(), From: x.msg.From, To: x.msg.To}, nil
}

// A gating is one decision about a held message. The fields of the second part are set by the
// transaction.
type gating struct {
	*Mailroom
	op      string
	actor   hub.Caller
	id      hub.EnvelopeID
	approve bool
	reason  string

	msg       hub.Message
	forecasts []Forecast // of the deliveries that the decision releases
	reply     sendResult // to the sender
}

// word returns the decision as it is stored and sent.
func (x *gating) word() string {
	if x.approve {
		return "approved"
	}
	return "denied"
}

// commit stores the decision, in one transaction.
func (x *gating) commit(tx hub.Tx) (err error) {
	x.reply = sendResult{} // the store may run a transaction again
	now := x.clock.Now()
	if x.msg, err = x.visible(tx, x.op, x.actor, x.id); err != nil {
		return err
	}
	if err := x.moveParties(tx); err != nil {
		return err
	}
	if x.forecasts, err = x.release(tx, x.id, x.approve, x.reason); err != nil {
		return err
	}

	action := actions.MessageDenied
	if x.approve {
		action = actions.MessageApproved
	}
	if err := record(tx, now, x.actor, action, string(x.id), map[string]string{"reason": x.reason}); err != nil {
		return err
	}
	if err := updateStatus(tx, x.id, now); err != nil {
		return err
	}
	if x.msg, err = tx.Message(x.id); err != nil || x.msg.From == x.actor.ID {
		return err
	}
	return x.tellSender(tx)
}

// moveParties ends the hold of the recipients. Those of an approved message may read its
// artifacts.
func (x *gating) moveParties(tx hub.Tx) error {
	next := hub.PartyFailed
	if x.approve {
		next = hub.PartyUnread
	}
	parties, err := tx.Parties(x.id)
	if err != nil {
		return err
	}

	// The hold ends for every recipient at once; parties that were never held stay as they are.
	held := false
	var all []hub.AgentID
	for _, p := range parties {
		all = append(all, p.Agent)
		if p.State != hub.PartyHeld {
			continue
		}
		held = true
		if err := tx.PutParty(x.id, p.Agent, next, p.State); err != nil {
			return err
		}
	}

	if !held {
		return hub.Errorf(hub.CodeConflict, x.op, "%s is not held: it is %s", x.id, x.msg.Status).WithHint("{held} lists the held messages")
	}
	if !x.approve {
		return nil
	}
	return x.shareMessage(tx, hub.Caller{ID: x.msg.From}, x.msg, all)
}

// tellSender writes the hub's answer to the sender of the message.
func (x *gating) tellSender(tx hub.Tx) (err error) {
	payload := map[string]any{"message_id": x.id, "status": x.word()}
	if x.reason != "" {
		payload["reason"] = x.reason
	}
	x.reply, err = x.system(tx, hub.Envelope{To: []hub.AgentID{x.msg.From}, Type: hub.TypeSystemAck, ReplyTo: x.id, ThreadID: x.msg.ThreadID}, payload)
	return err
}

// release changes the held rows of the ledger to stored, pending or failed.
func (m *Mailroom) release(tx hub.Tx, id hub.EnvelopeID, approve bool, reason string) ([]Forecast, error) {
	ledger, err := tx.Deliveries(id)
	if err != nil {
		return nil, err
	}

	var forecasts []Forecast
	for _, d := range ledger {
		if d.Status != hub.DeliveryHeld {
			continue
		}
		switch {
		case !approve:
			d.Status, d.Error = hub.DeliveryFailed, "denied by the operator"
			if reason != "" {
				d.Error += ": " + reason
			}
		case d.Channel == hub.ChannelInbox:
			d.Status = hub.DeliveryStored
			f, err := m.forecast(tx, d, hub.Message{}, true)
			if err != nil {
				return nil, err
			}
			forecasts = append(forecasts, f)
		default:
			d.Status = hub.DeliveryPending
		}

		if err := tx.PutDelivery(d); err != nil {
			return nil, err
		}
	}
	return forecasts, nil
}
