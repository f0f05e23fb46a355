package mailroom

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

const (
	// ackRequestsKey is where the messages are stored that ask for an acknowledgement.
	ackRequestsKey = "ack by"
	// maxAckRequests is how many acknowledgements one sender may wait for.
	maxAckRequests = 100
	// overdueFor is how long a message is listed as overdue.
	overdueFor = 7 * 24 * time.Hour
	// maxMissing is the most recipients that a notice or a listing names.
	maxMissing = 20
)

// CodeOverdue is the code in the hub's message about an acknowledgement that is missing.
const CodeOverdue = "ack_overdue"

// An ackRequest is a message that asks for an acknowledgement and is not acknowledged yet.
type ackRequest struct {
	ID   hub.EnvelopeID `json:"id"`
	From hub.AgentID    `json:"from"`
	By   hub.Time       `json:"by,omitzero"`
	Told hub.Time       `json:"told,omitzero"` // when its sender was told that it is overdue
}

// An Overdue is a message that was not acknowledged in time.
type Overdue struct {
	Message hub.Envelope  `json:"message"`
	By      hub.Time      `json:"by,omitzero"` // the time that the sender asked for
	Missing []hub.AgentID `json:"missing"`     // the recipients without an acknowledgement, at most 20
	Held    bool          `json:"held,omitempty"`
}

// setAckBy puts the time of the acknowledgement that a sender asks for into an envelope. It
// is a span from the creation of the message, such as 30m, or a time.
func setAckBy(op string, e *hub.Envelope, value string) error {
	if value == "" {
		return nil
	}
	const hint = "use a duration such as 30m or a time such as 2026-02-21T09:00:00Z"
	by := hub.Time{}
	if span, err := time.ParseDuration(value); err == nil {
		by = e.CreatedAt.Add(span)
	} else if by, err = hub.ParseTime(value); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "ack_by: %v", err).WithHint(hint)
	}
	switch {
	case !by.After(e.CreatedAt.Time):
		return hub.Errorf(hub.CodeInvalid, op, "ack_by %s is in the past", by).WithHint("it is now %s", e.CreatedAt)
	case !e.ExpiresAt.IsZero() && by.After(e.ExpiresAt.Time):
		return hub.Errorf(hub.CodeInvalid, op, "the message expires before ack_by %s", by).WithHint("ask for an acknowledgement before %s", e.ExpiresAt)
	}
	if e.Context == nil {
		e.Context = new(hub.Context)
	}
	e.Context.AckBy = by
	return nil
}

func readAckRequests(r hub.MetaReader) ([]ackRequest, error) {
	return hub.ReadMeta[[]ackRequest](r, ackRequestsKey)
}

// awaitAck remembers a message that asks for an acknowledgement.
func (m *Mailroom) awaitAck(tx hub.Tx, op string, msg hub.Message) error {
	by := msg.AckBy()
	if by.IsZero() {
		return nil
	}
	all, err := readAckRequests(tx)
	if err != nil {
		return err
	}
	own := 0
	for _, a := range all {
		if a.From == msg.From {
			own++
		}
	}
	if own >= maxAckRequests {
		return hub.Errorf(hub.CodeRateLimited, op, "%s reached the limit of %d pending acknowledgements", msg.From, own).
			WithHint("leave ack_by out, or wait until earlier messages are acknowledged")
	}
	return hub.WriteMeta(tx, ackRequestsKey, append(all, ackRequest{ID: msg.ID, From: msg.From, By: by}))
}

// endAwait forgets that a message asks for an acknowledgement: all its recipients have
// acknowledged it, or will not.
func endAwait(tx hub.Tx, e hub.Envelope) error {
	if e.AckBy().IsZero() && !e.IsForgotten() { // a forgotten message has lost its context
		return nil
	}
	all, err := readAckRequests(tx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(a ackRequest) bool { return a.ID == e.ID })
	if i < 0 {
		return nil
	}
	return hub.WriteMeta(tx, ackRequestsKey, slices.Delete(all, i, i+1))
}

// overdueOf returns a message of a request with the recipients that did not acknowledge it.
func overdueOf(r hub.Reader, a ackRequest) (Overdue, error) {
	msg, err := r.Message(a.ID)
	if err != nil {
		return Overdue{}, err
	}
	parties, err := r.Parties(a.ID)
	if err != nil {
		return Overdue{}, err
	}
	out := Overdue{Message: msg.Envelope, By: a.By}
	for _, p := range parties {
		switch p.State {
		case hub.PartyHeld:
			out.Held = true
		case hub.PartyUnread, hub.PartyDelivered:
		default:
			continue
		}
		out.Missing = append(out.Missing, p.Agent)
	}
	slices.Sort(out.Missing)
	out.Missing = out.Missing[:min(len(out.Missing), maxMissing)]
	return out, nil
}

// Overdue returns the messages that were not acknowledged by the time that their sender
// asked for, the longest overdue first: those that the actor sent or received, or all for
// those who audit.
func (m *Mailroom) Overdue(ctx context.Context, actor hub.Caller) (out []Overdue, err error) {
	now := m.clock.Now()
	err = m.store.View(ctx, func(r hub.Reader) error {
		all, err := readAckRequests(r)
		if err != nil {
			return err
		}

		// A message is listed if the actor may see it and an acknowledgement is still missing.
		for _, a := range all {
			if a.By.After(now.Time) {
				continue
			}
			seen, err := m.visible(r, "mailroom.Overdue", actor, a.ID)
			if hub.CodeOf(err) == hub.CodeNotFound {
				continue // of others, or in an archive
			} else if err != nil {
				return err
			}

			o, err := overdueOf(r, a)
			if err != nil {
				return err
			}
			if len(o.Missing) > 0 {
				o.Message = seen.Envelope
				out = append(out, o)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("mailroom: overdue: %w", err)
	}

	slices.SortStableFunc(out, func(a, b Overdue) int { return a.By.Compare(b.By.Time) })
	return out, nil
}

// ListingOf returns messages as a page, for services that chose them.
func (m *Mailroom) ListingOf(ctx context.Context, actor hub.Caller, messages []hub.Envelope) (Listing, error) {
	out := Listing{Messages: append([]hub.Envelope{}, messages...), Warnings: m.warn(nil), Capabilities: m.Capabilities()}
	var err error
	if out.ShortIDs, err = m.ShortIDs(ctx, messages); err != nil {
		return Listing{}, err
	}
	out.Unread, err = m.unread(ctx, actor.ID)
	return out, err
}

// tellOverdue tells the senders of messages that were not acknowledged in time, each once,
// and drops those from the list that are overdue for long.
func (m *Mailroom) tellOverdue(ctx context.Context, store hub.Store, now hub.Time) error {
	// A request is due when its sender must hear of it, or when it leaves the list.
	due := func(a ackRequest) bool {
		return (a.Told.IsZero() && !a.By.After(now.Time)) || now.Sub(a.By.Time) >= overdueFor
	}
	all, err := hub.Read(ctx, store, func(r hub.Reader) ([]ackRequest, error) { return readAckRequests(r) })
	if err != nil {
		return fmt.Errorf("mailroom: overdue: %w", err)
	}
	if !slices.ContainsFunc(all, due) {
		return nil
	}

	// The list is read again: another process may have told the senders meanwhile.
	var told []hub.Message
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		told = nil
		all, err := readAckRequests(tx)
		if err != nil {
			return err
		}
		var keep []ackRequest
		for _, a := range all {
			if now.Sub(a.By.Time) >= overdueFor {
				continue
			}
			if due(a) {
				notice, err := m.noticeOverdue(tx, a)
				if hub.CodeOf(err) == hub.CodeNotFound {
					continue // the message is in an archive
				}
				if err != nil {
					return err
				}
				a.Told = now
				told = append(told, notice)
			}
			keep = append(keep, a)
		}
		return hub.WriteMeta(tx, ackRequestsKey, keep)
	})
	if err != nil {
		return fmt.Errorf("mailroom: overdue: %w", err)
	}
	m.Announce(told...)
	return nil
}

// noticeOverdue writes the hub's message to the sender of an overdue message.
func (m *Mailroom) noticeOverdue(tx hub.Tx, a ackRequest) (hub.Message, error) {
	o, err := overdueOf(tx, a)
	if err != nil {
		return hub.Message{}, err
	}
	text := fmt.Sprintf("%s did not acknowledge your message by %s", JoinTo(o.Missing), a.By)
	if o.Held {
		text += "; it still waits for the operator's approval"
	}
	payload, err := json.Marshal(map[string]any{
		"code": CodeOverdue, "message": text, "message_id": a.ID, "missing": o.Missing,
		hub.NoticeMember: hub.NoticeSubject{Kind: hub.NoticeOverdue, ID: string(a.ID)},
	})
	if err != nil {
		return hub.Message{}, err
	}
	return m.Notify(tx, hub.Envelope{
		To: []hub.AgentID{a.From}, Type: hub.TypeSystemError, ThreadID: o.Message.ThreadID, ReplyTo: a.ID, Payload: payload,
	})
}
