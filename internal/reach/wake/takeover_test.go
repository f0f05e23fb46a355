package wake

import (
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
)

// The documents of the version before, with wakes in every state that it stored.
const (
	oldAccount = `{"allowed":true,"per_hour":5,"barren":2,"attempts":[
		{"id":"w_ended","channel":"session","mechanism":"monitor","at":"2026-02-21T08:30:00.000Z","state":"turn_ended","proven":"2026-02-21T08:30:02.000Z","senders":["ada"],"roots":["m1"],"cost":1,"closed":true},
		{"id":"w_barren","channel":"session","at":"2026-02-21T08:40:00.000Z","state":"failed","senders":["ada"],"cost":2,"closed":true},
		{"id":"w_shown","channel":"session","at":"2026-02-21T08:41:00.000Z","state":"offered","hook":true,"closed":true},
		{"id":"w_notify","channel":"channel","at":"2026-02-21T08:59:00.000Z","state":"handed","until":"2026-02-21T09:10:00.000Z","messages":["m2"]},
		{"id":"w_open","channel":"session","mechanism":"monitor","at":"2026-02-21T08:59:30.000Z","state":"handed","until":"2026-02-21T09:05:00.000Z","messages":["m1","m2"],"senders":["ada"],"cost":1,"interrupt":true}
	]}`
	oldSessions = `{"sessions":[
		{"cli":"claude","session":"s","process":7,"mechanism":"monitor","state":"idle","attended":true,"armed":"2026-02-21T08:00:00.000Z","seen":"2026-02-21T08:59:50.000Z",
		 "wake":{"id":"w_open","interrupt":true,"taken":"2026-02-21T08:59:31.000Z"}},
		{"cli":"codex","session":"t","state":"working","seen":"2026-02-21T08:59:50.000Z","turn":"w_ended"}
	]}`
)

func TestTakeOver(t *testing.T) {
	store, err := sqlite.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	now := time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)
	g, err := New(store, nil, Options{Clock: func() time.Time { return now }, Bus: new(bus.Local)})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		if err := tx.PutMeta(accountKey("builder"), oldAccount); err != nil {
			return err
		}
		return tx.PutMeta(sessionsKey("builder"), oldSessions)
	})
	if err != nil {
		t.Fatal(err)
	}

	check := func(when string) {
		t.Helper()
		a, err := hub.Read(t.Context(), store, func(rd hub.Reader) (*agentRecord, error) { return g.load(rd, "builder") })
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]hub.WakeState{"w_ended": hub.WakeEnded, "w_barren": hub.WakeFailed, "w_shown": hub.WakeShown, "w_notify": hub.WakeHanded, "w_open": hub.WakeTaken}
		if len(a.wakes) != len(want) || !a.account.Allowed || a.account.Barren != 2 || a.account.PerHour != 5 {
			t.Errorf("%s: got %d wakes, account %+v", when, len(a.wakes), a.account)
		}
		for id, state := range want {
			if w := a.wakes.find(id); w == nil || w.State != state || w.Agent != "builder" {
				t.Errorf("%s: %s: got %+v, want %s", when, id, w, state)
			}
		}
		if n, _ := a.wakes.spent(a.now, "ada"); n != 4 {
			t.Errorf("%s: %d turns are spent, want 4", when, n)
		}
		k := Key{CLI: "claude", ID: "s", Process: 7}
		w := a.wakes.offered(k)
		if w == nil || w.ID != "w_open" || len(w.Messages) != 2 || !w.Interrupt || w.Cost != 1 || w.Taken.IsZero() || w.Until.IsZero() {
			t.Errorf("%s: the wake on its way: got %+v", when, w)
		}
		if got := a.wakes.turn(Key{CLI: "codex", ID: "t"}); got != nil {
			t.Errorf("%s: a turn that ended runs: %+v", when, got)
		}
	}
	check("as read")
	if err := g.update(t.Context(), "builder", func(*agentRecord) error { return nil }); err != nil {
		t.Fatal(err)
	}
	check("as stored again")

	if err := g.Handed(t.Context(), hub.Caller{ID: "builder"}, Handing{Wake: "w_open", Outcome: channel.Handed}); err != nil {
		t.Errorf("its waiter reports it: %v", err)
	}
	if got, err := g.WakeState(t.Context(), "builder", "w_open"); err != nil || got != channel.Handed {
		t.Errorf("after its waiter wrote it: got %s, %v", got, err)
	}
}

// A look at an agent without sessions, permission and wakes stores nothing.
func TestNothingIsStoredForNothing(t *testing.T) {
	store, err := sqlite.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g, err := New(store, nil, Options{Clock: time.Now, Bus: new(bus.Local)})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.update(t.Context(), "builder", func(*agentRecord) error { return nil }); err != nil {
		t.Fatal(err)
	}
	err = store.View(t.Context(), func(rd hub.Reader) error {
		for _, key := range []string{accountKey("builder"), sessionsKey("builder")} {
			if got, err := rd.Meta(key); hub.CodeOf(err) != hub.CodeNotFound {
				t.Errorf("%s: got %s, %v", key, got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
