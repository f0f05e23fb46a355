package acpv2_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// A conversation drives a Bridge line by line. Each line is what happens; what the
// client hears of it is written after it.
type conversation struct {
	t *testing.T
	b *acpv2.Bridge
}

func (c *conversation) event(line string) string {
	c.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "prompt":
		return outcome(c.b.Prompt("s"))
	case "accepted":
		return outcome(c.b.Accepted("s"))
	case "refused":
		a, err := c.b.Refused("s", &acpv2.Error{Code: acpv2.ErrorCodeAuthenticationRequired, Message: "log in"})
		if err != nil {
			return "error"
		}
		return c.answer(a)
	case "forget":
		return c.answer(c.b.Forget("s"))
	}
	var n acpv2.UpdateSessionNotification
	if err := n.UnmarshalJSON([]byte(`{"sessionId":"s","update":` + rest + `}`)); err != nil {
		c.t.Fatal(err)
	}
	step, err := c.b.Update(&n)
	if err != nil {
		return "error"
	}
	var out []string
	for _, u := range step.Updates {
		raw := encoded(c.t, u)
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(string(raw), `{"sessionId":"s","update":`), "}"))
	}
	if step.Answer != nil {
		out = append(out, c.answer(step.Answer))
	}
	return strings.Join(out, "\n")
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return ""
}

func (c *conversation) answer(a *acpv2.Answer) string {
	c.t.Helper()
	switch {
	case a == nil:
		return ""
	case a.Result != nil && a.Error == nil:
		return "answer " + string(a.Result.StopReason)
	case a.Error != nil && a.Result == nil:
		return fmt.Sprintf("failure %d %s", a.Error.Code, a.Error.Data)
	}
	c.t.Fatal("an answer is a result or an error")
	return ""
}

func TestBridge(t *testing.T) {
	const (
		running = `update {"sessionUpdate":"state_update","state":"running"}`
		end     = `update {"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`
	)
	idle := func(reason string) string {
		return `update {"sessionUpdate":"state_update","state":"idle","stopReason":"` + reason + `"}`
	}
	tests := []struct {
		name  string
		lines []string // event, what is heard, event, ...
	}{
		{"a prompt is answered when the work is done", []string{
			"prompt", "", "accepted", "", running, "",
			`update {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hi"}}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"},"messageId":"m"}`,
			end, "answer end_turn", end, "", "prompt", "",
		}},
		{"idle before the prompt is accepted belongs to something else", []string{"prompt", "", end, "", "accepted", "", end, "answer end_turn"}},
		{"idle without a prompt is nothing new", []string{end, "", `update {"sessionUpdate":"state_update","state":"idle"}`, ""}},
		{"idle without a reason fails while a prompt waits", []string{
			"prompt", "", "accepted", "", `update {"sessionUpdate":"state_update","state":"idle"}`, "error", end, "answer end_turn",
		}},
		{"a second prompt has to wait", []string{"prompt", "", "prompt", "error", "accepted", "", "prompt", "error", end, "answer end_turn", "prompt", ""}},
		{"nothing is accepted that was not sent", []string{"accepted", "error", "refused", "error"}},
		{"a refusal is the answer", []string{"prompt", "", "refused", "failure -32000 ", "prompt", ""}},
		{"a cancelled turn is answered", []string{"prompt", "", "accepted", "", idle("cancelled"), "answer cancelled"}},
		{"R2-032 an unknown reason is a failure", []string{"prompt", "", "accepted", "", idle("_bored"), `failure -32603 {"stopReason":"_bored"}`}},
		{"an error is a failure", []string{
			"prompt", "", "accepted", "",
			`update {"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":-32022,"message":"m","data":{"a":1.0}}}`,
			`failure -32022 {"a":1.0}`,
		}},
		{"an error without details is a failure", []string{"prompt", "", "accepted", "", idle("error"), `failure -32603 {"stopReason":"error"}`}},
		{"a session that ends answers its prompt", []string{"prompt", "", "forget", "failure -32603 ", "forget", "", "prompt", ""}},
		{"a whole message is a chunk per block, once", []string{
			`update {"sessionUpdate":"user_message","messageId":"u","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
			`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a"},"messageId":"u"}` + "\n" +
				`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"b"},"messageId":"u"}`,
			`update {"sessionUpdate":"user_message","messageId":"u","content":[{"type":"text","text":"c"}]}`, "error",
			`update {"sessionUpdate":"agent_thought_chunk","messageId":"x","content":{"type":"text","text":"a"}}`,
			`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"a"},"messageId":"x"}`,
			`update {"sessionUpdate":"agent_thought","messageId":"x","content":[{"type":"text","text":"c"}]}`, "error",
			`update {"sessionUpdate":"agent_message","messageId":"y","content":[]}`, "error",
			`update {"sessionUpdate":"agent_message","messageId":"y"}`, "error",
		}},
		{"what failed is not remembered", []string{
			`update {"sessionUpdate":"agent_message","messageId":"y","content":[{"type":"_odd"}]}`, "error",
			`update {"sessionUpdate":"agent_message","messageId":"y","content":[{"type":"text","text":"c"}]}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"c"},"messageId":"y"}`,
		}},
		{"a tool call is announced once and its content replaced", []string{
			`update {"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"0"}}}`, "error",
			`update {"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","status":"pending"}`,
			`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","status":"pending"}`,
			`update {"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"1"}}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"content","content":{"type":"text","text":"1"}}]}`,
			`update {"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"2"}}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"content","content":{"type":"text","text":"1"}},{"type":"content","content":{"type":"text","text":"2"}}]}`,
			`update {"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","status":"completed"}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","title":"T"}`,
			`update {"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"3"}}}`, "error",
		}},
		{"a second plan fails", []string{
			`update {"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[]}}`, `{"sessionUpdate":"plan","entries":[]}`,
			`update {"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[]}}`, `{"sessionUpdate":"plan","entries":[]}`,
			`update {"sessionUpdate":"plan_update","plan":{"type":"items","planId":"q","entries":[]}}`, "error",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := &conversation{t, acpv2.NewBridge(nil)}
			for i := 0; i < len(test.lines); i += 2 {
				if got, want := c.event(test.lines[i]), test.lines[i+1]; got != want {
					t.Errorf("%s:\ngot  %s\nwant %s", test.lines[i], got, want)
				}
			}
		})
	}
	t.Run("sessions are bounded", func(t *testing.T) {
		b := acpv2.NewBridge(nil)
		var err error
		for n := 0; n < 20_000 && err == nil; n++ {
			err = b.Prompt(acpv2.SessionID(fmt.Sprint(n)))
		}
		if err == nil {
			t.Fatal("got no error")
		}
		b.Forget("0")
		if err := b.Prompt("one more"); err != nil {
			t.Errorf("got %v after one was forgotten", err)
		}
	})
	t.Run("what a tool call has put out is bounded", func(t *testing.T) {
		c := &conversation{t, acpv2.NewBridge(nil)}
		got := c.event(`update {"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}`)
		for n := 0; n < 2_000 && got != "error"; n++ {
			got = c.event(`update {"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":""}}}`)
		}
		if got != "error" {
			t.Error("got no error")
		}
	})
	t.Run("R2-026 a client hears only of what it has asked for", func(t *testing.T) {
		var client acpv1.ClientCapabilities
		if err := json.Unmarshal([]byte(`{"session":{"notices":{}}}`), &client); err != nil {
			t.Fatal(err)
		}
		c := &conversation{t, acpv2.NewBridge(&acpv2.V1Options{Client: &client})}
		notice := `{"sessionUpdate":"notice","severity":"info","title":"t"}`
		if got := c.event("update " + notice); got != notice {
			t.Errorf("got %q, want %q", got, notice)
		}
		if got := c.event(`update {"sessionUpdate":"compaction_update","compactionId":"c","status":"completed"}`); got != "" {
			t.Errorf("got %q, want nothing", got)
		}
		options := c.event(`update {"sessionUpdate":"config_option_update","configOptions":[{"configId":"b","name":"B","type":"boolean","currentValue":true}]}`)
		if want := `{"sessionUpdate":"config_option_update","configOptions":[]}`; options != want {
			t.Errorf("got %q, want %q", options, want)
		}
	})
}
