package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/server"
)

// TestStatesOfOffers sends every message of a negotiation in every state, from both sides. The
// table of the requirement stands here a second time, in its words: what it does not have is
// refused with the state, and changes nothing.
func TestStatesOfOffers(t *testing.T) {
	t.Parallel()
	w := startWakes(t, server.Options{}, "ana", "bo")
	const other = "task.decline, reason other" // the offerer takes the offer back with it
	payloads := map[hub.MessageType]map[string]any{
		hub.TypeTaskAccept: {}, hub.TypeTaskDecline: {"reason": "at_capacity"}, other: {"reason": "other"}, hub.TypeTaskCounter: {"proposed_changes": "later"},
	}
	partner := map[hub.AgentID]hub.AgentID{"ana": "bo", "bo": "ana"}
	say := func(who hub.AgentID, kind hub.MessageType, id hub.EnvelopeID, more map[string]any) (mailroom.Receipt, error) {
		mustCall(t, w.as(w.keys[who]), api.Query, api.QueryParams{Negotiation: string(id)}) // it has read everything
		p := map[string]any{"offer_id": id}
		for _, members := range []map[string]any{payloads[kind], more} {
			for name, value := range members {
				p[name] = value
			}
		}
		raw, _ := json.Marshal(p)
		if kind == other {
			kind = hub.TypeTaskDecline
		}
		return rpc.Call(t.Context(), w.as(w.keys[who]), api.Send, api.SendParams{To: api.Recipients{partner[who]}, Type: kind, Payload: raw})
	}
	must := func(who hub.AgentID, kind hub.MessageType, id hub.EnvelopeID, more map[string]any) {
		t.Helper()
		if _, err := say(who, kind, id, more); err != nil {
			t.Fatalf("%s from %s: %v", kind, who, err)
		}
	}
	show := func(id hub.EnvelopeID) *deliberation.Report {
		return mustCall(t, w.as(w.operator), api.Query, api.QueryParams{Negotiation: string(id)}).Talk
	}
	state := func(id hub.EnvelopeID) hub.DeliberationState { return show(id).State }
	counter := func(n int) func(hub.EnvelopeID) {
		return func(id hub.EnvelopeID) {
			for i := range n {
				must([]hub.AgentID{"bo", "ana"}[i%2], hub.TypeTaskCounter, id, nil)
			}
		}
	}
	none := func(hub.EnvelopeID) {}
	conditions := map[string]any{"conditions": []string{"two days"}}

	type move struct {
		who  hub.AgentID
		kind hub.MessageType
	}
	accept, decline, again := hub.TypeTaskAccept, hub.TypeTaskDecline, hub.TypeTaskCounter
	for _, tt := range []struct {
		name  string
		reach func(hub.EnvelopeID) // brings a new offer of ana to bo into the state
		state hub.DeliberationState
		next  map[move]hub.DeliberationState
	}{
		{"offered", none, hub.TalkOffered, map[move]hub.DeliberationState{
			{"bo", accept}: hub.TalkAccepted, {"bo", decline}: hub.TalkDeclined, {"bo", again}: hub.TalkCountered, {"ana", decline}: hub.TalkDeclined,
		}},
		{"countered by the one asked", counter(1), hub.TalkCountered, map[move]hub.DeliberationState{
			{"ana", accept}: hub.TalkAccepted, {"ana", decline}: hub.TalkDeclined, {"ana", again}: hub.TalkCountered, {"bo", decline}: hub.TalkDeclined,
		}},
		{"countered by the one who offers", counter(2), hub.TalkCountered, map[move]hub.DeliberationState{
			{"bo", accept}: hub.TalkAccepted, {"bo", decline}: hub.TalkDeclined, {"bo", again}: hub.TalkCountered, {"ana", decline}: hub.TalkDeclined,
		}},
		{"countered three times", counter(3), hub.TalkCountered, map[move]hub.DeliberationState{
			{"ana", accept}: hub.TalkAccepted, {"ana", decline}: hub.TalkDeclined, {"ana", again}: hub.TalkEscalated, {"bo", decline}: hub.TalkDeclined,
		}},
		{"conditional", func(id hub.EnvelopeID) { must("bo", accept, id, conditions) }, hub.TalkConditional, map[move]hub.DeliberationState{
			{"ana", accept}: hub.TalkAccepted, {"ana", decline}: hub.TalkDeclined,
		}},
		{"accepted", func(id hub.EnvelopeID) { must("bo", accept, id, nil) }, hub.TalkAccepted, nil},
		{"declined", func(id hub.EnvelopeID) { must("bo", decline, id, nil) }, hub.TalkDeclined, nil},
		{"escalated", counter(4), hub.TalkEscalated, nil},
		{"expired", func(hub.EnvelopeID) { w.pass(48 * time.Hour) }, hub.TalkExpired, nil},
	} {
		for _, who := range []hub.AgentID{"ana", "bo"} {
			for _, kind := range []hub.MessageType{accept, decline, other, again} {
				t.Run(fmt.Sprintf("R3-140 %s: %s from %s", tt.name, kind, who), func(t *testing.T) {
					id := mustCall(t, w.as(w.keys["ana"]), api.Send, api.SendParams{To: api.Recipients{"bo"}, Type: hub.TypeTaskOffer, Payload: []byte(`{"title":"t","description":"d"}`)}).ID
					tt.reach(id)
					r, err := say(who, kind, id, nil)
					rule := move{who, kind}
					if kind == other {
						rule.kind = decline
					}
					want, isAllowed := tt.next[rule]
					if !isAllowed {
						want = tt.state
					}
					isRefused := err != nil || r.Status == mailroom.AlreadyClaimed
					switch {
					case isRefused == isAllowed:
						t.Errorf("got %+v, %v; want it allowed: %v", r, err, isAllowed)
					case err != nil && (hub.CodeOf(err) != hub.CodeConflict || !strings.Contains(err.Error(), string(tt.state))):
						t.Errorf("got %v, want a refusal that names the state %s", err, tt.state)
					}
					// The hub stores that an offer has expired a little later.
					if got := state(id); got != want && tt.state != hub.TalkExpired {
						t.Errorf("the offer is %s, want %s", got, want)
					}
					isOpen := tt.state == hub.TalkOffered || tt.state == hub.TalkCountered
					isWithdrawn := who == "ana" && kind == other && isOpen
					if got := show(id).Outcome; strings.Contains(got, "withdrew the offer") != isWithdrawn {
						t.Errorf("the outcome is %q; want the offer taken back: %v", got, isWithdrawn)
					}
				})
			}
		}
	}
	t.Run("R3-140 an escalated offer is accepted or declined by a decision alone", func(t *testing.T) {
		for decision, want := range map[string]hub.DeliberationState{"accept": hub.TalkAccepted, "decline": hub.TalkDeclined} {
			id := mustCall(t, w.as(w.keys["ana"]), api.Send, api.SendParams{To: api.Recipients{"bo"}, Type: hub.TypeTaskOffer, Payload: []byte(`{"title":"t","description":"d"}`)}).ID
			counter(4)(id)
			mustCall(t, w.as(w.operator), api.Decide, api.DecideParams{Thread: string(id), Decision: decision, Because: "enough"})
			if got := state(id); got != want {
				t.Errorf("%s: the offer is %s, want %s", decision, got, want)
			}
		}
	})
}

// TestCopiesByRole sends what coordinators of a team get without asking, and what they do not get.
func TestCopiesByRole(t *testing.T) {
	t.Parallel()
	w := startWakes(t, server.Options{}, "ana", "bo", "cy", "stranger", "zoe")
	w.teamDo(t, w.operator, api.TeamParams{Action: "create", Team: "auth", Objective: "work", Members: []team.Seat{
		{Agent: "ana", Role: hub.RoleCoordinator}, {Agent: "bo", Role: hub.RoleExecutor}, {Agent: "cy", Role: hub.RoleExecutor}, {Agent: "zoe", Role: hub.RoleExecutor},
	}})
	w.teamDo(t, w.operator, api.TeamParams{Action: "status", Team: "auth", Lifecycle: hub.TeamActive})
	send := func(who, to hub.AgentID, p api.SendParams) hub.EnvelopeID {
		t.Helper()
		p.To = api.Recipients{to}
		return mustCall(t, w.as(w.keys[who]), api.Send, p).ID
	}
	// disagree has bo and cy disagree, and bo escalate that to the operator.
	disagree := func(policy string) hub.EnvelopeID {
		t.Helper()
		thread := send("bo", "cy", api.SendParams{Team: "auth", Type: hub.TypePositionState, Policy: []byte(policy), Payload: []byte(`{"topic":"db","position":"SQLite","reasoning":"one file","confidence":"high","open_to_revision":true}`)})
		mustCall(t, w.as(w.keys["cy"]), api.Inbox, api.InboxParams{})
		challenge := send("cy", "bo", api.SendParams{Team: "auth", ReplyTo: thread, Type: hub.TypePositionChallenge, Policy: []byte(policy), Payload: []byte(`{"counter_position":"Postgres","reasoning":"two writers","severity":"minor"}`)})
		mustCall(t, w.as(w.keys["bo"]), api.Inbox, api.InboxParams{})
		return send("bo", "cy", api.SendParams{Team: "auth", ReplyTo: challenge, Type: hub.TypePositionEscalate, Policy: []byte(policy), Payload: []byte(`{"summary":"one file or two writers","escalate_to":"operator","reason":"we cannot agree"}`)})
	}
	const members, private = `{"visibility":"team","sensitivity":"low","human_gate":"none"}`, `{"visibility":"private","sensitivity":"low","human_gate":"none"}`
	escalation, hidden := disagree(members), disagree(private)
	blocked := send("bo", "cy", api.SendParams{Team: "auth", Type: hub.TypeStatusBlocked, Text: "stuck"})
	hiddenToo := send("bo", "cy", api.SendParams{Team: "auth", Type: hub.TypeStatusBlocked, Text: "stuck in private", Policy: []byte(private)})
	send("bo", "cy", api.SendParams{Team: "auth", Text: "going on"})
	audited := send("bo", "stranger", api.SendParams{Text: "for people, too", Policy: []byte(`{"visibility":"human-audit","sensitivity":"low","human_gate":"none"}`)})

	// Copies are made by the time when they are due and by the name of their agent, so zoe gets hers last.
	w.pass(time.Second)
	mustCall(t, w.as(w.keys["zoe"]), api.Subscribe, api.SubscribeParams{Action: "add", Filter: &hub.Filter{Topics: []string{"end"}}})
	send("cy", "bo", api.SendParams{Team: "auth", Topic: "end", Text: "the last", Policy: []byte(members)})
	w.pass(time.Minute)
	send("cy", "bo", api.SendParams{Text: "time has passed"}) // wakes the hub
	copies := func(key string) (out []hub.EnvelopeID) {
		for _, e := range mustCall(t, w.as(key), api.Inbox, api.InboxParams{Limit: 50, Peek: true}).Messages {
			if c := e.CopyOf(); c != nil {
				out = append(out, c.Message)
			}
		}
		slices.Sort(out)
		return out
	}
	want := []hub.EnvelopeID{escalation, blocked}
	slices.Sort(want)
	w.until("the last copy is there", func() bool { return len(copies(w.keys["zoe"])) > 0 }, func() any { return copies(w.keys["ana"]) })
	t.Run("R3-171 the coordinator of a team gets its escalations and what is blocked, and nothing that is private", func(t *testing.T) {
		if got := copies(w.keys["ana"]); !slices.Equal(got, want) {
			t.Errorf("got copies of %v, want %v; %v and %v are private", got, want, hidden, hiddenToo)
		}
	})
	t.Run("R3-171 other members and strangers get none", func(t *testing.T) {
		for _, id := range []hub.AgentID{"cy", "stranger"} {
			if got := copies(w.keys[id]); len(got) != 0 {
				t.Errorf("%s got copies of %v", id, got)
			}
		}
	})
	t.Run("R3-121 people get a copy of a message with visibility human-audit, and of no other", func(t *testing.T) {
		if got := copies(w.operator); !slices.Equal(got, []hub.EnvelopeID{audited}) {
			t.Errorf("the operator got copies of %v, want %v", got, audited)
		}
	})
}
