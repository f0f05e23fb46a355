package sessions_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/reach/sessions"
)

// turns is a router that lets every attempt go and remembers outcomes.
type turns struct{ outcomes []channel.State }

func (*turns) Valid(hub.Reader, hub.AgentID, string) (string, error) { return "", nil }
func (*turns) CarriesText(hub.Reader, hub.AgentID) (bool, error)     { return false, nil }
func (*turns) Started(hub.Reader, hub.AgentID, string) (bool, error) { return false, nil }
func (*turns) Visit(hub.AgentID)                                     {}
func (*turns) Show(hub.Tx, channel.Batch, string, bool) (bool, error) {
	return true, nil
}

func (t *turns) Record(_ hub.Tx, _ hub.AgentID, _ string, o channel.Outcome) error {
	t.outcomes = append(t.outcomes, o.State)
	return nil
}

// A world is a store with the registers of several hubs on it.
type world struct {
	t     *testing.T
	store *sqlite.Store
	now   time.Time
	turns turns
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	var err error
	if w.store, err = sqlite.Open(t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	return w
}

// register returns the register of a further hub.
func (w *world) register() *sessions.Register {
	g := sessions.New(w.store, sessions.Options{Clock: func() time.Time { return w.now }, Bus: new(bus.Local)})
	g.Connect(&w.turns)
	return g
}

var (
	builder = hub.Caller{ID: "builder"}
	key     = sessions.Key{CLI: "claude", ID: "s", Process: 7}
)

func (w *world) wait(g *sessions.Register, name string) sessions.Call {
	w.t.Helper()
	got, err := g.Wait(w.t.Context(), builder, sessions.Waiter{Key: key, Mechanism: "monitor", Waiter: name, Attended: true, Seconds: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// deliver gives the channel of attended sessions a batch.
func (w *world) deliver(g *sessions.Register, id string) channel.Outcome {
	w.t.Helper()
	session, _ := g.Channels()
	got, err := session.Deliver(w.t.Context(), channel.Batch{ID: id, Recipient: "builder", Probe: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) report(g *sessions.Register, e sessions.Event, wakes ...string) {
	w.t.Helper()
	if _, err := g.Report(w.t.Context(), builder, sessions.Report{Key: key, Event: e, Wakes: wakes}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) session(g *sessions.Register) sessions.Session {
	w.t.Helper()
	list, err := hub.Read(w.t.Context(), w.store, func(r hub.Reader) ([]sessions.Session, error) { return g.List(r, "builder") })
	if err != nil || len(list) != 1 {
		w.t.Fatalf("got %+v, %v, want one session", list, err)
	}
	return list[0]
}

func TestNewestWaiterWins(t *testing.T) {
	t.Run("at hubs that share a store", func(t *testing.T) {
		w := newWorld(t)
		one, two := w.register(), w.register()
		if got := w.wait(one, "older"); got.Gone {
			t.Errorf("the only waiter: got %+v", got)
		}
		if got := w.wait(two, "newer"); got.Gone {
			t.Errorf("the newer one: got %+v", got)
		}
		w.deliver(one, "w_1")
		if got := w.wait(one, "older"); !got.Gone || got.Wake != nil {
			t.Errorf("the older one: got %+v", got)
		}
		if got := w.wait(two, "newer"); got.Wake == nil || got.Wake.ID != "w_1" {
			t.Errorf("the newer one: got %+v", got)
		}
	})
	t.Run("while the older one waits", func(t *testing.T) {
		w := newWorld(t)
		g := w.register()
		gone := make(chan sessions.Call, 1)
		go func() {
			got, _ := g.Wait(context.Background(), builder, sessions.Waiter{Key: key, Mechanism: "monitor", Waiter: "older", Seconds: 60})
			gone <- got
		}()
		for { // until it is there
			list, err := hub.Read(t.Context(), w.store, func(r hub.Reader) ([]sessions.Session, error) { return g.List(r, "builder") })
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 1 {
				break
			}
		}
		w.wait(g, "newer")
		if got := <-gone; !got.Gone {
			t.Errorf("got %+v", got)
		}
	})
}

func TestStates(t *testing.T) {
	w := newWorld(t)
	g := w.register()
	for _, step := range []struct {
		event sessions.Event
		want  sessions.State
	}{
		{sessions.EventStart, sessions.StateStarting}, {sessions.EventPrompt, sessions.StateWorking}, {sessions.EventTool, sessions.StateWorking},
		{sessions.EventWaiting, sessions.StateWaiting}, {sessions.EventTurnEnd, sessions.StateIdle}, {sessions.EventEnd, sessions.StateEnded},
		{sessions.EventStart, sessions.StateStarting},
	} {
		w.report(g, step.event)
		if got := w.session(g).State; got != step.want {
			t.Errorf("after %s: got %s, want %s", step.event, got, step.want)
		}
	}
}

func TestReach(t *testing.T) {
	w := newWorld(t)
	g := w.register()
	reach := func() string {
		session, _ := g.Channels()
		r, err := hub.Read(t.Context(), w.store, func(r hub.Reader) (channel.Reach, error) { return session.Forecast(r, "builder") })
		if err != nil {
			t.Fatal(err)
		}
		return string(r.When) + ": " + r.Reason
	}
	steps := []struct {
		do   func()
		want string
	}{
		{func() {}, "unreachable: it has no live session in a terminal"},
		{func() { w.wait(g, "a") }, "now: idle in claude, reachable by monitor"},
		{func() { w.report(g, sessions.EventPrompt) }, "on_poll: busy in claude, will see it after this turn"},
		{func() { w.report(g, sessions.EventWaiting) }, "on_poll: waits for a person in claude, will see it after this turn"},
		{func() { w.report(g, sessions.EventTurnEnd) }, "now: idle in claude, reachable by monitor"},
		{func() { w.report(g, sessions.EventPrompt); w.now = w.now.Add(150 * time.Second) }, "now: idle in claude, reachable by monitor"}, // interrupted by its user
		{func() { w.now = w.now.Add(time.Hour) }, "on_poll: idle in claude, cannot be woken: it sees the message at its next prompt"},
		{func() { w.report(g, sessions.EventEnd) }, "unreachable: it has no live session in a terminal"},
	}
	for i, s := range steps {
		s.do()
		if got := reach(); got != s.want {
			t.Errorf("step %d: got %q, want %q", i, got, s.want)
		}
	}
	if got := w.deliver(g, "w_1"); got.State != channel.Refused {
		t.Errorf("a batch for a session that ended: got %+v", got)
	}
}

func TestProof(t *testing.T) {
	w := newWorld(t)
	g := w.register()
	w.report(g, sessions.EventStart)
	w.wait(g, "a")
	w.deliver(g, "w_1")
	if got := w.wait(g, "a"); got.Wake == nil {
		t.Fatalf("got %+v", got)
	}
	if err := g.Handed(t.Context(), builder, sessions.Handing{Wake: "w_1", Outcome: channel.Handed}); err != nil {
		t.Fatal(err)
	}
	if got := w.wait(g, "a"); got.Wake != nil {
		t.Errorf("a wake that was written is given again: %+v", got)
	}
	w.report(g, sessions.EventPrompt, "w_other")
	w.report(g, sessions.EventPrompt, "w_1")
	w.report(g, sessions.EventTurnEnd)
	want := []channel.State{channel.Handed, channel.Handed, channel.Handed, channel.TurnStarted, channel.TurnEnded}
	if got := w.turns.outcomes; len(got) != len(want) || got[3] != want[3] || got[4] != want[4] {
		t.Errorf("got %v, want %v", got, want)
	}
	if w.session(g).LastProof.IsZero() {
		t.Error("the proof has no time")
	}
}

func TestRelease(t *testing.T) {
	w := newWorld(t)
	g := w.register()
	end := func(release bool) {
		t.Helper()
		if _, err := g.Report(t.Context(), builder, sessions.Report{Key: key, Event: sessions.EventEnd, Release: release}); err != nil {
			t.Fatal(err)
		}
	}
	w.wait(g, "one")
	end(false)
	if got := w.wait(g, "one"); got.Gone {
		t.Error("the waiter of a CLI that goes on in another session ended")
	}
	end(true)
	if got := w.wait(g, "one"); !got.Gone || w.session(g).State != sessions.StateEnded {
		t.Errorf("after the end: got %+v, session %+v", got, w.session(g))
	}
	if got := w.wait(g, "two"); got.Gone || w.session(g).State != sessions.StateIdle {
		t.Errorf("the next waiter: got %+v, session %+v", got, w.session(g))
	}
}

func TestVersions(t *testing.T) {
	w := newWorld(t)
	g := w.register()
	wake := func(id, version string) sessions.Session {
		t.Helper()
		waiter := sessions.Waiter{Key: key, Version: version, Mechanism: "monitor", Waiter: version, Attended: true, Seconds: 1}
		for range 2 { // the first one arms
			if _, err := g.Wait(t.Context(), builder, waiter); err != nil {
				t.Fatal(err)
			}
			w.deliver(g, id)
		}
		return w.session(g)
	}
	if got := wake("w_1", "1.0.0"); got.Version != "1.0.0" || got.Proven != "" {
		t.Errorf("before a turn began: got %+v", got)
	}
	w.report(g, sessions.EventPrompt, "w_1")
	w.report(g, sessions.EventTurnEnd)
	if got := w.session(g); got.Proven != "1.0.0" {
		t.Errorf("after a turn began: got %+v", got)
	}
	w.now = w.now.Add(time.Hour)
	if got := wake("w_2", "1.1.0"); got.Version != "1.1.0" || got.Proven != "1.0.0" {
		t.Errorf("after the CLI was changed: got %+v", got)
	}
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	g := w.register()
	long := strings.Repeat("x", 3000)
	for name, p := range map[string]sessions.Waiter{
		"no session":      {Key: sessions.Key{CLI: "claude"}, Mechanism: "m"},
		"no mechanism":    {Key: key},
		"negative":        {Key: sessions.Key{CLI: "claude", ID: "s", Process: -1}, Mechanism: "m"},
		"too many":        {Key: key, Mechanism: "m", Seconds: 61},
		"a long name":     {Key: key, Mechanism: "m", Waiter: long},
		"a long session":  {Key: sessions.Key{CLI: "claude", ID: long}, Mechanism: "m"},
		"negative waits":  {Key: key, Mechanism: "m", Seconds: -1},
		"a long program":  {Key: sessions.Key{CLI: long, ID: "s"}, Mechanism: "m"},
		"a long folder":   {Key: key, Mechanism: "m", Cwd: long},
		"a long mechanic": {Key: key, Mechanism: long},
	} {
		if _, err := g.Wait(t.Context(), builder, p); hub.CodeOf(err) != hub.CodeInvalid && hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("wait, %s: got %v", name, err)
		}
	}
	for name, p := range map[string]sessions.Report{
		"an unknown event": {Key: key, Event: "dance"},
		"no event":         {Key: key},
		"many wakes":       {Key: key, Event: sessions.EventPrompt, Wakes: make([]string, 21)},
	} {
		if _, err := g.Report(t.Context(), builder, p); hub.CodeOf(err) != hub.CodeInvalid && hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("report, %s: got %v", name, err)
		}
	}
	for want, p := range map[hub.Code]sessions.Handing{
		hub.CodeInvalid:  {Wake: "w_1", Outcome: channel.Read},
		hub.CodeNotFound: {Wake: "w_1", Outcome: channel.Handed},
		hub.CodeTooLarge: {Wake: "w_1", Outcome: channel.Failed, Detail: long},
	} {
		if err := g.Handed(t.Context(), builder, p); hub.CodeOf(err) != want {
			t.Errorf("handed: got %v, want %s", err, want)
		}
	}
	list, err := hub.Read(t.Context(), w.store, func(r hub.Reader) ([]sessions.Session, error) { return g.List(r, "builder") })
	if err != nil || len(list) != 0 {
		t.Errorf("bad input left %+v, %v", list, err)
	}
}
