package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func TestHandoffMessage(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	keys := r.add(t, "alice", "bob")
	const good = `{"action":"initiate","to":"bob","task_id":"T-1","title":"t","summary":"the schema is frozen","next_step":"n","success_criteria":["c"]}`
	t.Run("R3-034 a handoff that is refused leaves neither a handoff nor a message", func(t *testing.T) {
		before := r.tables(t)
		for _, params := range []string{
			`{"action":"initiate","to":"bob","task_id":"T-1","title":"t","next_step":"n","success_criteria":["c"]}`,
			`{"action":"initiate","to":"carol","task_id":"T-1","title":"t","summary":"s","next_step":"n","success_criteria":["c"]}`,
		} {
			if a := r.call(t, keys[0], "acp/handoff", params); a.Error == nil {
				t.Errorf("%s was taken", params)
			}
		}
		r.call(t, keys[0], "acp/send", `{"to":["bob"],"type":"handoff.initiate","payload":{"summary":"s"}}`).wantError(t, -32602, hub.CodeReservedType)
		r.wantSame(t, before)
	})
	t.Run("R3-034 a handoff that is initiated is in the list of its receiver, and a message about it in the inbox", func(t *testing.T) {
		var made struct {
			ID hub.HandoffID `json:"handoff_id"`
		}
		r.call(t, keys[0], "acp/handoff", good).wantOK(t, &made)
		in := must(rpc.Call(t.Context(), r.as(keys[1]), api.Inbox, api.InboxParams{}))(t)
		if len(in.Messages) != 1 || in.Messages[0].Type != hub.TypeHandoffInitiate || in.Messages[0].From != "alice" {
			t.Fatalf("inbox: got %+v, want one handoff.initiate of alice", in.Messages)
		}
		var payload struct {
			HandoffID hub.HandoffID `json:"handoff_id"`
			Summary   string        `json:"summary"`
		}
		if err := json.Unmarshal(in.Messages[0].Payload, &payload); err != nil || payload.HandoffID != made.ID || payload.Summary != "the schema is frozen" {
			t.Errorf("payload: got %s (%v), want the handoff %s with its summary", in.Messages[0].Payload, err, made.ID)
		}
		var shown struct {
			Status hub.HandoffState `json:"status"`
		}
		r.call(t, keys[1], "acp/handoff", `{"action":"show","handoff_id":"`+string(made.ID)+`"}`).wantOK(t, &shown)
		if shown.Status != hub.HandoffProposed {
			t.Errorf("show: got %q, want %q", shown.Status, hub.HandoffProposed)
		}
	})
	t.Run("an expectation that cannot be met is refused, and leaves no handoff", func(t *testing.T) {
		before := r.tables(t)
		for name, expect := range map[string]string{
			"a path that leads out": `{"paths":["../a.go"]}`,
			"an absolute path":      `{"paths":["/etc/passwd"]}`,
			"an empty path":         `{"paths":[""]}`,
			"a hidden character":    `{"paths":["a\u200b.go"]}`,
			"a number":              `{"paths":[7]}`,
			"another member":        `{"merge":true,"tests":true}`,
			"a text":                `"a.go"`,
			"too many":              `{"paths":[` + strings.Repeat(`"a.go",`, 100) + `"a.go"]}`,
		} {
			params := strings.TrimSuffix(good, "}") + `,"unproven":"elsewhere","package":{"expect":` + expect + `,"work_state":{"worktree_path":"/work"}}}`
			if a := r.call(t, keys[0], "acp/handoff", params); a.Error == nil || a.Error.Data.Reason != hub.CodeInvalid || !strings.Contains(a.Error.Message, "expect") {
				t.Errorf("%s: got %s, want it refused", name, a.body)
			}
		}
		a := r.call(t, keys[0], "acp/handoff", strings.TrimSuffix(good, "}")+`,"expect":{"paths":["a.go"]}}`)
		a.wantError(t, -32602, hub.CodeInvalid)
		r.wantSame(t, before)
	})
}
