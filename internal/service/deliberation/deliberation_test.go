package deliberation_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A table is a hub with agents around it, and a clock that stands still.
type table struct {
	t     *testing.T
	store hub.Store
	mail  *mailroom.Mailroom
	talks *deliberation.Service
	keys  *keys.Service

	mu  sync.Mutex // guards now
	now time.Time
}

var (
	operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	ana      = agent("ana")
	bo       = agent("bo")
	cy       = agent("cy")
)

func agent(id hub.AgentID) hub.Caller {
	return hub.Caller{Kind: hub.CallerAgent, ID: id, Role: hub.RoleExecutor}
}

func seat(t *testing.T, agents ...hub.Agent) *table {
	t.Helper()
	b := &table{t: t, now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	b.store = storetest.Open(t, t.TempDir())
	dir := keys.New(b.store, &keys.Options{Clock: b.clock, Bus: new(bus.Local)})
	b.keys = dir
	if _, err := dir.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, id := range []hub.AgentID{"ana", "bo", "cy"} {
		agents = append(agents, hub.Agent{ID: id, Role: hub.RoleExecutor})
	}
	for _, a := range agents {
		if _, _, _, err := dir.AddAgent(t.Context(), operator, a, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
	}
	content, err := blobs.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.mail, err = mailroom.New(b.store, dir, &mailroom.Options{
		Clock: b.clock, Artifacts: content, Limits: mailroom.Limits{Unsafe: true}, Features: []hub.Feature{hub.FeatureNegotiation, hub.FeatureDisagreement},
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.talks, err = deliberation.New(b.store, b.mail, &deliberation.Options{Clock: b.clock}); err != nil {
		t.Fatal(err)
	}
	b.mail.Moderate(b.talks)
	return b
}

func (b *table) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *table) pass(d time.Duration) {
	b.mu.Lock()
	b.now = b.now.Add(d)
	b.mu.Unlock()
}

type members = map[string]any

// say sends a message, and returns the error.
func (b *table) say(who hub.Caller, kind hub.MessageType, seq int64, payload members, to ...hub.AgentID) (mailroom.Receipt, error) {
	v, err := strictjson.ValueOf(payload)
	if err != nil {
		b.t.Fatal(err)
	}
	d := mailroom.Draft{To: to, Type: kind, Payload: v}
	if seq > 0 {
		d.Sequence = &seq
	}
	return b.mail.Send(b.t.Context(), who, d)
}

func (b *table) must(r mailroom.Receipt, err error) mailroom.Receipt {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// refused expects an error with a code and words in its text.
func (b *table) refused(err error, code hub.Code, words string) {
	b.t.Helper()
	var e *hub.Error
	if got := hub.CodeOf(err); got != code || !errors.As(err, &e) || !strings.Contains(e.Error()+" "+e.Hint, words) {
		b.t.Errorf("got %q (%v), want %q with %q", got, err, code, words)
	}
}

func (b *table) offer(to ...hub.AgentID) hub.EnvelopeID {
	b.t.Helper()
	return b.must(b.say(ana, hub.TypeTaskOffer, 1, members{"title": "t", "description": "d"}, to...)).ID
}

// state expects the state of a deliberation.
func (b *table) state(id hub.EnvelopeID, want hub.DeliberationState) deliberation.Report {
	b.t.Helper()
	r, err := b.talks.Show(b.t.Context(), operator, string(id))
	if err != nil || r.State != want {
		b.t.Errorf("got %s (%v), want %s", r.State, err, want)
	}
	return r
}

// inbox returns the messages in an inbox without marking them.
func (b *table) inbox(who hub.AgentID) []hub.Envelope {
	b.t.Helper()
	got, err := b.mail.Inbox(b.t.Context(), operator, mailroom.InboxRequest{Agent: who, Limit: 200})
	if err != nil {
		b.t.Fatal(err)
	}
	return got.Messages
}

func (b *table) sweep() {
	b.t.Helper()
	if err := b.talks.Sweep(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// told counts the messages of the hub of a type in an inbox whose payload has words.
func (b *table) told(who hub.AgentID, kind hub.MessageType, words string) int {
	n := 0
	for _, e := range b.inbox(who) {
		if e.From == hub.Self && e.Type == kind && strings.Contains(string(e.Payload), words) {
			n++
		}
	}
	return n
}

func counter(id hub.EnvelopeID) members { return members{"offer_id": id, "proposed_changes": "later"} }
func accept(id hub.EnvelopeID) members  { return members{"offer_id": id} }
func decline(id hub.EnvelopeID) members { return members{"offer_id": id, "reason": "at_capacity"} }

func TestNegotiation(t *testing.T) {
	t.Run("R3-140 an offer is accepted, and a message that the state does not allow is refused with what is possible", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		b.state(id, hub.TalkOffered)
		_, err := b.say(ana, hub.TypeTaskAccept, 2, accept(id), "bo")
		b.refused(err, hub.CodeConflict, "offered: ana cannot send task.accept; you can send: task.decline")
		b.must(b.say(bo, hub.TypeTaskAccept, 2, accept(id), "ana"))
		if r := b.state(id, hub.TalkAccepted); r.ClaimedBy != "bo" || len(r.Turns) != 2 {
			t.Errorf("got %+v", r)
		}
		_, err = b.say(bo, hub.TypeTaskDecline, 3, decline(id), "ana")
		b.refused(err, hub.CodeConflict, "accepted")
		_, err = b.say(ana, hub.TypeTaskOffer, 0, members{"title": "t", "description": "d"}, "ana")
		b.refused(err, hub.CodePolicy, "itself")
	})
	t.Run("R3-140 {} is no payload of an offer", func(t *testing.T) {
		b := seat(t)
		_, err := b.say(ana, hub.TypeTaskOffer, 1, members{}, "bo")
		b.refused(err, hub.CodeInvalid, "title")
	})
	t.Run("R3-113 R3-141 a repeat or a gap is refused with the expected number", func(t *testing.T) {
		b := seat(t)
		_, err := b.say(ana, hub.TypeTaskOffer, 2, members{"title": "t", "description": "d"}, "bo")
		b.refused(err, hub.CodeSequence, "first")
		id := b.offer("bo")
		for _, n := range []int64{1, 3} {
			_, err := b.say(bo, hub.TypeTaskCounter, n, counter(id), "ana")
			b.refused(err, hub.CodeSequence, "use 2")
		}
		b.must(b.say(bo, hub.TypeTaskCounter, 2, counter(id), "ana"))
	})
	t.Run("R3-141 the hub fills the number in for a side that has read everything", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		_, err := b.say(bo, hub.TypeTaskCounter, 0, counter(id), "ana")
		b.refused(err, hub.CodeSequence, "not read")
		if _, err := b.mail.Inbox(t.Context(), bo, mailroom.InboxRequest{Peek: true}); err != nil {
			t.Fatal(err)
		}
		b.must(b.say(bo, hub.TypeTaskCounter, 0, counter(id), "ana"))
		_, err = b.say(ana, hub.TypeTaskCounter, 0, counter(id), "bo")
		b.refused(err, hub.CodeSequence, "not read")
		if _, err := b.mail.Query(t.Context(), ana, hub.Query{Thread: string(id)}); err != nil {
			t.Fatal(err)
		}
		b.must(b.say(ana, hub.TypeTaskCounter, 0, counter(id), "bo"))
		if r := b.state(id, hub.TalkCountered); r.Turns[2].Sequence == nil || *r.Turns[2].Sequence != 3 {
			t.Errorf("got %+v", r.Turns[2])
		}
	})
	t.Run("R3-113 R3-141 of many with the same number one passes", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() {
				_, err := b.say(bo, hub.TypeTaskCounter, 2, counter(id), "ana")
				errs <- err
			}()
		}
		passed := 0
		for range cap(errs) {
			switch err := <-errs; hub.CodeOf(err) {
			case "":
				passed++
			case hub.CodeSequence, hub.CodeConflict: // it is not its turn any more
			default:
				t.Error(err)
			}
		}
		if passed != 1 {
			t.Errorf("%d passed, want 1", passed)
		}
	})
	t.Run("R3-142 the counter after the third escalates to a coordinator with the history", func(t *testing.T) {
		b := seat(t, hub.Agent{ID: "lead", Role: hub.RoleCoordinator})
		id := b.offer("bo")
		for n := int64(2); n <= 5; n++ {
			who, to := bo, hub.AgentID("ana")
			if n%2 == 1 {
				who, to = ana, "bo"
			}
			b.must(b.say(who, hub.TypeTaskCounter, n, counter(id), to))
		}
		r := b.state(id, hub.TalkEscalated)
		if !slices.Equal(r.Deciders, []hub.AgentID{"lead"}) {
			t.Errorf("got deciders %v", r.Deciders)
		}
		_, err := b.say(bo, hub.TypeTaskAccept, 6, accept(id), "ana")
		b.refused(err, hub.CodeConflict, "waits for a decision by lead")
		mail := b.inbox("lead")
		if len(mail) != 1 || mail[0].Context == nil {
			t.Fatalf("got %+v", mail)
		}
		f, err := b.mail.OpenArtifact(t.Context(), agent("lead"), mail[0].Context.Artifacts[0].SHA256)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		for _, who := range []hub.AgentID{"ana", "bo"} {
			if n := b.told(who, hub.TypeSystemAck, "escalated"); n != 1 {
				t.Errorf("%s was told %d times", who, n)
			}
		}
		_, err = b.talks.Decide(t.Context(), bo, string(id), "accept", "mine")
		b.refused(err, hub.CodeDenied, "lead")
		_, err = b.talks.Decide(t.Context(), agent("lead"), string(id), "maybe", "x")
		b.refused(err, hub.CodeInvalid, "accept or decline")
		if r, err := b.talks.Decide(t.Context(), agent("lead"), string(id), "accept", "fine"); err != nil || r.State != hub.TalkAccepted || r.ClaimedBy != "bo" {
			t.Errorf("got %+v, %v", r, err)
		}
		_, err = b.talks.Decide(t.Context(), operator, string(id), "decline", "no")
		b.refused(err, hub.CodeConflict, "not escalated")
		if n := b.told("ana", hub.TypeSystemAck, "fine"); n != 1 {
			t.Errorf("ana was told the decision %d times", n)
		}
	})
	t.Run("R3-142 without a coordinator it goes to the operator", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		for n, who := range []hub.Caller{bo, ana, bo, ana} {
			b.must(b.say(who, hub.TypeTaskCounter, int64(n+2), counter(id), map[hub.AgentID]hub.AgentID{"ana": "bo", "bo": "ana"}[who.ID]))
		}
		if r := b.state(id, hub.TalkEscalated); !slices.Equal(r.Deciders, []hub.AgentID{hub.Operator}) {
			t.Errorf("got %v", r.Deciders)
		}
		b.pass(25 * time.Hour)
		b.sweep()
		b.state(id, hub.TalkExpired)
	})
	t.Run("R3-143 a decline has a reason of the list and names agents that exist", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		_, err := b.say(bo, hub.TypeTaskDecline, 2, members{"offer_id": id, "reason": "tired"}, "ana")
		b.refused(err, hub.CodeInvalid, "at_capacity")
		_, err = b.say(bo, hub.TypeTaskDecline, 2, members{"offer_id": id, "reason": "other", "suggested_agent": "nobody"}, "ana")
		b.refused(err, hub.CodeUnknownRecipient, "nobody")
		b.must(b.say(bo, hub.TypeTaskDecline, 2, members{"offer_id": id, "reason": "other", "suggested_agent": "cy"}, "ana"))
		b.state(id, hub.TalkDeclined)
	})
	t.Run("R3-144 of fifty racing accepts one wins, and the others are told who did", func(t *testing.T) {
		var agents []hub.Agent
		for i := range 50 {
			agents = append(agents, hub.Agent{ID: hub.AgentID(fmt.Sprintf("w%02d", i)), Role: hub.RoleExecutor})
		}
		b := seat(t, agents...)
		p := members{"title": "t", "description": "d"}
		v, _ := strictjson.ValueOf(p)
		id := b.must(b.mail.Send(t.Context(), ana, mailroom.Draft{To: []hub.AgentID{hub.Everyone}, Type: hub.TypeTaskOffer, Payload: v, Priority: hub.PriorityHigh})).ID
		type result struct {
			who hub.AgentID
			r   mailroom.Receipt
			err error
		}
		results := make(chan result, len(agents))
		for _, a := range agents {
			go func() {
				r, err := b.say(agent(a.ID), hub.TypeTaskAccept, 2, accept(id), "ana")
				results <- result{a.ID, r, err}
			}()
		}
		winners, late := []hub.AgentID{}, 0
		for range agents {
			switch got := <-results; {
			case got.err != nil:
				t.Error(got.err)
			case got.r.Status == mailroom.AlreadyClaimed:
				late++
				if got.r.Type != hub.TypeSystemAck || got.r.ClaimedBy == "" || got.r.ClaimedAt.IsZero() {
					t.Errorf("got %+v", got.r)
				}
			default:
				winners = append(winners, got.who)
			}
		}
		r := b.state(id, hub.TalkAccepted)
		if len(winners) != 1 || late != 49 || r.ClaimedBy != winners[0] || len(r.Turns) != 2 {
			t.Fatalf("winners %v, late %d, claimed by %s, %d messages", winners, late, r.ClaimedBy, len(r.Turns))
		}
		again := b.must(b.say(agent(winners[0]), hub.TypeTaskAccept, 2, accept(id), "ana"))
		if again.Status != mailroom.AlreadyClaimed || again.ClaimedBy != winners[0] {
			t.Errorf("the winner again: got %+v", again)
		}
		if n := len(b.state(id, hub.TalkAccepted).Turns); n != 2 {
			t.Errorf("%d messages after the repeat", n)
		}
	})
	t.Run("R3-145 an offer expires at respond_by, both sides are told once, and an accept after it is refused at once", func(t *testing.T) {
		b := seat(t)
		_, err := b.say(ana, hub.TypeTaskOffer, 1, members{"title": "t", "description": "d", "respond_by": hub.At(b.clock())}, "bo")
		b.refused(err, hub.CodeInvalid, "respond_by")
		id := b.must(b.say(ana, hub.TypeTaskOffer, 1, members{"title": "t", "description": "d", "respond_by": hub.At(b.clock().Add(time.Hour))}, "bo")).ID
		b.pass(30 * time.Minute)
		b.must(b.say(bo, hub.TypeTaskCounter, 2, counter(id), "ana")) // does not extend it
		b.pass(30 * time.Minute)
		_, err = b.say(ana, hub.TypeTaskAccept, 3, accept(id), "bo")
		b.refused(err, hub.CodeConflict, "expired")
		for range 3 {
			b.sweep()
		}
		b.state(id, hub.TalkExpired)
		for _, who := range []hub.AgentID{"ana", "bo"} {
			if n := b.told(who, hub.TypeSystemAck, "expired"); n != 1 {
				t.Errorf("%s was told %d times", who, n)
			}
		}
	})
	t.Run("R3-145 without respond_by every message of a pair starts the response time anew", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		b.pass(23 * time.Hour)
		b.must(b.say(bo, hub.TypeTaskCounter, 2, counter(id), "ana"))
		b.pass(23 * time.Hour)
		b.sweep()
		b.state(id, hub.TalkCountered)
		b.pass(time.Hour)
		b.sweep()
		b.state(id, hub.TalkExpired)
	})
	t.Run("R3-145 all have declined, or the offerer withdraws", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo", "cy")
		b.must(b.say(bo, hub.TypeTaskDecline, 2, decline(id), "ana"))
		b.state(id, hub.TalkOffered)
		_, err := b.say(bo, hub.TypeTaskAccept, 3, accept(id), "ana")
		b.refused(err, hub.CodeConflict, "declined")
		b.must(b.say(cy, hub.TypeTaskDecline, 2, decline(id), "ana"))
		b.state(id, hub.TalkDeclined)

		id = b.offer("bo", "cy")
		b.must(b.say(ana, hub.TypeTaskDecline, 0, members{"offer_id": id, "reason": "other"}, "bo"))
		b.state(id, hub.TalkDeclined)
		if n := b.told("cy", hub.TypeSystemAck, "withdrew"); n != 1 {
			t.Errorf("cy was told %d times", n)
		}
	})
	t.Run("R3-147 only those concerned speak, in turns, about the original offer", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		_, err := b.say(cy, hub.TypeTaskAccept, 2, accept(id), "ana")
		b.refused(err, hub.CodeNotFound, "")
		b.must(b.say(bo, hub.TypeTaskCounter, 2, counter(id), "ana"))
		_, err = b.say(bo, hub.TypeTaskCounter, 3, counter(id), "ana")
		b.refused(err, hub.CodeConflict, "you can send: task.decline")
		_, err = b.say(bo, hub.TypeTaskAccept, 3, accept(id), "ana")
		b.refused(err, hub.CodeConflict, "task.decline")
		other := b.offer("bo")
		_, err = b.mail.Send(t.Context(), ana, mailroom.Draft{To: []hub.AgentID{"bo"}, Type: hub.TypeTaskAccept, ThreadID: string(id), Payload: mustValue(t, accept(other))})
		b.refused(err, hub.CodeInvalid, "offer_id")
		_, err = b.say(ana, hub.TypeTaskAccept, 3, accept(id), "cy")
		b.refused(err, hub.CodeInvalid, "exactly one")
		b.must(b.say(ana, hub.TypeTaskAccept, 3, accept(id), "bo"))
		if r := b.state(id, hub.TalkAccepted); r.ClaimedBy != "bo" {
			t.Errorf("claimed by %s", r.ClaimedBy)
		}
	})
	t.Run("R3-148 conditions claim the task until the offerer confirms or declines", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo", "cy")
		with := members{"offer_id": id, "conditions": []string{"two days"}}
		b.must(b.say(bo, hub.TypeTaskAccept, 2, with, "ana"))
		if r := b.state(id, hub.TalkConditional); r.ClaimedBy != "bo" || len(r.Conditions) != 1 {
			t.Errorf("got %+v", r)
		}
		if r := b.must(b.say(cy, hub.TypeTaskAccept, 2, accept(id), "ana")); r.ClaimedBy != "bo" {
			t.Errorf("got %+v", r)
		}
		b.must(b.say(ana, hub.TypeTaskAccept, 3, accept(id), "bo"))
		b.state(id, hub.TalkAccepted)

		id = b.offer("bo")
		with["offer_id"] = id
		b.must(b.say(bo, hub.TypeTaskAccept, 2, with, "ana"))
		b.must(b.say(ana, hub.TypeTaskDecline, 3, decline(id), "bo"))
		b.state(id, hub.TalkDeclined)

		id = b.offer("bo")
		with["offer_id"] = id
		b.must(b.say(bo, hub.TypeTaskAccept, 2, with, "ana"))
		b.pass(24 * time.Hour)
		b.sweep()
		b.state(id, hub.TalkAccepted)
	})
	t.Run("required capabilities are a hint", func(t *testing.T) {
		b := seat(t, hub.Agent{ID: "gopher", Role: hub.RoleExecutor, Can: []string{"go"}})
		r := b.must(b.say(ana, hub.TypeTaskOffer, 1, members{"title": "t", "description": "d", "required_capabilities": []string{"go"}}, "bo", "gopher"))
		if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "gopher") && !strings.Contains(w, "bo,") }) {
			t.Errorf("got %q", r.Warnings)
		}
	})
	t.Run("a negotiation of others does not exist", func(t *testing.T) {
		b := seat(t)
		id := b.offer("bo")
		_, err := b.talks.Show(t.Context(), cy, string(id))
		b.refused(err, hub.CodeNotFound, "")
		if l, err := b.talks.List(t.Context(), cy, hub.DeliberationQuery{}); err != nil || len(l.Deliberations) != 0 {
			t.Errorf("got %+v, %v", l, err)
		}
	})
}

func mustValue(t *testing.T, p members) strictjson.Value {
	t.Helper()
	v, err := strictjson.ValueOf(p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func position(extra members) members {
	p := members{"topic": "db", "position": "SQLite", "reasoning": "one file", "confidence": "high", "open_to_revision": true}
	for k, v := range extra {
		p[k] = v
	}
	return p
}

func challenge(id hub.EnvelopeID, severity string) members {
	return members{"position_id": id, "counter_position": "Postgres", "reasoning": "two writers", "severity": severity}
}

func TestDisagreement(t *testing.T) {
	state := func(b *table, to ...hub.AgentID) hub.EnvelopeID {
		b.t.Helper()
		return b.must(b.say(ana, hub.TypePositionState, 1, position(nil), to...)).ID
	}
	t.Run("R3-160 R3-166 a position is challenged and conceded, and the result is pushed to everyone who took part", func(t *testing.T) {
		b := seat(t)
		_, err := b.say(ana, hub.TypePositionState, 1, members{"topic": "db", "position": "p", "confidence": "high", "open_to_revision": true}, "bo")
		b.refused(err, hub.CodeInvalid, "reasoning")
		id := state(b, "bo")
		b.state(id, hub.TalkOpen)
		c := b.must(b.say(bo, hub.TypePositionChallenge, 2, challenge(id, "minor"), "ana")).ID
		b.state(id, hub.TalkChallenged)
		b.must(b.say(ana, hub.TypePositionConcede, 3, members{"position_id": id, "challenge_id": c, "what_changed_mind": "two writers it is", "revised_position": "Postgres"}, "bo"))
		b.state(id, hub.TalkConceded)
		for _, who := range []hub.AgentID{"ana", "bo"} {
			if n := b.told(who, hub.TypeKnowledgePush, `"confidence":"high"`); n != 1 {
				t.Errorf("%s was told %d times", who, n)
			}
		}
		all, err := b.talks.Decisions(t.Context(), bo, hub.DecisionQuery{})
		if err != nil || len(all) != 1 || !strings.Contains(all[0].Decision, "two writers") {
			t.Errorf("got decisions %+v, %v", all, err)
		}
		if all, err := b.talks.Decisions(t.Context(), cy, hub.DecisionQuery{}); err != nil || len(all) != 0 {
			t.Errorf("cy sees %+v, %v", all, err)
		}
	})
	t.Run("R3-164 after two rounds only concede or escalate is possible", func(t *testing.T) {
		b := seat(t)
		id := state(b, "bo")
		first := b.must(b.say(bo, hub.TypePositionChallenge, 2, challenge(id, "minor"), "ana")).ID
		_, err := b.say(bo, hub.TypePositionChallenge, 3, challenge(id, "minor"), "ana")
		b.refused(err, hub.CodeConflict, "position.concede, position.escalate")
		_, err = b.say(ana, hub.TypePositionState, 3, position(members{"revises": id}), "bo")
		b.refused(err, hub.CodeInvalid, "revises")
		b.must(b.say(ana, hub.TypePositionState, 3, position(members{"revises": first}), "bo"))
		second := b.must(b.say(bo, hub.TypePositionChallenge, 4, challenge(id, "minor"), "ana")).ID
		_, err = b.say(ana, hub.TypePositionState, 5, position(members{"revises": second}), "bo")
		b.refused(err, hub.CodeConflict, "position.concede, position.escalate")
	})
	t.Run("R3-164 a blocking challenge escalates at once", func(t *testing.T) {
		b := seat(t, hub.Agent{ID: "lead", Role: hub.RoleCoordinator})
		id := state(b, "bo")
		b.must(b.say(bo, hub.TypePositionChallenge, 2, challenge(id, "blocking"), "ana"))
		if r := b.state(id, hub.TalkEscalated); !slices.Equal(r.Deciders, []hub.AgentID{"lead"}) {
			t.Errorf("got %v", r.Deciders)
		}
		if n := b.told("lead", hub.TypeStatusBlocked, "db"); n != 1 {
			t.Errorf("lead was told %d times", n)
		}
	})
	t.Run("R3-165 an escalation goes to the agent named, then to the operator, whose decision is final", func(t *testing.T) {
		b := seat(t)
		id := state(b, "bo")
		b.must(b.say(bo, hub.TypePositionChallenge, 2, challenge(id, "significant"), "ana"))
		up := func(to hub.AgentID) members {
			return members{"position_ids": []hub.EnvelopeID{id}, "summary": "s", "escalate_to": to, "reason": "stuck"}
		}
		_, err := b.say(ana, hub.TypePositionEscalate, 3, up("bo"), "bo")
		b.refused(err, hub.CodePolicy, "takes part")
		b.must(b.say(ana, hub.TypePositionEscalate, 3, up("cy"), "bo"))
		b.state(id, hub.TalkEscalated)
		text := ""
		for _, e := range b.inbox("cy") {
			if e.From == hub.Self && e.Context != nil {
				part, err := b.mail.Read(t.Context(), cy, e.ID, 1)
				if err != nil {
					t.Fatal(err)
				}
				text = part.Part.Text
			}
		}
		for _, want := range []string{"SQLite", "one file", "Postgres", "two writers", "## ana, position.state", "## bo, position.challenge"} {
			if !strings.Contains(text, want) {
				t.Errorf("the message lacks %q:\n%s", want, text)
			}
		}
		b.pass(25 * time.Hour)
		b.sweep()
		if r := b.state(id, hub.TalkEscalated); !slices.Equal(r.Deciders, []hub.AgentID{hub.Operator}) {
			t.Errorf("got %v", r.Deciders)
		}
		_, err = b.talks.Decide(t.Context(), cy, string(id), "late", "x")
		b.refused(err, hub.CodeNotFound, "")
		if _, err := b.talks.Decide(t.Context(), operator, string(id), "SQLite stays", "one file"); err != nil {
			t.Fatal(err)
		}
		b.state(id, hub.TalkDecided)
		if n := b.told("bo", hub.TypeKnowledgePush, "SQLite stays"); n != 1 {
			t.Errorf("bo was told %d times", n)
		}
	})
	t.Run("R3-168 silence escalates what is significant and lets the rest lapse", func(t *testing.T) {
		b := seat(t)
		quiet, loud := state(b, "bo"), state(b, "cy")
		b.must(b.say(bo, hub.TypePositionChallenge, 2, challenge(quiet, "minor"), "ana"))
		b.must(b.say(cy, hub.TypePositionChallenge, 2, challenge(loud, "significant"), "ana"))
		b.pass(24 * time.Hour)
		b.sweep()
		b.state(quiet, hub.TalkLapsed)
		b.state(loud, hub.TalkEscalated)
	})
	t.Run("rounds and numbers are those of a pair, and an addressee's concession ends its pair", func(t *testing.T) {
		b := seat(t)
		id := state(b, "bo", "cy")
		c := b.must(b.say(bo, hub.TypePositionChallenge, 2, challenge(id, "minor"), "ana")).ID
		b.must(b.say(cy, hub.TypePositionChallenge, 2, challenge(id, "minor"), "ana"))
		b.must(b.say(bo, hub.TypePositionConcede, 3, members{"position_id": id, "challenge_id": c, "what_changed_mind": "w"}, "ana"))
		b.state(id, hub.TalkChallenged)
	})
}

// Whatever hostile agents send in whatever order, a deliberation ends, and the hub
// sends a bounded number of messages.
func TestHostileSchedules(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			b := seat(t)
			callers := []hub.Caller{ana, bo, cy}
			ids := []hub.EnvelopeID{b.offer("bo", "cy"), b.must(b.say(ana, hub.TypePositionState, 1, position(nil), "bo", "cy")).ID}
			known := slices.Clone(ids)
			for range 300 {
				who := callers[rnd.IntN(3)]
				to := callers[rnd.IntN(3)].ID
				some := func() hub.EnvelopeID { return known[rnd.IntN(len(known))] }
				kinds := []struct {
					t hub.MessageType
					p members
				}{
					{hub.TypeTaskAccept, members{"offer_id": ids[0], "conditions": [][]string{nil, {"c"}}[rnd.IntN(2)]}},
					{hub.TypeTaskDecline, decline(ids[0])}, {hub.TypeTaskCounter, counter(ids[0])}, {hub.TypeTaskCounter, counter(ids[0])}, {hub.TypeTaskCounter, counter(ids[0])},
					{hub.TypePositionState, position(members{"revises": some()})},
					{hub.TypePositionChallenge, challenge(some(), hub.Severities[rnd.IntN(2)])},
					{hub.TypePositionConcede, members{"position_id": some(), "challenge_id": some(), "what_changed_mind": "w"}},
					{hub.TypePositionEscalate, members{"position_ids": []hub.EnvelopeID{some()}, "summary": "s", "escalate_to": "operator", "reason": "r"}},
				}
				k := kinds[rnd.IntN(len(kinds))]
				if k.p["conditions"] == nil || fmt.Sprint(k.p["conditions"]) == "[]" {
					delete(k.p, "conditions")
				}
				if r, err := b.say(who, k.t, int64(rnd.IntN(8)), k.p, to); err == nil && r.Status != mailroom.AlreadyClaimed {
					known = append(known, r.ID)
				} else if code := hub.CodeOf(err); code == hub.CodeInternal || code == hub.CodeDegraded {
					t.Fatal(err)
				}
				if rnd.IntN(10) == 0 {
					b.pass(time.Duration(rnd.IntN(20)) * time.Hour)
					b.sweep()
				}
			}
			for range 4 { // at the end only time passes
				b.pass(25 * time.Hour)
				b.sweep()
			}
			for _, id := range ids {
				r, err := b.talks.Show(t.Context(), operator, string(id))
				if err != nil {
					t.Fatal(err)
				}
				waits := r.State == hub.TalkEscalated && slices.Equal(r.Deciders, []hub.AgentID{hub.Operator})
				if !r.Over() && !waits {
					t.Errorf("%s is %s after all that time", r.Kind, r.State)
				}
				if n := len(r.Turns); n > 1+2*(3+1+2) {
					t.Errorf("%s has %d messages", r.Kind, n)
				}
			}
			sent := 0
			for _, who := range []hub.AgentID{"ana", "bo", "cy", hub.Operator} {
				for _, e := range b.inbox(who) {
					if e.From == hub.Self {
						sent++
					}
				}
			}
			if sent > 16 {
				t.Errorf("the hub sent %d messages", sent)
			}
		})
	}
}
