package deliberation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Rules about who decides, and about what.
func TestDeciders(t *testing.T) {
	state := func(b *table, to ...hub.AgentID) hub.EnvelopeID {
		b.t.Helper()
		return b.must(b.say(ana, hub.TypePositionState, 1, position(nil), to...)).ID
	}
	block := func(b *table, id hub.EnvelopeID) {
		b.t.Helper()
		b.must(b.say(bo, hub.TypePositionChallenge, 2, challenge(id, "blocking"), "ana"))
	}
	t.Run("silence escalates the pair whose challenge is significant", func(t *testing.T) {
		b := seat(t)
		id := state(b, "bo", "cy")
		b.must(b.say(bo, hub.TypePositionChallenge, 2, challenge(id, "minor"), "ana"))
		b.must(b.say(cy, hub.TypePositionChallenge, 2, challenge(id, "significant"), "ana"))
		b.pass(24 * time.Hour)
		b.sweep()
		if r := b.state(id, hub.TalkEscalated); r.EscalatedFor != "cy" {
			t.Errorf("escalated for %s", r.EscalatedFor)
		}
		if b.told("cy", hub.TypeSystemAck, "escalated") != 1 || b.told("bo", hub.TypeSystemAck, "escalated") != 0 {
			t.Error("cy must be told, and bo must not")
		}
	})
	t.Run("a coordinator that is paused is not asked to decide, and cannot", func(t *testing.T) {
		b := seat(t, hub.Agent{ID: "lead", Role: hub.RoleCoordinator})
		before := state(b, "bo")
		block(b, before)
		if _, err := b.keys.SetState(t.Context(), operator, "lead", hub.AgentPaused); err != nil {
			t.Fatal(err)
		}
		lead := agent("lead")
		lead.Paused = true
		_, err := b.talks.Decide(t.Context(), lead, string(before), "SQLite", "one file")
		b.refused(err, hub.CodeDenied, "paused")

		after := state(b, "bo")
		block(b, after)
		if r := b.state(after, hub.TalkEscalated); !slices.Equal(r.Deciders, []hub.AgentID{hub.Operator}) {
			t.Errorf("got %v", r.Deciders)
		}
	})
	t.Run("a disagreement that waits for a person waits for ever, and the person is told once", func(t *testing.T) {
		b := seat(t)
		id := state(b, "bo")
		block(b, id)
		b.pass(1000 * time.Hour)
		b.sweep()
		b.state(id, hub.TalkEscalated)
		if n := b.told(hub.Operator, hub.TypeStatusBlocked, "db"); n != 1 {
			t.Errorf("the operator was told %d times", n)
		}
	})
	t.Run("an answer goes to the opener alone", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		for _, to := range [][]hub.AgentID{{"cy"}, {"ana", "cy"}} {
			_, err := b.say(bo, hub.TypeTaskAccept, 2, accept(id), to...)
			b.refused(err, hub.CodeInvalid, "can go only to ana")
		}
		b.state(id, hub.TalkOffered)
	})
	t.Run("the history for the decider has no text that hides", func(t *testing.T) {
		b := seat(t, hub.Agent{ID: "lead", Role: hub.RoleCoordinator})
		hidden := position(members{"position": "SQL\u202eite\U000e0041\u001b[2J", "reasoning": "one\u2060 file"})
		id := b.must(b.say(ana, hub.TypePositionState, 1, hidden, "bo")).ID
		block(b, id)
		mail := b.inbox("lead")
		if len(mail) != 1 {
			t.Fatalf("got %d messages", len(mail))
		}
		part, err := b.mail.Read(t.Context(), agent("lead"), mail[0].ID, 1)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(part.Part.Text, "\u202e\U000e0041\u001b\u2060") || !strings.Contains(part.Part.Text, "one file") {
			t.Errorf("got %q", part.Part.Text)
		}
	})
	t.Run("the decision about a negotiation is recorded", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		for n, who := range []hub.Caller{bo, ana, bo, ana} {
			b.must(b.say(who, hub.TypeTaskCounter, int64(n+2), counter(id), map[hub.AgentID]hub.AgentID{"ana": "bo", "bo": "ana"}[who.ID]))
		}
		if _, err := b.talks.Decide(t.Context(), operator, string(id), "decline", "not now"); err != nil {
			t.Fatal(err)
		}
		all, err := b.talks.Decisions(t.Context(), bo, hub.DecisionQuery{})
		if err != nil || len(all) != 1 || all[0].Decision != "decline" || !slices.Equal(all[0].Deciders, []hub.AgentID{hub.Operator}) {
			t.Errorf("got %+v (%v)", all, err)
		}
	})
}
