package wake_test

import (
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/reach/wake"
)

// life returns what a machine knows about a session of the builder.
func (w *world) life(g *wake.Machine, session string) hub.SessionLife {
	w.t.Helper()
	got, err := hub.Read(w.t.Context(), w.store, func(r hub.Reader) (hub.SessionLife, error) { return g.Life(r, builder.ID, session) })
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func TestLife(t *testing.T) {
	w := newWorld(t)
	dead := false
	g, err := wake.New(w.store, nil, wake.Options{
		Clock: func() time.Time { return w.now }, Bus: new(bus.Local),
		Ended: func(int, string) bool { return dead },
	})
	if err != nil {
		t.Fatal(err)
	}
	report := func(stamp string, e wake.Event) {
		t.Helper()
		if _, err := g.Report(t.Context(), builder, wake.Report{Key: key, Stamp: stamp, Event: e}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(session string, want hub.SessionLife) {
		t.Helper()
		if got := w.life(g, session); got != want {
			t.Errorf("session %q: got %+v, want %+v", session, got, want)
		}
	}

	expect("s", hub.SessionLife{})
	report("", wake.EventPrompt)
	began := hub.At(w.now)
	expect("s", hub.SessionLife{Known: true, Busy: true, Seen: began})
	expect("", hub.SessionLife{Known: true, Busy: true, Seen: began})
	expect("of a subagent", hub.SessionLife{Known: true, Busy: true, Seen: began})

	// A silent turn counts as long as its process is known to live.
	w.now = w.now.Add(time.Hour)
	expect("s", hub.SessionLife{Known: true, Seen: began})
	report("stamp", wake.EventTool)
	began = hub.At(w.now)
	w.now = w.now.Add(time.Hour)
	expect("s", hub.SessionLife{Known: true, Busy: true, Seen: began})

	// The request of a waiter is no sign of life of the session.
	wait := func() {
		t.Helper()
		if _, err := g.Wait(t.Context(), builder, wake.Waiter{Key: key, Stamp: "stamp", Mechanism: "monitor", Waiter: "waiter", Seconds: 1}); err != nil {
			t.Fatal(err)
		}
	}
	wait()
	report("stamp", wake.EventTurnEnd)
	ended := hub.At(w.now)
	w.now = w.now.Add(time.Minute)
	wait()
	expect("s", hub.SessionLife{Known: true, Seen: ended})

	// A process that died ends its session, and no other.
	dead = true
	expect("s", hub.SessionLife{Known: true, Over: true, Seen: ended})
	expect("of a subagent", hub.SessionLife{})
	dead = false
	report("stamp", wake.EventEnd)
	expect("s", hub.SessionLife{Known: true, Over: true, Seen: hub.At(w.now)})
}
