package mailroom

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// TypeOfText returns the type of a plain text without one: a question ends with a
// question mark.
func TypeOfText(text string) hub.MessageType {
	if strings.HasSuffix(strings.TrimSpace(text), "?") {
		return hub.TypeKnowledgeQuery
	}
	return hub.TypeStatusUpdate
}

// Respond answers the message d.ReplyTo: thread, recipients and, unless given, the
// type are those that fit it.
func (m *Mailroom) Respond(ctx context.Context, actor hub.Caller, d Draft) (Receipt, error) {
	const op = "mailroom.Respond"
	if d.ReplyTo == "" {
		return Receipt{}, hub.Errorf(hub.CodeInvalid, op, "reply_to is required").WithHint("name the message to answer")
	}
	if len(d.To) > 0 {
		return Receipt{}, hub.Errorf(hub.CodeInvalid, op, "to cannot be set: a response goes to the sender of the message it answers").
			WithHint("to write to other agents, use {send} with reply_to")
	}

	var parent hub.Message
	err := m.store.View(ctx, func(r hub.Reader) (err error) {
		if parent, err = m.visible(r, op, actor, d.ReplyTo); err == nil {
			err = answerable(op, parent)
		}
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("mailroom: respond: %w", err)
	}

	d.To = []hub.AgentID{parent.From}
	if parent.From == actor.ID {
		// A follow-up to an own message goes to the recipients of that message.
		d.To = slices.DeleteFunc(slices.Clone(parent.To), func(id hub.AgentID) bool { return id == actor.ID })
	}

	if parent.From == hub.Self {
		return Receipt{}, hub.Errorf(hub.CodePolicy, op, "%s is from the hub and cannot be answered", parent.ID)
	}
	if err := answerable(op, parent); err != nil {
		return Receipt{}, err // before its sender is looked up: an event from outside has none
	}

	if d.Type == "" {
		d.Type = TypeOfText(d.Text)
		if parent.Type == hub.TypeKnowledgeQuery {
			d.Type = hub.TypeKnowledgeResponse
		}
	}
	return m.Send(ctx, actor, d)
}

// A Report is the status of the work of an agent.
type Report struct {
	State    string   // update, blocked or complete
	Summary  string   // at most 280 characters; longer text is cut and kept whole as detail
	Detail   string   // optional
	Progress *int     // percent; optional
	Blockers []string // the causes of a blocked state
	Draft    Draft    // everything else; To empty means the coordinators
}

// Status sends the status of work to the coordinators, or to the named recipients.
func (m *Mailroom) Status(ctx context.Context, actor hub.Caller, r Report) (Receipt, error) {
	const op = "mailroom.Status"
	t := hub.MessageType("status." + r.State)
	if !slices.Contains([]hub.MessageType{hub.TypeStatusUpdate, hub.TypeStatusBlocked, hub.TypeStatusComplete}, t) {
		return Receipt{}, hub.Errorf(hub.CodeInvalid, op, "unknown state %q: use update, blocked or complete", r.State)
	}
	if r.Summary == "" {
		return Receipt{}, hub.Errorf(hub.CodeInvalid, op, "summary is required").WithHint("describe the state of the work in a sentence")
	}

	// A text that is too long for the payload is stored whole; a message has room for one such
	// text.
	d := r.Draft
	d.Type, d.Text = t, ""
	for _, text := range []*string{&r.Summary, &r.Detail} {
		long, err := m.longText(op, text)
		if err != nil {
			return Receipt{}, err
		}
		if long != "" && d.Long != "" {
			return Receipt{}, hub.Errorf(hub.CodePayloadTooLarge, op, "summary and detail cannot both be longer than %d bytes", hub.MaxPayload).
				WithHint("shorten the summary")
		}
		d.Long = cmp.Or(long, d.Long)
	}

	payload, err := textPayload(op, Draft{Type: t, Text: r.Summary})
	if err != nil {
		return Receipt{}, err
	}
	if r.Detail != "" {
		payload["detail"] = r.Detail
	}
	if r.Progress != nil {
		payload["progress_pct"] = *r.Progress
	}
	if len(r.Blockers) > 0 {
		payload["blockers"] = r.Blockers
	}
	if d.Payload, err = strictjson.ValueOf(payload); err != nil {
		return Receipt{}, err
	}

	// A status without recipients goes to coordinators; that of a blocked agent to those of the
	// teams in which it has work.
	if len(d.To) == 0 {
		err := m.store.View(ctx, func(rd hub.Reader) (err error) {
			if t == hub.TypeStatusBlocked && d.Team == "" {
				if d.To, err = blockedTo(rd, actor.ID); err != nil || len(d.To) > 0 {
					return err
				}
			}
			d.To, err = coordinatorsOf(rd, d.Team, actor.ID)
			return err
		})
		if err != nil {
			return Receipt{}, fmt.Errorf("mailroom: status: %w", err)
		}
		if len(d.To) > m.limits.Recipients {
			d.To = d.To[:m.limits.Recipients]
		}
	}

	return m.Send(ctx, actor, d)
}
