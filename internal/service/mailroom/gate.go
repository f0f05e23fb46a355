package mailroom

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
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

func (m *Mailroom) decide(ctx context.Context, op string, actor hub.Caller, id hub.EnvelopeID, approve bool, reason string) (Verdict, error) {
	if !actor.IsOperator() {
		return Verdict{}, hub.Errorf(hub.CodeDenied, op, "only the operator approves or denies a held message, and you are %s", actor.ID)
	}
	if len(reason) > 1000 {
		return Verdict{}, hub.Errorf(hub.CodeTooLarge, op, "reason: at most 1000 bytes")
	}
	word, action, next := "denied", hub.ActionMessageDenied, hub.PartyFailed
	if approve {
		word, action, next = "approved", hub.ActionMessageApproved, hub.PartyUnread
	}
	var msg hub.Message
	var forecasts []Forecast
	var reply sendResult
	err := m.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		forecasts, reply = nil, sendResult{}
		now := m.clock.Now()
		var err error
		if msg, err = m.visible(tx, op, actor, id); err != nil {
			return err
		}
		parties, err := tx.Parties(id)
		if err != nil {
			return err
		}
		held := false
		for _, p := range parties {
			if p.State != hub.PartyHeld {
				continue
			}
			held = true
			if err := tx.PutParty(id, p.Agent, next, p.State); err != nil {
				return err
			}
		}
		if !held {
			return hub.Errorf(hub.CodeConflict, op, "%s is not held: it is %s", id, msg.Status).WithHint("{held} lists the held messages")
		}
		if forecasts, err = m.release(tx, id, approve, reason); err != nil {
			return err
		}
		if approve {
			var to []hub.AgentID
			for _, p := range parties {
				to = append(to, p.Agent)
			}
			if err := m.shareMessage(tx, hub.Caller{ID: msg.From}, msg, to); err != nil {
				return err
			}
		}
		if err := record(tx, now, actor, action, string(id), map[string]string{"reason": reason}); err != nil {
			return err
		}
		if err := updateStatus(tx, id, now); err != nil {
			return err
		}
		if msg, err = tx.Message(id); err != nil || msg.From == actor.ID {
			return err
		}
		payload := map[string]any{"message_id": id, "status": word}
		if reason != "" {
			payload["reason"] = reason
		}
		reply, err = m.system(tx, hub.PriorityNormal, []hub.AgentID{msg.From}, hub.TypeSystemAck, id, msg.ThreadID, payload)
		return err
	})
	if err != nil {
		return Verdict{}, fmt.Errorf("mailroom: %s: %w", word, err)
	}
	for _, l := range forecasts {
		m.notifyInbox(l.Recipient)
	}
	if reply.message.ID != "" {
		m.announce(reply)
	}
	m.bus.Publish(hub.TopicJournal)
	return Verdict{ID: id, Status: msg.Status, Decision: word, From: msg.From, To: msg.To}, nil
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
