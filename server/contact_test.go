package server_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/server"
)

// TestContactWakes checks that mail of an agent that may not wake starts no turn, and that of
// the others does.
func TestContactWakes(t *testing.T) {
	t.Parallel()
	w := startWakes(t, server.Options{}, "planner", "lead", "builder")
	mustCall(t, w.as(w.operator), api.SetContact, api.ContactParams{Agent: "builder", WakeFrom: []hub.AgentID{"planner"}})
	b := w.terminalOf("builder", obeys)
	to := api.Recipients{"builder"}

	quiet := mustCall(t, w.as(w.keys["lead"]), api.Send, api.SendParams{To: to, Text: "no hurry"})
	if len(quiet.Deliveries) != 1 || !strings.Contains(quiet.Deliveries[0].Reason, "lead may not wake builder") {
		t.Errorf("forecast of mail that may not wake: got %+v, want the inbox alone, with the reason", quiet.Deliveries)
	}
	b.none("lead may not wake it")
	if rows := w.rows(quiet.ID); len(rows) > 0 {
		t.Errorf("mail that may not wake: got rows %+v, want none but the inbox", rows)
	}
	id := w.send("planner", api.SendParams{To: to})
	if got := b.next(); !strings.Contains(got.Notice, "for builder.") {
		t.Errorf("got notice %q", got.Notice)
	}
	w.untilRow(id, hub.DeliveryAccepted)
}
