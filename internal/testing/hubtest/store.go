// Package hubtest is the conformance suite of hub.Store: every engine passes it
// unchanged. Each case is named after the rule it checks; together they say in
// words and in code what the interface promises. A new method of the interface
// comes with its case here. Only tests import this package.
package hubtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// TestStore checks that a hub.Store keeps every promise of the interface. open
// returns an empty store, and a function that closes the store it returned
// last and opens it again on the same data. open sees to the cleaning up.
func TestStore(t *testing.T, open func(t *testing.T) (store hub.Store, reopen func() hub.Store)) {
	groups := []struct {
		name  string
		tests []storeTest
	}{
		{"agents", agentTests},
		{"messages", messageTests},
		{"inbox", inboxTests},
		{"query", queryTests},
		{"ledger", ledgerTests},
		{"readers", readerTests},
		{"handoffs", handoffTests},
		{"runs", runTests},
		{"roots", rootTests},
		{"items", itemTests},
		{"wakes", wakeTests},
		{"reservations", reservationTests},
		{"checks", checkTests},
		{"landings", landingTests},
		{"usage", usageTests},
		{"continuations", continuationTests},
		{"events", eventTests},
		{"subscriptions", subscriptionTests},
		{"deliberations", deliberationTests},
		{"teams", teamTests},
		{"artifacts of teams", artifactTests},
		{"projects", projectTests},
		{"results", resultTests},
		{"peers", peerTests},
		{"journal", journalTests},
		{"tree", treeTests},
		{"meta", metaTests},
		{"transactions", transactionTests},
	}

	// Each test has an empty store of its own.
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, test := range g.tests {
				t.Run(test.name, func(t *testing.T) {
					store, reopen := open(t)
					test.run(&world{T: t, store: store, reopen: reopen, ids: hub.NewIDs(tick())})
				})
			}
		})
	}
}

// A storeTest is one rule that a store must keep.
type storeTest struct {
	name string // reads as the rule
	run  func(w *world)
}

// tick returns a clock that moves on by a second each time it is read.
func tick() hub.Clock {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

// A world is a test with its store.
type world struct {
	*testing.T
	store  hub.Store
	reopen func() hub.Store
	ids    *hub.IDs
}

// epoch is a time before everything that a world makes.
var epoch = hub.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func (w *world) update(fn func(tx hub.Tx) error) {
	w.Helper()
	if err := w.store.Update(context.Background(), hub.SurvivesKill, fn); err != nil {
		w.Fatalf("Update: %v", err)
	}
}

// indexText makes every message findable by text and topic.
func (w *world) indexText() {
	w.Helper()
	if err := w.store.IndexText(context.Background()); err != nil {
		w.Fatalf("IndexText: %v", err)
	}
}

func (w *world) view(fn func(r hub.Reader) error) {
	w.Helper()
	if err := w.store.View(context.Background(), fn); err != nil {
		w.Fatalf("View: %v", err)
	}
}

// refuse runs an Update that must fail with a code.
func (w *world) refuse(want hub.Code, fn func(tx hub.Tx) error) {
	w.Helper()
	err := w.store.Update(context.Background(), hub.SurvivesKill, fn)
	if got := hub.CodeOf(err); got != want {
		w.Errorf("Update: got code %q (%v), want %q", got, err, want)
	}
}

// miss runs a View that must fail with a code.
func (w *world) miss(want hub.Code, fn func(r hub.Reader) error) {
	w.Helper()
	err := w.store.View(context.Background(), fn)
	if got := hub.CodeOf(err); got != want {
		w.Errorf("View: got code %q (%v), want %q", got, err, want)
	}
}

// summary returns a payload with one text.
func summary(text string) json.RawMessage {
	b, err := json.Marshal(map[string]string{"summary": text})
	if err != nil {
		panic(err)
	}
	return b
}

// message returns a message that is ready to be stored.
func (w *world) message(from hub.AgentID, to ...hub.AgentID) hub.Message {
	id := w.ids.Next()
	return hub.Message{Envelope: hub.Envelope{
		ID: id, Protocol: hub.Protocol, Version: hub.Version,
		From: from, To: to, ThreadID: string(id),
		Type: hub.TypeStatusUpdate, Priority: hub.PriorityNormal, Status: hub.StatusPending,
		Payload: json.RawMessage(`{"summary":"done"}`), Policy: hub.DefaultPolicy,
		CreatedAt: id.Time(),
	}}
}

// parties returns the sender and the recipients in a state.
func parties(m hub.Message, state hub.PartyState) []hub.Party {
	all := []hub.Party{{Agent: m.From, State: hub.PartySender}}
	for _, id := range m.To {
		all = append(all, hub.Party{Agent: id, State: state})
	}
	return all
}

// add stores a message whose recipients have not seen it.
func (w *world) add(m hub.Message) hub.Message {
	w.Helper()
	w.update(func(tx hub.Tx) error { return tx.AddMessage(m, parties(m, hub.PartyUnread)) })
	return m
}

// send stores a plain message.
func (w *world) send(from hub.AgentID, to ...hub.AgentID) hub.Message {
	w.Helper()
	return w.add(w.message(from, to...))
}

// same compares by what goes over the wire.
func (w *world) same(what string, got, want any) {
	w.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
	v, err := json.Marshal(want)
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
	if string(g) != string(v) {
		w.Errorf("%s:\n got %s\nwant %s", what, g, v)
	}
}

func (w *world) equal(what string, got, want any) {
	w.Helper()
	if !reflect.DeepEqual(got, want) {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// idsOf returns the ids of messages.
func idsOf(all []hub.Message) []hub.EnvelopeID {
	ids := []hub.EnvelopeID{}
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	return ids
}

var agentTests = []storeTest{
	{"an agent is found as it was added", func(w *world) {
		a := hub.Agent{ID: "ada", Role: hub.RoleReviewer, Auditor: true, State: hub.AgentActive, CreatedAt: epoch, Can: []string{"go", "sql"}}
		b := hub.Agent{ID: "bob", Role: hub.RoleExecutor, State: hub.AgentPaused, CreatedAt: epoch.Add(time.Second)}
		w.update(func(tx hub.Tx) error { return errors.Join(tx.PutAgent(b, ""), tx.PutAgent(a, "")) })
		w.view(func(r hub.Reader) error {
			got, err := r.Agent("ada")
			w.equal("agent", got, a)
			all, err2 := r.Agents()
			w.equal("agents by id", all, []hub.Agent{a, b})
			return errors.Join(err, err2)
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Agent("eve"); return err })
	}},
	{"a name is taken once", func(w *world) {
		a := hub.Agent{ID: "ada", Role: hub.RoleReviewer, State: hub.AgentActive, CreatedAt: epoch}
		w.update(func(tx hub.Tx) error { return tx.PutAgent(a, "") })
		b := a
		b.Role = hub.RoleCoordinator
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutAgent(b, "") })
		w.view(func(r hub.Reader) error {
			got, err := r.Agent("ada")
			w.equal("role", got.Role, hub.RoleReviewer)
			return err
		})
	}},
	{"state and role of an agent are set provided its state is as the caller believes", func(w *world) {
		a := hub.Agent{ID: "ada", Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: epoch}
		w.update(func(tx hub.Tx) error { return tx.PutAgent(a, "") })
		a.State, a.Role = hub.AgentPaused, hub.RoleReviewer
		w.update(func(tx hub.Tx) error { return tx.PutAgent(a, hub.AgentActive) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutAgent(a, hub.AgentActive) })
		w.view(func(r hub.Reader) error {
			got, err := r.Agent("ada")
			w.equal("state", got.State, hub.AgentPaused)
			w.equal("role", got.Role, hub.RoleReviewer)
			return err
		})
		a.ID = "eve"
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutAgent(a, hub.AgentActive) })
	}},
	{"keys are found by hash and listed oldest first", func(w *world) {
		k1 := hub.Key{ID: "k1", Agent: "ada", Label: "laptop", Hash: hub.HashSecret("one"), Hint: "xone", CreatedAt: epoch, ExpiresAt: epoch.Add(time.Hour)}
		k2 := hub.Key{ID: "k2", Agent: "ada", Label: "ci", Hash: hub.HashSecret("two"), Hint: "xtwo", CreatedAt: epoch.Add(time.Second)}
		w.update(func(tx hub.Tx) error {
			return errors.Join(
				tx.PutAgent(hub.Agent{ID: "ada", Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: epoch}, ""),
				tx.AddKey(k2), tx.AddKey(k1))
		})
		w.view(func(r hub.Reader) error {
			got, err := r.KeyByHash(k1.Hash)
			w.equal("key", got, k1)
			all, err2 := r.Keys("ada")
			w.equal("keys", all, []hub.Key{k1, k2})
			none, err3 := r.Keys("bob")
			w.equal("keys of nobody", len(none), 0)
			return errors.Join(err, err2, err3)
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.KeyByHash("nonsense"); return err })
	}},
	{"a label is used once per agent, also after it was revoked", func(w *world) {
		agent := func(id hub.AgentID) hub.Agent {
			return hub.Agent{ID: id, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: epoch}
		}
		key := func(id, secret string, owner hub.AgentID) hub.Key {
			return hub.Key{ID: hub.KeyID(id), Agent: owner, Label: "laptop", Hash: hub.HashSecret(secret), CreatedAt: epoch}
		}
		w.update(func(tx hub.Tx) error {
			return errors.Join(tx.PutAgent(agent("ada"), ""), tx.PutAgent(agent("bob"), ""), tx.AddKey(key("k1", "one", "ada")))
		})
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.AddKey(key("k2", "two", "ada")) })
		w.update(func(tx hub.Tx) error { _, err := tx.RevokeKeys("ada", "", epoch); return err })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.AddKey(key("k2", "two", "ada")) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.AddKey(key("k3", "one", "bob")) }) // the same secret
		w.update(func(tx hub.Tx) error { return tx.AddKey(key("k2", "two", "bob")) })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.AddKey(key("k4", "four", "eve")) })
	}},
	{"revoking counts the keys that were live", func(w *world) {
		at := epoch.Add(time.Minute)
		w.update(func(tx hub.Tx) error {
			err := tx.PutAgent(hub.Agent{ID: "ada", Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: epoch}, "")
			for _, label := range []string{"a", "b", "c"} {
				err = errors.Join(err, tx.AddKey(hub.Key{ID: hub.KeyID(label), Agent: "ada", Label: label, Hash: hub.HashSecret(label), CreatedAt: epoch}))
			}
			return err
		})
		for _, step := range []struct {
			label string
			want  int
		}{{"b", 1}, {"b", 0}, {"nothing", 0}, {"", 2}, {"", 0}} {
			w.update(func(tx hub.Tx) error {
				n, err := tx.RevokeKeys("ada", step.label, at)
				w.equal(fmt.Sprintf("revoked with label %q", step.label), n, step.want)
				return err
			})
		}
		w.view(func(r hub.Reader) error {
			k, err := r.KeyByHash(hub.HashSecret("b"))
			w.equal("revoked at", k.RevokedAt, at)
			return err
		})
	}},
}

// full returns a message with every member set.
func (w *world) full() hub.Message {
	m := w.message("ada", "bob", "cleo")
	n := int64(7)
	size := int64(12)
	yes := true
	m.Team = "core"
	m.ReplyTo = w.ids.Next()
	m.Topic = "build & test"
	m.Type = hub.TypeKnowledgePush
	m.Priority = hub.PriorityCritical
	m.Sequence = &n
	m.ExpiresAt = m.CreatedAt.Add(time.Hour)
	m.UpdatedAt = m.CreatedAt.Add(time.Minute)
	m.Payload = json.RawMessage("{ \"b\" : 1.50,\n\"a\":\"<ü&\\u00e9\\\"> \" }")
	m.Policy = hub.Policy{Visibility: hub.VisibilityAudit, Sensitivity: hub.SensitivityHigh, HumanGate: hub.GateRequired}
	m.Context = &hub.Context{
		SessionID:    "s<1>",
		ExternalRefs: []hub.ExternalRef{{Type: "pr", Value: "https://example.org/1?a=b&c", Version: "2"}},
		Artifacts:    []hub.ArtifactRef{{Type: "file", Path: "/tmp/x", SHA256: "00", SizeBytes: &size, Required: &yes}},
	}
	m.Extra = json.RawMessage(`{"x_new":[1, 2],"y":null}`)
	m.Hop, m.Cause = 3, w.ids.Next()
	return m
}

var messageTests = []storeTest{
	{"a message is read as it was stored, byte for byte", func(w *world) {
		for _, m := range []hub.Message{w.full(), w.message("ada", "bob")} {
			w.add(m)
			w.view(func(r hub.Reader) error {
				got, err := r.Message(m.ID)
				w.same("envelope", got.Envelope, m.Envelope)
				w.equal("payload", string(got.Payload), string(m.Payload))
				w.equal("extra", string(got.Extra), string(m.Extra))
				w.equal("hop", got.Hop, m.Hop)
				w.equal("cause", got.Cause, m.Cause)
				return err
			})
		}
	}},
	{"what does not exist is not found", func(w *world) {
		id := w.send("ada", "bob").ID
		other := w.ids.Next()
		for name, fn := range map[string]func(r hub.Reader) error{
			"message": func(r hub.Reader) error { _, err := r.Message(other); return err },
			"parties": func(r hub.Reader) error { _, err := r.Parties(other); return err },
			"party":   func(r hub.Reader) error { _, err := party(r, id, "cleo"); return err },
			"party 2": func(r hub.Reader) error { _, err := party(r, other, "bob"); return err },
			"mark":    func(r hub.Reader) error { _, err := r.SessionMark("ada", "s"); return err },
			"receipt": func(r hub.Reader) error { _, err := r.Receipt("ada", "k"); return err },
			"meta":    func(r hub.Reader) error { _, err := r.Meta("nothing"); return err },
		} {
			if got := hub.CodeOf(w.store.View(context.Background(), fn)); got != hub.CodeNotFound {
				w.Errorf("%s: got code %q, want %q", name, got, hub.CodeNotFound)
			}
		}
	}},
	{"an id is taken once", func(w *world) {
		m := w.send("ada", "bob")
		n := m
		n.Topic = "other"
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.AddMessage(n, parties(n, hub.PartyUnread)) })
		w.view(func(r hub.Reader) error {
			got, err := r.Message(m.ID)
			w.equal("topic", got.Topic, "")
			return err
		})
	}},
	{"an id that is taken does no harm to one who goes on", func(w *world) {
		m := w.send("ada", "bob")
		n := w.message("ada", "bob")
		w.update(func(tx hub.Tx) error {
			if err := tx.AddMessage(m, parties(m, hub.PartyUnread)); hub.CodeOf(err) != hub.CodeConflict {
				w.Errorf("got %v, want a conflict", err)
			}
			return tx.AddMessage(n, parties(n, hub.PartyUnread))
		})
		w.equal("messages", w.query(hub.Query{Viewer: "bob", Limit: 9}), []hub.EnvelopeID{n.ID, m.ID})
	}},
	{"ids of another kind are kept too", func(w *world) {
		m := w.message("ada", "bob")
		m.ID = "from-elsewhere/1"
		n := w.message("ada", "bob")
		n.ID, n.CreatedAt = "from-elsewhere/0", m.CreatedAt
		w.add(m)
		w.add(n)
		w.equal("count", len(w.query(hub.Query{Viewer: "bob", Limit: 9})), 2)
		w.equal("inbox", len(w.inbox("bob", hub.InboxFilter{})), 2)
	}},
	{"parties are the sender and every recipient", func(w *world) {
		m := w.send("ada", "bob", "cleo")
		w.view(func(r hub.Reader) error {
			got, err := r.Parties(m.ID)
			slices.SortFunc(got, func(a, b hub.Party) int { return strings.Compare(string(a.Agent), string(b.Agent)) })
			w.equal("parties", got, parties(m, hub.PartyUnread))
			p, err2 := party(r, m.ID, "cleo")
			w.equal("party", p, hub.Party{Agent: "cleo", State: hub.PartyUnread})
			return errors.Join(err, err2)
		})
	}},
	{"a status moves only from what it was", func(w *world) {
		m := w.send("ada", "bob")
		e, err := m.Advance(hub.StatusDelivered, m.CreatedAt.Add(time.Second))
		if err != nil {
			w.Fatal(err)
		}
		w.update(func(tx hub.Tx) error { return tx.PutStatus(e, hub.StatusPending) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutStatus(e, hub.StatusPending) })
		w.view(func(r hub.Reader) error {
			got, err := r.Message(m.ID)
			w.equal("status", got.Status, hub.StatusDelivered)
			w.equal("updated at", got.UpdatedAt, e.UpdatedAt)
			return err
		})
		e.ID = w.ids.Next()
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutStatus(e, hub.StatusDelivered) })
	}},
	{"the state of a recipient moves only from what it was", func(w *world) {
		m := w.send("ada", "bob", "cleo")
		put := func(id hub.EnvelopeID, a hub.AgentID, next, was hub.PartyState) func(hub.Tx) error {
			return func(tx hub.Tx) error { return tx.PutParty(id, a, next, was) }
		}
		w.update(put(m.ID, "bob", hub.PartyDelivered, hub.PartyUnread))
		w.refuse(hub.CodeConflict, put(m.ID, "bob", hub.PartyDelivered, hub.PartyUnread))
		w.refuse(hub.CodeConflict, put(m.ID, "eve", hub.PartyDelivered, hub.PartyUnread))
		w.refuse(hub.CodeConflict, put(w.ids.Next(), "bob", hub.PartyRead, hub.PartyDelivered))
		w.view(func(r hub.Reader) error {
			bob, err := party(r, m.ID, "bob")
			cleo, err2 := party(r, m.ID, "cleo")
			w.equal("states", []hub.PartyState{bob.State, cleo.State}, []hub.PartyState{hub.PartyDelivered, hub.PartyUnread})
			return errors.Join(err, err2)
		})
	}},
	{"a thread knows its size, rounds and sequence", func(w *world) {
		var thread string
		for i := range 5 {
			m := w.message("ada", "bob")
			if i == 0 {
				thread = m.ThreadID
			}
			m.ThreadID = thread
			if i > 1 {
				n := int64(i)
				m.Type, m.Sequence = hub.TypeTaskCounter, &n
			}
			w.add(m)
		}
		w.send("ada", "bob")
		w.view(func(r hub.Reader) error {
			size, err := r.CountMessages(hub.CountFilter{Thread: thread, Limit: 100})
			w.equal("size", size, 5)
			upTo, err2 := r.CountMessages(hub.CountFilter{Thread: thread, Limit: 3})
			w.equal("size up to 3", upTo, 3)
			rounds, err3 := r.CountMessages(hub.CountFilter{Thread: thread, Type: hub.TypeTaskCounter, Limit: 100})
			w.equal("rounds", rounds, 3)
			upTo, err4 := r.CountMessages(hub.CountFilter{Thread: thread, Type: hub.TypeTaskCounter, Limit: 2})
			w.equal("rounds up to 2", upTo, 2)
			return errors.Join(err, err2, err3, err4)
		})
	}},
	{"what an agent sent since a time comes newest first", func(w *world) {
		var sent []hub.Message
		for i := range 6 {
			m := w.message("ada", "bob")
			if i%2 == 1 {
				m.To = []hub.AgentID{hub.Everyone}
			}
			w.update(func(tx hub.Tx) error {
				return tx.AddMessage(m, []hub.Party{{Agent: "ada", State: hub.PartySender}, {Agent: "bob", State: hub.PartyUnread}})
			})
			sent = append(sent, m)
			w.send("bob", "ada")
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Sent(hub.SentFilter{From: "ada", Since: sent[2].CreatedAt, Limit: 3})
			var want []hub.Sent
			for _, i := range []int{5, 4, 3} {
				want = append(want, hub.Sent{At: sent[i].CreatedAt, To: sent[i].To, Type: sent[i].Type, Payload: sent[i].Payload})
			}
			w.same("sent", got, want)
			all, err2 := r.Sent(hub.SentFilter{From: "ada", Since: sent[2].CreatedAt, Limit: 99})
			w.equal("sent at or after", len(all), 4)
			return errors.Join(err, err2)
		})
	}},
	{"expired are those whose time has passed and that are not final", func(w *world) {
		now := epoch.Add(1000 * time.Hour)
		var want []hub.EnvelopeID
		for _, c := range []struct {
			expires hub.Time
			status  hub.MessageStatus
			expired bool
		}{
			{now.Add(-time.Hour), hub.StatusPending, true},
			{now, hub.StatusDelivered, true},
			{now.Add(time.Millisecond), hub.StatusPending, false},
			{hub.Time{}, hub.StatusPending, false},
			{now.Add(-time.Hour), hub.StatusRead, false},
			{now.Add(-time.Hour), hub.StatusExpired, false},
			{now.Add(-time.Hour), hub.StatusFailed, false},
		} {
			m := w.message("ada", "bob")
			m.ExpiresAt, m.Status = c.expires, c.status
			w.add(m)
			if c.expired {
				want = append(want, m.ID)
			}
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Expired(now, 99)
			slices.Sort(got)
			w.equal("expired", got, want)
			one, err2 := r.Expired(now, 1)
			w.equal("limit", len(one), 1)
			return errors.Join(err, err2)
		})
	}},
	{"held messages come oldest first until a human has spoken", func(w *world) {
		var held []hub.Message
		for range 3 {
			m := w.message("ada", "bob", "cleo")
			w.update(func(tx hub.Tx) error { return tx.AddMessage(m, parties(m, hub.PartyHeld)) })
			held = append(held, m)
			w.send("ada", "bob")
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Query(hub.Query{Audit: true, Held: true, Limit: 99})
			w.equal("held", idsOf(got.Messages), idsOf(held))
			got, err2 := r.Query(hub.Query{Audit: true, Held: true, Limit: 2})
			w.equal("first two", idsOf(got.Messages), idsOf(held[:2]))
			return errors.Join(err, err2)
		})
		w.update(func(tx hub.Tx) error {
			return errors.Join(
				tx.PutParty(held[0].ID, "bob", hub.PartyUnread, hub.PartyHeld), tx.PutParty(held[0].ID, "cleo", hub.PartyUnread, hub.PartyHeld),
				tx.PutParty(held[1].ID, "bob", hub.PartyFailed, hub.PartyHeld), tx.PutParty(held[1].ID, "cleo", hub.PartyFailed, hub.PartyHeld))
		})
		w.view(func(r hub.Reader) error {
			got, err := r.Query(hub.Query{Audit: true, Held: true, Limit: 99})
			w.equal("still held", idsOf(got.Messages), idsOf(held[2:]))
			return err
		})
	}},
}
