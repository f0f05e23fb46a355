package event_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}

// secret is long enough for a source.
const secret = "0123456789abcdef0123456789abcdef"

// A world is a hub with the agents planner, builder and tester, and the source hooks of GitHub, whose events go to
// planner if the hub knows no owner.
type world struct {
	*testing.T
	now     time.Time
	store   storetest.Store
	keys    *keys.Service
	mail    *mailroom.Mailroom
	remotes map[string][]string // by folder
	*event.Service
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), remotes: map[string][]string{}}
	w.store = storetest.Open(t, t.TempDir())
	clock := func() time.Time {
		w.now = w.now.Add(time.Millisecond)
		return w.now
	}
	w.keys = keys.New(w.store, &keys.Options{Clock: clock, Self: "aid://example.com/hub@1.0.0"})
	_, err := w.keys.EnsureOperator(t.Context(), "")
	w.must(err)
	for _, name := range []hub.AgentID{"planner", "builder", "tester"} {
		_, _, _, err := w.keys.AddAgent(t.Context(), operator, hub.Agent{ID: name, Role: hub.RoleExecutor}, keys.NewKey{})
		w.must(err)
	}
	w.mail, err = mailroom.New(w.store, w.keys, &mailroom.Options{Clock: clock, Limits: mailroom.Limits{Unsafe: true}, Features: hub.Features})
	w.must(err)
	w.Service = event.New(w.store, w.mail, plainVault{}, &event.Options{
		Clock: clock, Teams: true, AID: func(id hub.AgentID) coord.AID { return w.keys.AID(id) },
		Remotes: func(_ context.Context, folder string) []string { return w.remotes[folder] },
	})
	w.source(func(*event.Setting) {})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// source adds the source hooks, changed by change.
func (w *world) source(change func(*event.Setting)) event.Source {
	w.Helper()
	set := event.Setting{Name: "hooks", Vendor: hub.VendorGitHub, Secret: secret, To: "planner"}
	change(&set)
	got, err := w.Add(w.Context(), operator, set)
	w.must(err)
	return got
}

// receive takes an event of hooks.
func (w *world) receive(e hub.Event) event.Receipt {
	w.Helper()
	got, err := w.Receive(w.Context(), "hooks", e)
	w.must(err)
	return got
}

// inbox returns the messages that an agent has not read.
func (w *world) inbox(agent hub.AgentID) []hub.Envelope {
	w.Helper()
	kind := hub.CallerAgent
	if agent == hub.Operator {
		kind = hub.CallerOperator
	}
	got, err := w.mail.Inbox(w.Context(), hub.Caller{Kind: kind, ID: agent}, mailroom.InboxRequest{})
	w.must(err)
	return got.Messages
}

// eventOf returns the event in a message.
func (w *world) eventOf(m hub.Envelope) (e hub.Event) {
	w.Helper()
	w.must(json.Unmarshal(m.Payload, &e))
	return e
}

// write changes the store.
func (w *world) write(change func(tx hub.Tx) error) {
	w.Helper()
	w.must(w.store.Update(w.Context(), hub.SurvivesKill, change))
}

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
