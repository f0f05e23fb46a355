package mailroom

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// The members of payloads that name messages.
var (
	messageMembers = []string{"offer_id", "position_id", "challenge_id", "revises", "query_id", "message_id", "thread_id"}
	listMembers    = []string{"position_ids"}
)

// namedIn returns the ids of messages and handoffs that a payload names.
func namedIn(payload json.RawMessage) []string {
	var out []string
	for name, value := range strictjson.Members(payload) {
		var one string
		var many []string
		switch {
		case name == "handoff_id" || slices.Contains(messageMembers, name):
			json.Unmarshal(value.Raw(), &one) // a value that is no text names nothing
		case slices.Contains(listMembers, name):
			json.Unmarshal(value.Raw(), &many)
		}
		if one != "" {
			many = append(many, one)
		}
		out = append(out, many...)
	}
	return out
}

// A reference holds the members of payloads that follow from the message that a draft
// answers. An empty member is not known.
type reference struct {
	Offer     string
	Position  string // the position that is answered
	Challenge string // the last challenge of that position
}

// members returns the members of a payload of a type that the reference fills in.
func (f reference) members(t hub.MessageType) map[string]any {
	out := map[string]any{}
	set := func(name, id string) {
		if id != "" {
			out[name] = id
		}
	}
	switch t {
	case hub.TypeTaskAccept, hub.TypeTaskDecline, hub.TypeTaskCounter:
		set("offer_id", f.Offer)
	case hub.TypePositionState:
		set("revises", f.Challenge)
	case hub.TypePositionChallenge:
		set("position_id", f.Position)
	case hub.TypePositionConcede:
		set("position_id", f.Position)
		set("challenge_id", f.Challenge)
	case hub.TypePositionEscalate:
		ids := slices.DeleteFunc([]string{f.Position, f.Challenge}, func(id string) bool { return id == "" })
		if len(ids) > 0 {
			out["position_ids"] = ids
		}
	}
	return out
}

// referenceOf returns the reference of a draft that answers parent.
func referenceOf(parent hub.Message) reference {
	var p struct {
		Revises   string `json:"revises"`
		Position  string `json:"position_id"`
		Challenge string `json:"challenge_id"`
	}
	json.Unmarshal(parent.Payload, &p) // it was checked when it was sent
	out := reference{Offer: parent.ThreadID, Position: parent.ThreadID}
	switch parent.Type {
	case hub.TypePositionState:
		out.Position, out.Challenge = string(parent.ID), p.Revises
	case hub.TypePositionChallenge:
		out.Position, out.Challenge = cmp.Or(p.Position, out.Position), string(parent.ID)
	case hub.TypePositionConcede:
		out.Position, out.Challenge = cmp.Or(p.Position, out.Position), p.Challenge
	}
	return out
}

// refer completes the payload of a draft that belongs to a negotiation or disagreement:
// short ids in it become ids, and the ids that it leaves out are those of the message in
// reply_to. For plain text it notes the offer.
func (m *Mailroom) refer(ctx context.Context, op string, actor hub.Caller, d *Draft) error {
	if !d.Type.Known() || !d.Type.Negotiates() || d.Type == hub.TypeTaskOffer {
		return nil
	}
	if d.Text != "" && d.ReplyTo == "" && d.Type.Feature() == hub.FeatureNegotiation {
		return hub.Errorf(hub.CodeInvalid, op, "reply_to is required").WithHint("name the offer in reply_to, or use {respond}")
	}
	var from reference
	if d.ReplyTo != "" {
		err := m.store.View(ctx, func(r hub.Reader) error {
			parent, err := m.visible(r, op, actor, d.ReplyTo)
			from = referenceOf(parent)
			return err
		})
		if err != nil {
			return err
		}
	}
	d.anchor = from.Offer
	if !d.Payload.IsObject() {
		return nil
	}
	return m.completePayload(ctx, op, actor, d, from.members(d.Type))
}

// completePayload resolves the short ids in the payload of a draft, and adds the members
// that it does not have. A payload without either keeps its bytes.
func (m *Mailroom) completePayload(ctx context.Context, op string, actor hub.Caller, d *Draft, missing map[string]any) error {
	if _, err := strictjson.ParseObject(d.Payload.Raw()); err != nil {
		return nil // the checks of the payload say what is wrong
	}

	// Members that name messages may hold short ids; the full ids replace them.
	changed := map[string]any{}
	for name, value := range strictjson.Members(d.Payload.Raw()) {
		delete(missing, name)
		var one string
		var many []string
		switch {
		case slices.Contains(messageMembers, name) && json.Unmarshal(value.Raw(), &one) == nil:
			id, err := m.Resolve(ctx, op, actor, hub.EnvelopeID(one))
			if err != nil {
				return err
			}
			if string(id) != one {
				changed[name] = id
			}
		case slices.Contains(listMembers, name) && json.Unmarshal(value.Raw(), &many) == nil:
			for i, one := range many {
				id, err := m.Resolve(ctx, op, actor, hub.EnvelopeID(one))
				if err != nil {
					return err
				}
				many[i] = string(id)
			}
			changed[name] = many
		}
	}
	if len(changed)+len(missing) == 0 {
		return nil
	}

	// The payload is encoded anew only if a member changes or is added.
	var all map[string]json.RawMessage
	if err := json.Unmarshal(d.Payload.Raw(), &all); err != nil {
		return err
	}
	for _, members := range []map[string]any{changed, missing} {
		for name, value := range members {
			raw, err := json.Marshal(value)
			if err != nil {
				return err
			}
			all[name] = raw
		}
	}
	payload, err := strictjson.ValueOf(all)
	d.Payload = payload
	return err
}
