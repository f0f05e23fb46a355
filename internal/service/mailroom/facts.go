package mailroom

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// Facts returns the members of a JSON object as words: name and value of each, without hashes
// and without ids that have no short form. Anything else is returned as it is.
func (t Text) Facts(raw json.RawMessage) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return string(raw)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := t.Fact(all[name])
		if text != "" && !strings.HasSuffix(name, "sha256") {
			parts = append(parts, strings.ReplaceAll(name, "_", " ")+" "+text)
		}
	}
	return strings.Join(parts, ", ")
}

// Fact returns a value of JSON as words, "" for one that says nothing to a person.
func (t Text) Fact(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if at, err := time.Parse(time.RFC3339, s); err == nil && t.When != nil {
			return t.When(hub.At(at))
		}
		if id := t.Short.Of(s); !anyID().MatchString(id) {
			return id
		}
		return ""
	}

	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		var parts []string
		for _, v := range list {
			if text := t.Fact(v); text != "" {
				parts = append(parts, text)
			}
		}
		return strings.Join(parts, " ")
	}

	var inner map[string]json.RawMessage
	if json.Unmarshal(raw, &inner) == nil {
		if text := t.Facts(raw); text != "" {
			return "(" + text + ")"
		}
		return ""
	}
	return string(raw)
}

// anyID finds an id in full.
var anyID = pattern.New(`^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// words returns the members of a payload without a text as words. A payload with one member is
// the value of that member.
func (s ShortIDs) words(payload json.RawMessage) string {
	t := Text{Short: s}
	var only map[string]json.RawMessage
	if json.Unmarshal(payload, &only) == nil && len(only) == 1 {
		for _, value := range only {
			return t.Fact(value)
		}
	}
	return t.Facts(payload)
}

// move returns a sentence about a handoff that was accepted or completed without a text; "" for
// every other message.
func (s ShortIDs) move(e hub.Envelope) string {
	verb := ""
	switch e.Type {
	case hub.TypeHandoffAccept:
		verb = "accepted"
	case hub.TypeHandoffComplete:
		verb = "completed"
	default:
		return ""
	}
	var p struct {
		Proof hub.Proof `json:"proof"`
	}
	if json.Unmarshal(e.Payload, &p) != nil {
		return ""
	}
	what := "the handoff"
	if short, ok := s[string(HandoffOf(e))]; ok {
		what = string(short)
	}
	text := verb + " " + what
	if p.Proof != "" {
		text += ", " + string(p.Proof)
	}
	return text
}
