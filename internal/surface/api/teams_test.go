package api_test

import (
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
)

func TestStoredChange(t *testing.T) {
	d := newDesk(t)
	operator := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator}
	if _, _, _, err := d.Keys.AddAgent(t.Context(), operator, hub.Agent{ID: "ada", Role: hub.RoleCoordinator}, keys.NewKey{}); err != nil {
		t.Fatal(err)
	}
	teams, err := team.New(d.store, d.Mail, nil)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := sqlite.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mail, err := mailroom.New(closed, d.Keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	d.Teams, d.Services.Mail = teams, mail
	got, err := d.call(t.Context(), operator, "acp/team", []byte(`{"action":"create","team":"core","objective":"o","members":[{"agent":"ada","role":"coordinator"}]}`))
	answer, ok := got.(team.Answer)
	if err != nil || !ok || answer.Team == nil || len(answer.Warnings) != 1 {
		t.Errorf("a team was stored, and mail could not be counted: got %+v (%v), want the team with a warning", got, err)
	}
}
