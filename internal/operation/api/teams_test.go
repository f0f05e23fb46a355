package api_test

import (
	"errors"
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

// TestMembersOfTeamActions sends members that the action does not have: most are ignored,
// and those that would make the request ambiguous are refused.
func TestMembersOfTeamActions(t *testing.T) {
	d := newDesk(t)
	operator := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator}
	for _, id := range []hub.AgentID{"ada", "bob"} {
		if _, _, _, err := d.Keys.AddAgent(t.Context(), operator, hub.Agent{ID: id, Role: hub.RoleCoordinator}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
	}
	teams, err := team.New(d.store, d.Mail, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Teams = teams

	for _, test := range []struct{ params, want string }{
		{`{"action":"create","team":"core","objective":"o","members":[{"agent":"ada","role":"coordinator"}],"title":"t"}`, ""},
		{`{"action":"add","team":"core","agent":"bob","content":"x","sign_off":true}`, ""},
		{`{"action":"show","team":"core","title":"t","parent_version":3}`, ""},
		{`{"action":"status","team":"core","task":"T-7"}`, ""},
		{`{"action":"list","team":"no name!"}`, ""},
		{`{"action":"task","team":"core","title":"t","artifact":"a"}`, ""},
		{`{"action":"task","task":"T-1","reason":"r"}`, ""},
		{`{"action":"artifact","team":"core","parent_version":0}`, ""},

		{`{"action":"dance"}`, `unknown action "dance"`},
		{`{"action":"show","team":"core","ttle":"t"}`, "ttle: unknown member; did you mean title?"},
		{`{"action":"show"}`, `team name "" is not valid`},
		{`{"action":"list","lifecycle":"gone"}`, `unknown lifecycle "gone"`},
		{`{"action":"task","title":"t"}`, `team name "" is not valid`},
		{`{"action":"task","task":"T-9"}`, "no task with id T-9 that you can see"},
		{`{"action":"task","task":"T-1","state":"done","owner":"bob"}`, "state cannot be combined with owner, reviewer or depends_on"},
		{`{"action":"task","task":"T-1","title":"t"}`, "title, class, external_refs, worktree_path and scope cannot be changed"},
		{`{"action":"task","team":"core","title":"t","state":"done"}`, "a new task has no state: it starts in the backlog"},
		{`{"action":"role","team":"core","agent":"bob","accept":true,"reason":"mood"}`, `unknown reason "mood" for a change of roles`},
		{`{"action":"artifact","team":"core","artifact":"a","content":"x"}`, "parent_version is required"},
		{`{"action":"artifact","team":"core","artifact":"a","parent_version":0}`, "content is required"},
		{`{"action":"merge","team":"core","artifact":"a"}`, "content is required"},
		{`{"action":"merge","team":"core","artifact":"a","content":"x","sign_off":true}`, "sign_off and content cannot be combined"},
	} {
		_, err := d.call(t.Context(), operator, "acp/team", []byte(test.params))
		var got string
		var refused *hub.Error
		if errors.As(err, &refused) {
			got = refused.Error()
		}
		if got != test.want || (err != nil) != (test.want != "") {
			t.Errorf("%s: got %v, want %q", test.params, err, test.want)
		}
	}
}
