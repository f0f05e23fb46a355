package acp_test

import (
	"reflect"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// TestUpdate checks that an update reads the same in both versions.
func TestUpdate(t *testing.T) {
	for _, test := range []struct {
		name   string
		v1, v2 string // empty if the version has no such update
		kind   acp.UpdateKind
		text   string
		call   *acp.ToolCall
		plan   []acp.PlanEntry
		usage  *acp.Usage
	}{
		{name: "a chunk of an answer",
			v1:   `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}`,
			v2:   `{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hi"}}`,
			kind: acp.KindAgentMessage, text: "hi"},
		{name: "a whole answer",
			v2:   `{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"hi "},{"type":"image","data":"","mimeType":"image/png"}]}`,
			kind: acp.KindAgentMessage, text: "hi [image]"},
		{name: "a thought",
			v1:   `{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`,
			v2:   `{"sessionUpdate":"agent_thought","messageId":"m","content":[{"type":"text","text":"hm"}]}`,
			kind: acp.KindThought, text: "hm"},
		{name: "content of a type that is not known",
			v1:   `{"sessionUpdate":"user_message_chunk","content":{"type":"smell","strength":3}}`,
			v2:   `{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"type":"smell","strength":3}}`,
			kind: acp.KindUserMessage, text: "[smell]"},
		{name: "a notice",
			v1:   `{"sessionUpdate":"notice","severity":"info","title":"careful"}`,
			v2:   `{"sessionUpdate":"notice","severity":"info","title":"careful"}`,
			kind: acp.KindNotice, text: "careful"},
		{name: "a new tool call",
			v1:   `{"sessionUpdate":"tool_call","toolCallId":"c","title":"look","kind":"read","status":"pending"}`,
			v2:   `{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"look","kind":"read","status":"pending"}`,
			kind: acp.KindToolCall, call: &acp.ToolCall{ID: "c", Title: "look", Kind: "read", Status: "pending"}},
		{name: "what a tool call has put out",
			v1:   `{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"out"}}]}`,
			v2:   `{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"content","content":{"type":"text","text":"out"}}}`,
			kind: acp.KindToolCall, call: &acp.ToolCall{ID: "c", Text: "out"}},
		{name: "a plan",
			v1:   `{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending"}]}`,
			v2:   `{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"a","priority":"high","status":"pending"}]}}`,
			kind: acp.KindPlan, plan: []acp.PlanEntry{{Content: "a", Priority: "high", Status: "pending"}}},
		{name: "a plan of a type that is not known",
			v2: `{"sessionUpdate":"plan_update","plan":{"type":"poem","planId":"p"}}`, kind: acp.KindPlan},
		{name: "usage",
			v1:   `{"sessionUpdate":"usage_update","used":10,"size":100,"cost":{"amount":0.10,"currency":"EUR"}}`,
			v2:   `{"sessionUpdate":"usage_update","used":10,"size":100,"cost":{"amount":0.10,"currency":"EUR"}}`,
			kind: acp.KindUsage, usage: &acp.Usage{Used: 10, Size: 100, Cost: "0.10", Currency: "EUR"}},
		{name: "a state", v2: `{"sessionUpdate":"state_update","state":"running"}`, kind: acp.KindState},
		{name: "a tag of the other version", v2: `{"sessionUpdate":"current_mode_update","currentModeId":"x"}`, kind: acp.KindFuture},
		{name: "a value of somebody's own", v1: `{"sessionUpdate":"_","x":1}`, v2: `{"sessionUpdate":"_","x":1}`, kind: acp.KindExtension},
	} {
		t.Run(test.name, func(t *testing.T) {
			var updates []*acp.Update
			if test.v1 != "" {
				n := &acpv1.SessionNotification{}
				if err := n.UnmarshalJSON([]byte(`{"sessionId":"s","update":` + test.v1 + `}`)); err != nil {
					t.Fatal(err)
				}
				updates = append(updates, &acp.Update{V1: n})
			}
			if test.v2 != "" {
				n := &acpv2.UpdateSessionNotification{}
				if err := n.UnmarshalJSON([]byte(`{"sessionId":"s","update":` + test.v2 + `}`)); err != nil {
					t.Fatal(err)
				}
				updates = append(updates, &acp.Update{V2: n})
			}
			for _, u := range updates {
				if got := u.Kind(); got != test.kind || u.SessionID() != "s" {
					t.Errorf("%s: got the kind %s, want %s", u.Tag(), got, test.kind)
				}
				if got := u.Text(); got != test.text {
					t.Errorf("%s: got the text %q, want %q", u.Tag(), got, test.text)
				}
				if got := u.ToolCall(); !reflect.DeepEqual(got, test.call) {
					t.Errorf("%s: got the call %+v, want %+v", u.Tag(), got, test.call)
				}
				if got := u.Plan(); !reflect.DeepEqual(got, test.plan) {
					t.Errorf("%s: got the plan %+v, want %+v", u.Tag(), got, test.plan)
				}
				if got := u.Usage(); !reflect.DeepEqual(got, test.usage) {
					t.Errorf("%s: got the usage %+v, want %+v", u.Tag(), got, test.usage)
				}
			}
		})
	}
}
