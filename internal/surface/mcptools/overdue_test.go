package mcptools_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// TestAckBy lets agents ask for an acknowledgement and miss one, with nothing but their tools.
func TestAckBy(t *testing.T) {
	clock := new(hubtest.Clock)
	r := start(t, server.Options{Clock: clock.Now})
	planner, builder := r.overHTTP(t, r.add(t, "planner")), r.overHTTP(t, r.add(t, "builder"))
	auditor, err := rpc.Call(t.Context(), r.client(r.operator), api.AddAgent, api.AgentParams{ID: "auditor", Auditor: true})
	if err != nil {
		t.Fatal(err)
	}
	waiting := func() int {
		t.Helper()
		got, err := rpc.Call(t.Context(), r.client(auditor.Key), api.Now, api.None{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, i := range got.Waiting.Items() {
			if i.Kind == attention.KindOverdue {
				n++
			}
		}
		return n
	}
	planner.ok(t, "acp_send", map[string]any{"to": "builder", "text": "first", "ack_by": "30m"})
	planner.ok(t, "acp_send", map[string]any{"to": "builder", "text": "second", "ack_by": "30m"})

	got := builder.text(t, "acp_inbox", nil).text
	if strings.Count(got, ", acknowledge by 20") != 2 {
		t.Errorf("the recipient reads %q, want the time of both", got)
	}
	builder.ok(t, "acp_inbox", map[string]any{"ack": []string{"m1"}})
	if n := waiting(); n != 0 {
		t.Errorf("before the time %d messages wait for a person, want none", n)
	}
	clock.Pass(31 * time.Minute)

	got = planner.text(t, "acp_inbox", map[string]any{"wait_s": 60}).text
	if !strings.Contains(got, "about m2: builder did not acknowledge your message by") || strings.Contains(got, "about m1") {
		t.Errorf("the sender reads %q, want a notice about the second message alone", got)
	}
	got = planner.text(t, "acp_query", map[string]any{"overdue": true}).text
	if !strings.Contains(got, "second") || strings.Contains(got, "first") {
		t.Errorf("overdue: got %q, want the second message alone", got)
	}
	if n := waiting(); n != 1 {
		t.Errorf("%d messages wait for a person, want 1", n)
	}
	builder.ok(t, "acp_inbox", map[string]any{"ack": []string{"m2"}})
	if n := waiting(); n != 0 {
		t.Errorf("after the acknowledgement %d messages wait for a person, want none", n)
	}
}
