package acpv2

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
)

// MetaCarried is the member of _meta that carries a message of version 2 through version 1, for
// a reader behind the client that speaks version 2 again: [RestoreUpdate] reads an update, and the
// member value is any other message. Other readers leave it alone. It has the update or the message as it was; it is empty in the
// further updates of version 1 that one update became.
const MetaCarried = "acp.v2/message"

// carryUpdate lets the updates that n became carry it, unless they are n but for their names. An
// update that became none, but for a loss, is carried by an update of version 1 that changes
// nothing.
func carryUpdate(n *UpdateSessionNotification, step *Step) error {
	if len(step.Updates) == 0 && len(step.Losses) == 0 {
		return nil // version 1 implies it
	}
	if len(step.Updates) == 1 && isPlainChunk(&n.Update) {
		return nil // the usual case, without a comparison
	}
	original, err := acpv1.Marshal(&n.Update)
	if err != nil {
		return err
	}

	if len(step.Updates) == 0 {
		step.Updates = []*acpv1.SessionNotification{{
			SessionID: n.SessionID, Update: acpv1.SessionUpdate{SessionInfoUpdate: &acpv1.SessionInfoUpdate{}}, Meta: n.Meta, Extra: n.Extra,
		}}
	} else if len(step.Updates) == 1 {
		restored, err := RestoreUpdate(step.Updates[0])
		if err == nil && restored != nil {
			raw, err := acpv1.Marshal(&restored.Update)
			if err == nil && equalJSON(raw, original) {
				return nil
			}
		}
	}
	for i, u := range step.Updates {
		if i > 0 {
			original = nil
		}
		raw, err := carryIn(&u.Update, original)
		if err != nil {
			return err
		}
		u.Update = acpv1.SessionUpdate{} // not changed in place: it may share memory with n
		if err := u.Update.UnmarshalJSON(raw); err != nil {
			return err
		}
	}
	return nil
}

// isPlainChunk reports whether an update is a piece of a message with plain text and nothing else.
func isPlainChunk(u *SessionUpdate) bool {
	chunk := cmp.Or(u.UserMessageChunk, u.AgentMessageChunk, u.AgentThoughtChunk)
	return chunk != nil && chunk.Meta == nil && isPlainText(&chunk.Content)
}

// carryMessage lets the converted message carry m, unless it is m but for its type.
func carryMessage(m Message, out *Conversion) error {
	if out.Message == nil {
		return nil
	}
	original, err := acpv1.Marshal(m)
	if err != nil {
		return err
	}
	converted, err := acpv1.Marshal(out.Message)
	if err != nil || (equalJSON(converted, original) && carried(converted) == nil) {
		return err
	}

	raw, err := carryIn(out.Message, original)
	if err != nil {
		return err
	}
	// The message is replaced, not changed: it may be m itself.
	fresh := reflect.New(reflect.TypeOf(out.Message).Elem()).Interface().(acpv1.Message)
	out.Message = fresh
	return fresh.UnmarshalJSON(raw)
}

// carryIn returns a value of version 1 whose _meta carries one of version 2; nothing if that is nil.
func carryIn(v acpv1.Value, original json.RawMessage) (json.RawMessage, error) {
	raw, err := acpv1.Marshal(v)
	if err != nil {
		return nil, err
	}
	var members, meta map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	if isObject(members["_meta"]) {
		if err := json.Unmarshal(members["_meta"], &meta); err != nil {
			return nil, err
		}
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	if meta[MetaCarried], err = json.Marshal(carriage{original}); err != nil {
		return nil, err
	}
	if members["_meta"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// A carriage is the value of MetaCarried.
type carriage struct {
	Value json.RawMessage `json:"value,omitempty"`
}

// carried returns what the _meta of a message of version 1 carries, nil if it carries nothing.
func carried(raw json.RawMessage) *carriage {
	var m struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if !bytes.Contains(raw, []byte(MetaCarried)) || json.Unmarshal(raw, &m) != nil || m.Meta[MetaCarried] == nil {
		return nil
	}
	var c carriage
	if json.Unmarshal(m.Meta[MetaCarried], &c) != nil {
		return nil
	}
	return &c
}

// RestoreUpdate returns the update of version 2 that a [Bridge] with V1Options.Carry made n of. It
// returns nil for the further updates that one update became. An update that carries nothing is
// read as one of version 2.
func RestoreUpdate(n *acpv1.SessionNotification) (*UpdateSessionNotification, error) {
	raw, err := acpv1.Marshal(&n.Update)
	if err != nil {
		return nil, err
	}
	c := carried(raw)
	switch {
	case c != nil && c.Value == nil:
		return nil, nil
	case c != nil:
		raw = c.Value
	case n.Update.ToolCall != nil:
		raw = bytes.Replace(raw, []byte(`"tool_call"`), []byte(`"tool_call_update"`), 1) // the tag is the first member
	}
	out := &UpdateSessionNotification{SessionID: n.SessionID, Meta: n.Meta, Extra: n.Extra}
	if err := acpv1.Unmarshal(raw, &out.Update); err != nil {
		return nil, fmt.Errorf("acp: restore %s: %w", n.Update.Tag(), err)
	}
	return out, nil
}

// equalJSON reports whether two texts are the same value, digit by digit.
func equalJSON(a, b []byte) bool {
	var x, y any
	for raw, v := range map[*[]byte]*any{&a: &x, &b: &y} {
		dec := json.NewDecoder(bytes.NewReader(*raw))
		dec.UseNumber()
		if dec.Decode(v) != nil {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}
