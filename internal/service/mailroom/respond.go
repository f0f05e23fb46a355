package mailroom

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/strictjson"
)

// Respond answers a message: thread, recipients and, unless given, the type
// follow from the message that d.ReplyTo names.
func (m *Mailroom) Respond(ctx context.Context, actor hub.Caller, d Draft) (Receipt, error) {
	const op = "mailroom.Respond"
	if d.ReplyTo == "" {
		return Receipt{}, hub.Errorf(hub.CodeInvalid, op, "reply_to: missing").WithHint("name the message that you answer")
	}
	if len(d.To) > 0 {
		return Receipt{}, hub.Errorf(hub.CodeInvalid, op, "to: a response goes to the sender of what it answers").
			WithHint("use acp_send with reply_to to write to others")
	}
	var parent hub.Message
	err := m.store.View(ctx, func(r hub.Reader) (err error) {
		parent, err = m.visible(r, op, actor, d.ReplyTo)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("mailroom: respond: %w", err)
	}
	d.To = []hub.AgentID{parent.From}
	if parent.From == actor.ID {
		// Following up on one's own message: it goes where that one went.
		d.To = slices.DeleteFunc(slices.Clone(parent.To), func(id hub.AgentID) bool { return id == actor.ID })
	}
	if parent.From == hub.Self {
		return Receipt{}, hub.Errorf(hub.CodePolicy, op, "%s is from the hub itself and is not answered", parent.ID)
	}
	if d.Type == "" {
		d.Type = hub.TypeStatusUpdate
		if parent.Type == hub.TypeKnowledgeQuery {
			d.Type = hub.TypeKnowledgeResponse
		}
	}
	if d.Priority == "" {
		d.Priority = parent.Priority
	}
	return m.Send(ctx, actor, d)
}

// A Report is a word about how work goes.
type Report struct {
	State    string   // update, blocked or complete
	Summary  string   // at most 280 characters; longer text is cut and kept whole as detail
	Detail   string   // optional
	Progress *int     // percent; optional
	Blockers []string // what stands in the way
	Draft    Draft    // everything else; To empty means the coordinators
}

// Status tells the coordinators, or those named, how work goes.
func (m *Mailroom) Status(ctx context.Context, actor hub.Caller, r Report) (Receipt, error) {
	const op = "mailroom.Status"
	t := hub.MessageType("status." + r.State)
	if !slices.Contains([]hub.MessageType{hub.TypeStatusUpdate, hub.TypeStatusBlocked, hub.TypeStatusComplete}, t) {
		return Receipt{}, hub.Errorf(hub.CodeInvalid, op, "state: %q is not one of update, blocked, complete", r.State)
	}
	if r.Summary == "" {
		return Receipt{}, hub.Errorf(hub.CodeInvalid, op, "summary: missing").WithHint("say in a sentence how the work stands")
	}
	d := r.Draft
	d.Type, d.Text = t, ""
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
	if len(d.To) == 0 {
		err := m.store.View(ctx, func(rd hub.Reader) (err error) {
			d.To, err = coordinators(rd, actor.ID)
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
