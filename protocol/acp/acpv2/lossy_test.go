package acpv2_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// TestLossy converts messages with an unknown value, X, in lossy mode. A value with a leading
// underscore and one without are treated alike, and a row of the table of fallbacks that does
// not say fail costs no more than the value.
func TestLossy(t *testing.T) {
	const message, fails, none = "UpdateSessionNotification", "error", "none"
	update := func(s string) string { return `{"sessionId":"s","update":` + s + `}` }
	entry := func(priority, status string) string {
		return `{"content":"a","priority":"` + priority + `","status":"` + status + `"}`
	}
	plan := func(entries string) string {
		return update(`{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[` + entries + `]}}`)
	}
	call := func(rest string) string {
		return update(`{"sessionUpdate":"tool_call_update","toolCallId":"c",` + rest + `}`)
	}
	form := func(property string) string {
		return `{"sessionId":"s","message":"m","mode":"form","requestedSchema":{"type":"object","properties":{"a":` + property + `}}}`
	}
	for _, tt := range []struct {
		definition, member string // the row of the table
		in                 string // the definition of the message
		input              string
		want               string // a part of the message in version 1
	}{
		{"PlanEntry", "priority", message, plan(entry("X", "pending") + "," + entry("low", "completed")), entry("medium", "pending") + "," + entry("low", "completed")},
		{"PlanEntry", "status", message, plan(entry("low", "X")), entry("low", "pending")},
		{"PlanUpdate", "plan", message, update(`{"sessionUpdate":"plan_update","plan":{"type":"X","planId":"p"}}`), `"entries":[{"content":"[plan: X]"`},
		{"ToolCallUpdate", "status", message, call(`"status":"X"`), `"status":"in_progress"`},
		{"ToolCallUpdate", "kind", message, call(`"kind":"X"`), `"kind":"other"`},
		{"ToolCallUpdate", "content", message, call(`"content":[{"type":"X"},{"type":"content","content":{"type":"text","text":"t"}}]`), `{"type":"text","text":"[X]"}},{"type":"content","content":{"type":"text","text":"t"}}`},
		{"Diff", "changes", message, call(`"content":[{"type":"diff","changes":[{"operation":"X"}]}]`), `"text":"[diff]"`},
		{"Content", "content", message, call(`"content":[{"type":"content","content":{"type":"X"}}]`), `"text":"[X]"`},
		{"ContentChunk", "content", message, update(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"X"}}`), `"text":"[X]"`},
		{"Annotations", "audience", message, update(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"t","annotations":{"audience":["X","user"]}}}`), `"annotations":{"audience":["user"]}`},
		{"Annotations", "audience", message, update(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"t","annotations":{"audience":["X"]}}}`), `"annotations":{}`},
		{"UpdateSessionNotification", "update", message, update(`{"sessionUpdate":"X"}`), none},
		{"SessionUpdate", "state_update", message, update(`{"sessionUpdate":"state_update","state":"X"}`), none},
		{"Notice", "severity", message, update(`{"sessionUpdate":"notice","severity":"X","title":"t"}`), `"severity":"X"`},
		{"CompactionUpdate", "status", message, update(`{"sessionUpdate":"compaction_update","compactionId":"c","status":"X"}`), `"status":"X"`},
		{"CompactionUpdate", "summary", message, update(`{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed","summary":[{"type":"X"}]}`), `"text":"[X]"`},
		{"AvailableCommandsUpdate", "availableCommands", message, update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"X","name":"n","description":"d"}]}`), `"availableCommands":[]`},
		{"Command", "input", message, update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"command","name":"n","description":"d","input":{"type":"X"}}]}`), `[{"name":"n","description":"d"}]`},
		{"SessionConfigOption", "type", message, update(`{"sessionUpdate":"config_option_update","configOptions":[{"configId":"c","name":"n","type":"X"}]}`), `"configOptions":[]`},
		{"SessionConfigOption", "category", message, update(`{"sessionUpdate":"config_option_update","configOptions":[{"configId":"c","name":"n","type":"select","category":"X","currentValue":"a","options":[]}]}`), `"category":"X"`},
		{"InitializeResponse", "authMethods", "InitializeResponse", `{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{"mcp":{"stdio":{}}}},"authMethods":[{"type":"X","methodId":"a","name":"n"}]}`, `"authMethods":[]`},
		{"RequestPermissionRequest", "subject", "RequestPermissionRequest", `{"sessionId":"s","title":"t","subject":{"type":"X"},"options":[]}`, `"title":"t"`},
		{"StringPropertySchema", "format", "CreateElicitationRequest", form(`{"type":"string","format":"X"}`), `{"a":{"type":"string"}}`},

		{"PermissionOption", "kind", "RequestPermissionRequest", `{"sessionId":"s","title":"t","subject":{"type":"tool_call","toolCall":{"toolCallId":"c"}},"options":[{"optionId":"o","name":"n","kind":"X"}]}`, fails},
		{"RequestPermissionResponse", "outcome", "RequestPermissionResponse", `{"outcome":{"outcome":"X"}}`, fails},
		{"PromptRequest", "prompt", "PromptRequest", `{"sessionId":"s","prompt":[{"type":"X"}]}`, fails},
		{"NewSessionRequest", "mcpServers", "NewSessionRequest", `{"cwd":"/","mcpServers":[{"type":"X"}]}`, fails},
	} {
		t.Run("R2-024 "+tt.definition+"."+tt.member, func(t *testing.T) {
			if row, ok := acpv2.FallbackFor(tt.definition, tt.member); !ok || (row == acpv2.FallbackFail) != (tt.want == fails) {
				t.Errorf("the table says %q", row)
			}
			for _, word := range []string{"later", "_own"} {
				value, _ := acpv2.New(tt.in)
				if err := acpv1.Unmarshal([]byte(strings.ReplaceAll(tt.input, "X", word)), value); err != nil {
					t.Fatal(err)
				}
				got, want := fails, strings.ReplaceAll(tt.want, "X", word)
				out, err := acpv2.ToV1(value.(acpv2.Message), &acpv2.V1Options{Lossy: true, SessionID: "s"})
				switch {
				case err != nil:
				case out.Message == nil:
					got = none
				default:
					got = string(encoded(t, out.Message))
				}
				if !strings.Contains(got, want) {
					t.Errorf("%s: got %s, %v; want %s", word, got, err, want)
				}
				if err == nil && !strings.Contains(got, `"`+word+`"`) && len(out.Notes) == 0 {
					t.Errorf("%s: the value is lost without a note", word)
				}
			}
		})
	}
	t.Run("R2-024 two plans are sent as one", func(t *testing.T) {
		c := &conversation{t, acpv2.NewBridge(&acpv2.V1Options{Lossy: true})}
		plan := func(id, entry string) string {
			return `update {"sessionUpdate":"plan_update","plan":{"type":"items","planId":"` + id + `","entries":[` + entry + `]}}`
		}
		first, second, third := entry("low", "pending"), entry("high", "pending"), entry("low", "completed")
		for _, step := range [][2]string{{plan("p", first), first}, {plan("q", second), first + "," + second}, {plan("p", third), third + "," + second}} {
			if got, want := c.event(step[0]), `{"sessionUpdate":"plan","entries":[`+step[1]+`]}`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}
