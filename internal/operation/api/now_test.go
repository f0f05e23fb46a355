package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// everything is a hub on which a thing of each kind waits. Texts of agents have the word
// plain, or secret if they must not leave the hub.
func everything() api.Waiting {
	payload := func(text string) json.RawMessage { return json.RawMessage(`{"summary":"` + text + `"}`) }
	message := func(id hub.EnvelopeID, s hub.Sensitivity, text string) hub.Envelope {
		return hub.Envelope{ID: id, From: "planner", To: []hub.AgentID{"builder"}, Policy: hub.Policy{Sensitivity: s}, Payload: payload(text)}
	}
	trouble := func(id hub.AgentID, word string) api.AgentNow {
		return api.AgentNow{AgentProfile: api.AgentProfile{Profile: keys.Profile{Agent: hub.Agent{ID: id}}}, Word: word, Why: "so"}
	}
	w := api.Waiting{
		Talks:     []hub.Deliberation{{ID: "t1", Kind: hub.KindNegotiation, Title: "plain", From: "planner"}, {ID: "t2", Kind: hub.KindDisagreement, Title: "secret", Policy: hub.Policy{Sensitivity: hub.SensitivityHigh}}},
		Peers:     []federation.PeerStatus{{Peer: hub.Peer{AID: "aid://shop.example/hub@1.0.0"}}},
		Troubled:  []api.AgentNow{trouble("builder", "stuck"), trouble("tester", "suspended")},
		Blocked:   []reservation.Blocked{{ID: "builder /app/plain", Agent: "builder", Tree: "/app", Path: "plain", Holder: "tester"}},
		Late:      []handoff.Report{{ID: "h2", To: "builder", Title: "secret", Restricted: true}},
		Conflicts: []api.ConflictedContract{{Project: "p", ID: "c", Name: "plain", Version: 2}},
		Merges:    []hub.Conflict{{Team: "alpha", Artifact: "plain", Version: 2}, {Team: "alpha", Artifact: "plain", Version: 4, Result: 5}},
		Overdue:   []mailroom.Overdue{{Message: message("m4", hub.SensitivityHigh, "secret"), Missing: []hub.AgentID{"builder"}}},
		Landings:  []hub.LandingEntry{{ID: "l1", Owner: "builder", Ref: "plain", Into: "main"}},
		Reviews:   []hub.Review{{ID: "v1", Entry: "l2", Reviewer: "operator"}},
		Free:      1 << 20,
		Inbox: []hub.Envelope{
			message("m3", hub.SensitivityLow, "plain"),
			{ID: "m5", From: hub.Self, To: []hub.AgentID{hub.Operator}, Payload: json.RawMessage(`{"summary":"plain","about":{"kind":"violation","id":"r3"}}`)},
		},
		Notices: []hub.Envelope{
			{ID: "n1", From: hub.Self, ThreadID: "t1", Payload: payload("escalated")},
			{ID: "n3", From: hub.Self, ReplyTo: "m4", Payload: json.RawMessage(`{"code":"ack_overdue","message":"late","about":{"kind":"overdue","id":"m4"}}`)},
			{ID: "n2", From: hub.Self, Payload: json.RawMessage(`{"question":"migrator asks: plain","about":{"kind":"question","id":"migrator 3"}}`)},
		},
	}
	w.Asks = []api.KeptAgent{{Definition: keeper.Definition{Agent: "migrator"}, Asks: []keeper.Question{{ID: 3, Text: "plain", Choices: []keeper.Choice{
		{ID: "always", Name: "Always", Kind: sandbox.AllowAlways}, {ID: "once", Name: "Once", Kind: sandbox.AllowOnce},
	}}}}}
	w.Messages = []hub.Envelope{message("m1", hub.SensitivityHigh, "secret"), message("m2", hub.SensitivityLow, "plain")}
	w.Handoffs = []handoff.Report{{ID: "h1", From: "planner", To: "builder", Title: "plain"}}
	w.Teams = []hub.HeldAction{{ID: "a1", Team: "alpha", Actor: "planner", Action: "close"}}
	return w
}

func TestWaitingItems(t *testing.T) {
	items := everything().Items()
	seen := map[attention.Kind]int{}
	for i, w := range items {
		seen[w.Kind]++
		if i > 0 && slices.Index(attention.Kinds(), items[i-1].Kind) > slices.Index(attention.Kinds(), w.Kind) {
			t.Errorf("%s stands behind %s", w.Kind, items[i-1].Kind)
		}
		if w.Fact == "" || w.Command == "" || w.ID == "" || strings.Contains(w.Fact, "plain") || strings.Contains(w.Fact, "secret") {
			t.Errorf("%+v: a sentence of the hub, and a command", w)
		}
		if strings.Contains(w.Title, "secret") != w.Private {
			t.Errorf("%s: private is %v of %q", w.Key(), w.Private, w.Title)
		}
	}
	for _, k := range attention.Kinds() {
		if seen[k] == 0 {
			t.Errorf("nothing of the kind %s", k)
		}
	}
	find := func(key string) attention.Item {
		return items[slices.IndexFunc(items, func(w attention.Item) bool { return w.Key() == key })]
	}
	if q := find("question migrator 3"); q.Answer.Choice != "once" || q.Answer.Question != 3 {
		t.Errorf("a yes allows more than once: %+v", q.Answer)
	}
	if a, b := find("escalation t1"), find("escalation t2"); a.Yes != "accept" || b.Yes != "" {
		t.Errorf("a disagreement needs words: %q, %q", a.Yes, b.Yes)
	}
	for key, want := range map[string]hub.EnvelopeID{"escalation t1": "n1", "question migrator 3": "n2", "overdue m4": "n3"} {
		if got := everything().About(find(key)); len(got) != 1 || got[0] != want {
			t.Errorf("notices about %s: %v", key, got)
		}
	}
}
