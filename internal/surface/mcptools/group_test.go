package mcptools_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/server"
)

// TestGroup lets an agent write to all agents with an ability.
func TestGroup(t *testing.T) {
	r := start(t, server.Options{})
	planner := r.overHTTP(t, r.add(t, "planner"))
	ana := r.overHTTP(t, r.addAble(t, "ana", "backend"))
	r.addAble(t, "bo", "backend")
	r.addAble(t, "cy", "frontend")

	got := planner.text(t, "acp_send", map[string]any{"to": []string{"@backend"}, "text": "the schema is frozen"})
	if got.isError || !strings.Contains(got.text, "- ana, inbox") || !strings.Contains(got.text, "- bo, inbox") || strings.Contains(got.text, "cy") {
		t.Errorf("the answer is %q, want ana and bo as recipients", got.text)
	}
	if text := ana.text(t, "acp_inbox", nil).text; !strings.Contains(text, "from planner to ana, bo: the schema is frozen") {
		t.Errorf("a member of the group reads %q", text)
	}
	got = planner.text(t, "acp_send", map[string]any{"to": "@nothing", "text": "x"})
	if !got.isError || !strings.Contains(got.text, "unknown_recipient") || !strings.Contains(got.text, "backend, frontend") {
		t.Errorf("a group without agents: got %q, want it refused with the abilities", got.text)
	}
}
