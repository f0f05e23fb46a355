package mailroom_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func TestHeadline(t *testing.T) {
	for _, test := range []struct {
		name          string
		from          hub.AgentID
		t             hub.MessageType
		payload, want string
	}{
		{"an approval", hub.Self, hub.TypeSystemAck, `{"message_id":"01J","status":"approved"}`, "the held message was approved"},
		{"a denial", hub.Self, hub.TypeSystemAck, `{"message_id":"01J","status":"denied","reason":"not\u001b[2J\ntoday"}`, "the held message was denied (not[2J today)"},
		{"an escalation", hub.Self, hub.TypeSystemAck, `{"status":"escalated","kind":"negotiation","title":"keys","outcome":"","reason":"3 counters","decided_by":"","deciders":["ana","operator"]}`, `the negotiation "keys" is escalated, to be decided by ana, operator (3 counters)`},
		{"a decision", hub.Self, hub.TypeSystemAck, `{"status":"decided","kind":"disagreement","title":"store","outcome":"SQLite","reason":"one file","decided_by":"operator","deciders":["operator"]}`, `the disagreement "store" is decided: SQLite, decided by operator (one file)`},
		{"a member", hub.Self, hub.TypeTeamJoin, `{"agent":"bo","role":"executor","by":"ana","team":"auth"}`, "bo joined team auth as executor"},
		{"a member that left", hub.Self, hub.TypeTeamLeave, `{"agent":"bo","reason":"done","by":"ana","team":"auth","tasks_in_backlog":["T-1","T-2"]}`, "bo left team auth; back in the backlog: T-1, T-2 (done)"},
		{"a role", hub.Self, hub.TypeTeamRoleChange, `{"agent":"bo","role":"reviewer","status":"changed","reason":"coverage","by":"ana","team":"auth"}`, "bo is now reviewer of team auth (coverage)"},
		{"a role that is proposed", hub.Self, hub.TypeTeamRoleChange, `{"agent":"bo","role":"reviewer","status":"proposed","by":"ana","team":"auth"}`, "ana proposes bo as reviewer of team auth"},
		{"a version", hub.Self, hub.TypeTeamArtifactUpdate, `{"artifact_id":"a.md","version":2,"state":"clean","newest":2,"author":"bo","team":"auth"}`, "version 2 of a.md in team auth, by bo"},
		{"a merge of the hub", hub.Self, hub.TypeTeamArtifactUpdate, `{"artifact_id":"a.md","version":4,"state":"auto_merged","newest":4,"parents":[2,3],"team":"auth"}`, "the hub merged versions 2 and 3 of a.md into version 4"},
		{"a notice with words of its own", hub.Self, hub.TypeTeamArtifactUpdate, `{"summary":"version 3 and the newest must be merged","artifact_id":"a.md","version":3,"parents":[2,3]}`, "version 3 and the newest must be merged"},
		{"an agent", "bo", hub.TypeStatusUpdate, `{"summary":"done","status":"approved","kind":"x"}`, "done"},
		{"members without a text", "bo", hub.TypeStatusUpdate, `{"agent":"bo"}`, "bo"},
		{"several members", "bo", hub.TypeStatusComplete, `{"task_id":"T-1","files":["a.go","b.go"],"commit":{"id":"77aa","signed":true}}`, "commit (id 77aa, signed true), files a.go b.go, task id T-1"},
		{"ids alone", "bo", hub.TypeStatusComplete, `{"run_id":"01a1f58a-9cca-777e-b298-6799683e87da"}`, "status.complete"},
		{"an acceptance", "bo", hub.TypeHandoffAccept, `{"handoff_id":"01a1f58a-9c81-777e-b298-6799683e87da"}`, "accepted h1"},
		{"an acceptance of an unknown handoff", "bo", hub.TypeHandoffAccept, `{"handoff_id":"01a1f58a-9cca-749d-b468-988be3655236"}`, "accepted the handoff"},
		{"an acceptance with a text", "bo", hub.TypeHandoffAccept, `{"handoff_id":"01a1f58a-9c81-777e-b298-6799683e87da","detail":"at once"}`, "at once"},
		{"a completion", "bo", hub.TypeHandoffComplete, `{"handoff_id":"01a1f58a-9c81-777e-b298-6799683e87da","work":"changed","proof":"verified"}`, "completed h1, verified"},
	} {
		t.Run(test.name, func(t *testing.T) {
			short := mailroom.ShortIDs{"01a1f58a-9c81-777e-b298-6799683e87da": "h1"}
			if got := short.Headline(hub.Envelope{From: test.from, Type: test.t, Payload: []byte(test.payload)}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestNoticeWithoutThread(t *testing.T) {
	e := hub.Envelope{ID: "01J", From: hub.Self, To: []hub.AgentID{"bo"}, Type: hub.TypeTeamJoin, Priority: hub.PriorityNormal, Payload: []byte(`{"agent":"bo"}`)}
	if got := mailroom.RenderMessages([]hub.Envelope{e}, nil, "bo"); strings.Contains(got, "thread") {
		t.Errorf("a thread without a name: %s", got)
	}
}

func TestLateNoticesAreWords(t *testing.T) {
	for facts, want := range map[string]string{
		`{"agent":"bo","handoff_id":"01a1f58a-9c81-777e-b298-6799683e87da","team":"auth","type":"team.join","version":2}`: "team.join: agent bo, team auth, version 2",
		`{"type":"status.update"}`: "status.update",
	} {
		if got := mailroom.LateLine([]byte(facts)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
