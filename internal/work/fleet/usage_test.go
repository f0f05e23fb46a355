package fleet

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
)

// TestMeter reads the counts of agents as they were measured: the same words mean different
// things in different agents.
func TestMeter(t *testing.T) {
	apart := hub.Tokens{Input: 933, Output: 567, CachedRead: 301, Reasoning: 33}
	for _, tt := range []struct {
		name   string
		chunks []string // _meta of chunks
		usage  string   // in the answer
		meta   string
		want   []hub.ModelCall
	}{
		{
			name:  "claude: cached tokens apart",
			usage: `{"inputTokens":8638,"outputTokens":3969,"cachedReadTokens":2107,"cachedWriteTokens":539,"totalTokens":15253}`,
			want:  []hub.ModelCall{{Tokens: hub.Tokens{Input: 8638, Output: 3969, CachedRead: 2107, CachedWrite: 539}}},
		},
		{
			name:  "codex: cached tokens apart, the model beside",
			usage: `{"totalTokens":10806,"inputTokens":5598,"cachedReadTokens":1806,"cachedWriteTokens":0,"outputTokens":3402,"thoughtTokens":198}`,
			meta:  `{"quota":{"token_count":{"totalTokens":10806},"model_usage":[{"model":"gpt-5.5","token_count":{"inputTokens":5598}}]}}`,
			want:  []hub.ModelCall{{Model: "gpt-5.5", Tokens: hub.Tokens{Input: 5598, Output: 3402, CachedRead: 1806, Reasoning: 198}}},
		},
		{
			name:  "opencode: thoughts apart",
			usage: `{"inputTokens":933,"outputTokens":534,"totalTokens":1801,"thoughtTokens":33,"cachedReadTokens":301}`,
			want:  []hub.ModelCall{{Tokens: apart}},
		},
		{
			name:  "copilot: cached tokens in the input",
			usage: `{"inputTokens":3702,"outputTokens":1701,"totalTokens":5403,"thoughtTokens":99,"cachedReadTokens":903,"cachedWriteTokens":0}`,
			want:  []hub.ModelCall{{Tokens: hub.Tokens{Input: 2799, Output: 1701, CachedRead: 903, Reasoning: 99}}},
		},
		{
			name: "gemini: by model, in meta",
			meta: `{"quota":{"token_count":{"input_tokens":7404,"output_tokens":3402},"model_usage":[{"model":"gemini-2.5-pro","token_count":{"input_tokens":7404,"output_tokens":3402}}]}}`,
			want: []hub.ModelCall{{Model: "gemini-2.5-pro", Tokens: hub.Tokens{Input: 7404, Output: 3402}}},
		},
		{
			name:   "qwen: by call, in chunks",
			chunks: []string{`{"usage":{"inputTokens":1234,"outputTokens":567,"totalTokens":1801,"thoughtTokens":33,"cachedReadTokens":301},"durationMs":4}`, `{"usage":{"inputTokens":1234,"outputTokens":567,"totalTokens":1801,"thoughtTokens":33,"cachedReadTokens":301}}`},
			want:   []hub.ModelCall{{Tokens: apart}, {Tokens: apart}},
		},
		{name: "negative", usage: `{"inputTokens":-5,"outputTokens":1}`},
		{name: "absurd", usage: `{"inputTokens":1,"outputTokens":99999999999}`},
		{name: "a sum that looks right", usage: `{"inputTokens":-9223372036854775808,"input_tokens":-9223372036854775808,"outputTokens":1}`},
		{name: "no number", usage: `{"inputTokens":"many"}`},
		{name: "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m meter
			for _, meta := range tt.chunks {
				chunk := &acpv1.ContentChunk{Meta: json.RawMessage(meta)}
				m.update(&acp.Update{V1: &acpv1.SessionNotification{Update: acpv1.SessionUpdate{AgentMessageChunk: chunk}}})
			}
			answer := &acpv1.PromptResponse{Meta: json.RawMessage(tt.meta)}
			if tt.usage != "" {
				answer.Extra.Set("usage", json.RawMessage(tt.usage))
			}
			m.result(acp.Result{V1: answer})
			if got := m.calls(); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestUsageSoFar reads the usage of a turn that runs, from what agents tell before its end.
func TestUsageSoFar(t *testing.T) {
	level := func(used uint64) *acp.Update {
		return &acp.Update{V1: &acpv1.SessionNotification{Update: acpv1.SessionUpdate{UsageUpdate: &acpv1.UsageUpdate{Used: used, Size: 200_000}}}}
	}
	tool := func(status string) *acp.Update {
		return &acp.Update{V1: &acpv1.SessionNotification{Update: acpv1.SessionUpdate{ToolCallUpdate: &acpv1.ToolCallUpdate{ToolCallID: "1", Status: acpv1.Set(acpv1.ToolCallStatus(status))}}}}
	}
	for _, tt := range []struct {
		name    string
		updates []*acp.Update
		want    hub.Tokens
	}{
		{"one call, whose level grows", []*acp.Update{level(1000), level(1100)}, hub.Tokens{Input: 1100}},
		{"a second call after a tool call reads the first one from the cache", []*acp.Update{level(1000), level(1100), tool("in_progress"), tool("completed"), level(1300)}, hub.Tokens{Input: 1300, CachedRead: 1100}},
		{"two tool calls of one model call, and its level again", []*acp.Update{level(1100), tool("completed"), tool("failed"), level(1100)}, hub.Tokens{Input: 1100}},
		{"an equal level of the next model call", []*acp.Update{level(1100), tool("completed"), tool("in_progress"), level(1100)}, hub.Tokens{Input: 1100, CachedRead: 1100}},
		{"a smaller context", []*acp.Update{level(1100), tool("completed"), level(200)}, hub.Tokens{Input: 1100, CachedRead: 200}},
		{"nothing", []*acp.Update{tool("completed")}, hub.Tokens{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &Agent{}
			for _, u := range tt.updates {
				a.meter.update(u)
			}
			var got hub.Tokens
			for _, c := range a.UsageSoFar(true) {
				got = got.Plus(c.Tokens)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if other := a.UsageSoFar(false); len(other) != 0 {
				t.Errorf("levels of an agent that tells others: got %+v", other)
			}
		})
	}
}

// TestTakeUsage counts the cost of a session once: agents tell its total.
func TestTakeUsage(t *testing.T) {
	told := func(a *Agent, total string) []hub.ModelCall {
		a.meter.update(&acp.Update{V1: &acpv1.SessionNotification{Update: acpv1.SessionUpdate{UsageUpdate: &acpv1.UsageUpdate{
			Used: 5000, Size: 200000, Cost: acpv1.Set(acpv1.Cost{Amount: json.Number(total), Currency: "USD"}),
		}}}})
		a.used = []hub.ModelCall{{Tokens: hub.Tokens{Input: 1}}}
		return a.TakeUsage()
	}
	a := &Agent{}
	for i, want := range []int64{100_000, 50_000, 0} {
		got := told(a, []string{"0.1", "0.15", "0.15"}[i])
		if len(got) != 1 || got[0].ID != "1" || got[0].Cost != want {
			t.Errorf("turn %d: got %+v, want %d", i, got, want)
		}
	}
	resumed := &Agent{resumed: true}
	if got := told(resumed, "7"); got[0].Cost != 0 {
		t.Errorf("a session that was taken up again has the cost of turns before: %+v", got)
	}
	if got := told(resumed, "7.5"); got[0].Cost != 500_000 {
		t.Errorf("its next turn: %+v", got)
	}
}
