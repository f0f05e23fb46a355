package mailroom

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// maxUndelivered is the most messages of each status in a list of undelivered ones.
const maxUndelivered = 100

// undeliveredStatuses are the statuses of messages that can be sent again.
var undeliveredStatuses = []hub.MessageStatus{hub.StatusExpired, hub.StatusFailed}

// An Undelivered is a message that failed or expired.
type Undelivered struct {
	Message hub.Envelope   `json:"message"`
	Missed  []hub.AgentID  `json:"missed"`               // the recipients that did not get it, or did not read it in time
	Reason  string         `json:"reason"`               // the last error in the ledger
	Retried hub.EnvelopeID `json:"retried_as,omitempty"` // the message that repeats it
}

// An UndeliveredList lists undelivered messages, newest first.
type UndeliveredList struct {
	Messages []Undelivered `json:"messages"`
	ShortIDs ShortIDs      `json:"short_ids"`
}

// Undelivered returns the messages that failed or expired: those of the actor, or all for
// those who audit. Messages of the hub are not among them.
func (m *Mailroom) Undelivered(ctx context.Context, actor hub.Caller) (UndeliveredList, error) {
	out := UndeliveredList{Messages: []Undelivered{}}
	err := m.store.View(ctx, func(r hub.Reader) error {
		var envelopes []hub.Envelope
		var names []string

		for _, status := range undeliveredStatuses {
			// An agent sees the messages that it sent, an auditor those of all senders.
			q := hub.Query{Viewer: actor.ID, Audit: actor.Audits(), Status: status, Limit: maxUndelivered}
			if !actor.Audits() {
				q.From = actor.ID
			}
			page, err := r.Query(q)
			if err != nil {
				return err
			}

			for _, msg := range page.Messages {
				if msg.From == hub.Self {
					continue
				}
				u, err := undeliveredOf(r, msg)
				if err != nil {
					return err
				}
				isWithheld, err := withheld(r, "mailroom.Undelivered", actor, msg)
				if err != nil {
					return err
				}
				if isWithheld {
					u.Message = u.Message.Withheld()
				}
				out.Messages = append(out.Messages, u)
				envelopes, names = append(envelopes, msg.Envelope), append(names, string(u.Retried))
			}
		}

		slices.SortFunc(out.Messages, func(a, b Undelivered) int { return cmp.Compare(b.Message.ID, a.Message.ID) })
		var err error
		out.ShortIDs, err = shortIDs(r, envelopes, names...)
		return err
	})
	if err != nil {
		return UndeliveredList{}, fmt.Errorf("mailroom: undelivered: %w", err)
	}
	return out, nil
}

// undeliveredOf returns a message with the recipients that missed it and the reason.
func undeliveredOf(r hub.Reader, msg hub.Message) (Undelivered, error) {
	out := Undelivered{Message: msg.Envelope}
	parties, err := r.Parties(msg.ID)
	if err != nil {
		return out, err
	}
	for _, p := range parties {
		if p.State == hub.PartyExpired || p.State == hub.PartyFailed {
			out.Missed = append(out.Missed, p.Agent)
		}
	}
	slices.Sort(out.Missed)

	ledger, err := r.Deliveries(msg.ID)
	if err != nil {
		return out, err
	}
	for _, d := range ledger {
		if d.Channel == hub.ChannelInbox && d.Status == hub.DeliveryFailed {
			out.Reason = d.Error
		}
	}
	out.Retried, err = retryOf(r, msg)
	return out, err
}

// retryOf returns the message that repeats another one, or "". Both are of one sender in
// one thread.
func retryOf(r hub.Reader, msg hub.Message) (hub.EnvelopeID, error) {
	page, err := r.Query(hub.Query{Audit: true, Thread: msg.ThreadID, From: msg.From, Since: msg.CreatedAt, Limit: maxPage})
	if err != nil {
		return "", err
	}
	for _, later := range page.Messages {
		if later.RetryOf() == msg.ID {
			return later.ID, nil
		}
	}
	return "", nil
}

// A retry says which message a draft repeats. The nil retry repeats none.
type retry struct {
	of hub.EnvelopeID
	by hub.Caller // who asked for it: the sender, or the operator
}

// mark names the repeated message in an envelope.
func (t *retry) mark(e *hub.Envelope) {
	if t == nil {
		return
	}
	if e.Context == nil {
		e.Context = new(hub.Context)
	}
	e.Context.RetryOf = t.of
}

// check reports CodeConflict unless the message can be sent again, inside the transaction
// that stores its repetition.
func (t *retry) check(r hub.Reader, op string) error {
	if t == nil {
		return nil
	}
	msg, err := r.Message(t.of)
	if err != nil {
		return err
	}
	if !slices.Contains(undeliveredStatuses, msg.Status) {
		return hub.Errorf(hub.CodeConflict, op, "%s is %s: only failed or expired messages can be sent again", t.of, msg.Status).
			WithHint("{undelivered} lists them")
	}
	again, err := retryOf(r, msg)
	if err == nil && again != "" {
		return hub.Errorf(hub.CodeConflict, op, "%s was already sent again as %s", t.of, again).WithHint("send that message again if it fails")
	}
	return err
}

// record writes the journal entry about the repetition.
func (t *retry) record(tx hub.Tx, msg hub.Message) error {
	if t == nil {
		return nil
	}
	return record(tx, msg.CreatedAt, t.by, actions.MessageRetried, string(t.of), map[string]any{"as": msg.ID})
}

// Retry sends a message again that failed or expired, to the recipients that missed it.
// The new message has the same sender and content, is in the same thread and names the old
// one. It expires at the given time, by default after the same span as the old one. The
// sender may, and the operator.
func (m *Mailroom) Retry(ctx context.Context, actor hub.Caller, id hub.EnvelopeID, expires hub.Time) (Receipt, error) {
	const op = "mailroom.Retry"
	var old Undelivered
	sender := actor
	err := m.store.View(ctx, func(r hub.Reader) error {
		msg, err := m.visible(r, op, actor, id)
		if err != nil {
			return err
		}
		if err := repeatable(op, actor, msg); err != nil {
			return err
		}
		if err := (&retry{of: id}).check(r, op); err != nil {
			return err
		}
		if old, err = undeliveredOf(r, msg); err != nil || msg.From == actor.ID {
			return err
		}

		// The operator repeats a message in the name of its sender, with the rights of that
		// sender.
		a, err := r.Agent(msg.From)
		sender = hub.Caller{Kind: hub.CallerAgent, ID: a.ID, Role: a.Role, Auditor: a.Auditor, Paused: a.State == hub.AgentPaused}
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("mailroom: retry: %w", err)
	}

	d := m.repeat(old, expires)
	d.retry = &retry{of: id, by: actor}
	out, err := m.Send(ctx, sender, d)
	if err == nil && sender.ID != actor.ID {
		out.Unread, err = m.unread(ctx, actor.ID)
	}
	return out, err
}

// repeatable refuses messages that the actor cannot send again, whatever their status.
func repeatable(op string, actor hub.Caller, msg hub.Message) error {
	_, isEvent := msg.From.Source()
	switch {
	case msg.From == hub.Self || isEvent || msg.Type.Family() == hub.FamilyEvent:
		return hub.Errorf(hub.CodePolicy, op, "%s is from the hub and cannot be sent again", msg.ID)
	case msg.From != actor.ID && !actor.IsOperator():
		return hub.Errorf(hub.CodeDenied, op, "%s is from %s; you are %s", msg.ID, msg.From, actor.ID).WithHint("only its sender and the operator can send it again")
	case msg.IsForgotten():
		return hub.Errorf(hub.CodeConflict, op, "the operator removed the text of %s", msg.ID).WithHint("write a new message")
	case msg.Type.Negotiates():
		return hub.Errorf(hub.CodePolicy, op, "%s is part of a negotiation or disagreement, which has moved on", msg.ID).WithHint("make a new offer, or state the position again")
	}
	return nil
}

// repeat returns the draft that repeats a message.
func (m *Mailroom) repeat(old Undelivered, expires hub.Time) Draft {
	e, now := old.Message, m.clock.Now()
	d := Draft{
		To: old.Missed, Type: e.Type, Payload: strictjson.Trust(e.Payload), Policy: &e.Policy, Team: e.Team, ThreadID: e.ThreadID, ReplyTo: e.ReplyTo,
		Priority: e.Priority, Topic: e.Topic, ExpiresAt: expires, Version: e.Version, Extra: e.Extra,
	}
	if e.Broadcast() {
		d.To = e.To
	}
	if e.Context != nil {
		d.Context = &hub.Context{ExternalRefs: e.Context.ExternalRefs, Artifacts: e.Context.Artifacts}
	}
	if expires.IsZero() && !e.ExpiresAt.IsZero() {
		d.ExpiresAt = now.Add(e.ExpiresAt.Sub(e.CreatedAt.Time))
	}
	if by := e.AckBy(); !by.IsZero() {
		d.AckBy = now.Add(by.Sub(e.CreatedAt.Time)).String()
	}
	return d
}
