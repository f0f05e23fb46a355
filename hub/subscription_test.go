package hub_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func TestFilterMatches(t *testing.T) {
	e := hub.Envelope{
		From: "ana", Team: "auth", Type: hub.TypeKnowledgePush, Topic: "schema/users", Priority: hub.PriorityHigh,
		Payload: json.RawMessage(`{"topic":"other"}`),
	}
	untitled := e
	untitled.Topic = ""
	for _, c := range []struct {
		name string
		f    hub.Filter
		e    hub.Envelope
		want bool
	}{
		{"any value within one member", hub.Filter{From: []hub.AgentID{"bo", "ana"}}, e, true},
		{"every member must match", hub.Filter{From: []hub.AgentID{"ana"}, Teams: []hub.TeamID{"web"}}, e, false},
		{"a topic", hub.Filter{Topics: []string{"schema/users"}}, e, true},
		{"a prefix of topics", hub.Filter{Topics: []string{"schema/*"}}, e, true},
		{"a prefix ends at a slash", hub.Filter{Topics: []string{"sch/*"}}, e, false},
		{"a topic is no prefix", hub.Filter{Topics: []string{"schema"}}, e, false},
		{"the envelope's topic comes first", hub.Filter{Topics: []string{"other"}}, e, false},
		{"else the payload's topic", hub.Filter{Topics: []string{"other"}}, untitled, true},
		{"a type", hub.Filter{Types: []hub.MessageType{hub.TypeStatusUpdate, hub.TypeKnowledgePush}}, e, true},
		{"the priority itself", hub.Filter{PriorityMin: hub.PriorityHigh}, e, true},
		{"a lower priority", hub.Filter{PriorityMin: hub.PriorityCritical}, e, false},
	} {
		t.Run("R3-170 "+c.name, func(t *testing.T) {
			if got := c.f.Matches(c.e); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
