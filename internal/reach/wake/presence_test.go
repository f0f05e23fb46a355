package wake_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/reach/wake"
)

// A world is a store with the machines of several hubs on it.
type world struct {
	t     *testing.T
	store *sqlite.Store
	now   time.Time
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

// machine returns the machine of a further hub.
func (w *world) machine() *wake.Machine {
	w.t.Helper()
	g, err := wake.New(w.store, nil, wake.Options{
		Clock: func() time.Time { return w.now }, Bus: new(bus.Local),
		AsksTrust: func(cli string) bool { return cli == "codex" },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

var (
	builder = hub.Caller{ID: "builder"}
	key     = wake.Key{CLI: "claude", ID: "s", Process: 7}
)

func (w *world) wait(g *wake.Machine, name string) wake.Call {
	w.t.Helper()
	got, err := g.Wait(w.t.Context(), builder, wake.Waiter{Key: key, Mechanism: "monitor", Waiter: name, Attended: true, Seconds: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// deliver makes an attempt in the attended sessions of the builder, and returns how far it
// came.
func (w *world) deliver(g *wake.Machine, id string) channel.State {
	w.t.Helper()
	if err := g.TryWake(w.t.Context(), builder.ID, id); err != nil {
		w.t.Fatal(err)
	}
	return w.state(g, id)
}

// state returns the state of an attempt.
func (w *world) state(g *wake.Machine, id string) channel.State {
	w.t.Helper()
	got, err := g.WakeState(w.t.Context(), builder.ID, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) report(g *wake.Machine, e wake.Event, wakes ...string) {
	w.t.Helper()
	if _, err := g.Report(w.t.Context(), builder, wake.Report{Key: key, Event: e, Wakes: wakes}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) session(g *wake.Machine) wake.Session {
	w.t.Helper()
	list, err := hub.Read(w.t.Context(), w.store, func(r hub.Reader) ([]wake.Session, error) { return g.List(r, "builder") })
	if err != nil || len(list) != 1 {
		w.t.Fatalf("got %+v, %v, want one session", list, err)
	}
	return list[0]
}

func TestNewestWaiterWins(t *testing.T) {
	t.Run("at hubs that share a store", func(t *testing.T) {
		w := newWorld(t)
		one, two := w.machine(), w.machine()
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
		g := w.machine()
		gone := make(chan wake.Call, 1)
		go func() {
			got, _ := g.Wait(context.Background(), builder, wake.Waiter{Key: key, Mechanism: "monitor", Waiter: "older", Seconds: 60})
			gone <- got
		}()
		for { // until it is there
			list, err := hub.Read(t.Context(), w.store, func(r hub.Reader) ([]wake.Session, error) { return g.List(r, "builder") })
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
	g := w.machine()
	for _, step := range []struct {
		event wake.Event
		want  wake.SessionState
	}{
		{wake.EventStart, wake.SessionStarting}, {wake.EventPrompt, wake.SessionWorking}, {wake.EventTool, wake.SessionWorking},
		{wake.EventWaiting, wake.SessionWaiting}, {wake.EventTurnEnd, wake.SessionIdle}, {wake.EventEnd, wake.SessionEnded},
		{wake.EventStart, wake.SessionStarting},
	} {
		w.report(g, step.event)
		if got := w.session(g).State; got != step.want {
			t.Errorf("after %s: got %s, want %s", step.event, got, step.want)
		}
	}
}

func TestReach(t *testing.T) {
	w := newWorld(t)
	g := w.machine()
	reach := func() string {
		r, err := hub.Read(t.Context(), w.store, func(r hub.Reader) (channel.Reach, error) { return g.ForecastAttended(r, "builder") })
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
		{func() { w.report(g, wake.EventPrompt) }, "on_poll: busy in claude, will see it after this turn"},
		{func() { w.report(g, wake.EventWaiting) }, "on_poll: waits for a person in claude, will see it after this turn"},
		{func() { w.report(g, wake.EventTurnEnd) }, "now: idle in claude, reachable by monitor"},
		{func() { w.report(g, wake.EventPrompt); w.now = w.now.Add(150 * time.Second) }, "now: idle in claude, reachable by monitor"}, // interrupted by its user
		{func() { w.now = w.now.Add(time.Hour) }, "on_poll: idle in claude, cannot be woken: it sees the message at its next prompt"},
		{func() { w.report(g, wake.EventEnd) }, "unreachable: it has no live session in a terminal"},
	}
	for i, s := range steps {
		s.do()
		if got := reach(); got != s.want {
			t.Errorf("step %d: got %q, want %q", i, got, s.want)
		}
	}
	if got := w.deliver(g, "w_1"); got != channel.Refused {
		t.Errorf("a batch for a session that ended: got %+v", got)
	}
}

func TestTrustOfHooksIsAskedForOnce(t *testing.T) {
	w := newWorld(t)
	g := w.machine()
	codex := func(agent hub.AgentID) (hub.Caller, wake.Key) {
		return hub.Caller{ID: agent}, wake.Key{CLI: "codex", ID: string(agent), Process: 8}
	}
	reach := func(agent hub.AgentID) string {
		t.Helper()
		actor, key := codex(agent)
		if _, err := g.Wait(t.Context(), actor, wake.Waiter{Key: key, Mechanism: "rpc", Waiter: "a", Attended: true, Seconds: 1}); err != nil {
			t.Fatal(err)
		}
		r, err := hub.Read(t.Context(), w.store, func(r hub.Reader) (channel.Reach, error) { return g.ForecastAttended(r, agent) })
		if err != nil {
			t.Fatal(err)
		}
		return r.Reason
	}

	if got, want := reach("first"), "idle in codex, reachable by rpc; its hooks have not run yet: not active until trusted"; got != want {
		t.Errorf("before any hook ran: got %q, want %q", got, want)
	}
	actor, key := codex("first")
	if _, err := g.Report(t.Context(), actor, wake.Report{Key: key, Event: wake.EventStart}); err != nil {
		t.Fatal(err)
	}
	if got, want := reach("second"), "idle in codex, reachable by rpc"; got != want {
		t.Errorf("after a hook of another agent ran: got %q, want %q", got, want)
	}
}

func TestProof(t *testing.T) {
	w := newWorld(t)
	g := w.machine()
	w.report(g, wake.EventStart)
	w.wait(g, "a")
	w.deliver(g, "w_1")
	if got := w.wait(g, "a"); got.Wake == nil {
		t.Fatalf("got %+v", got)
	}
	if err := g.Handed(t.Context(), builder, wake.Handing{Wake: "w_1", Outcome: channel.Handed}); err != nil {
		t.Fatal(err)
	}
	if got := w.wait(g, "a"); got.Wake != nil {
		t.Errorf("a wake that was written is given again: %+v", got)
	}
	for _, step := range []struct {
		event wake.Event
		wakes []string
		want  channel.State
	}{
		{wake.EventPrompt, []string{"w_other"}, channel.Handed},
		{wake.EventPrompt, []string{"w_1"}, channel.TurnStarted},
		{wake.EventTurnEnd, nil, channel.TurnEnded},
	} {
		w.report(g, step.event, step.wakes...)
		if got := w.state(g, "w_1"); got != step.want {
			t.Errorf("after %s %v: got %s, want %s", step.event, step.wakes, got, step.want)
		}
	}
	if w.session(g).LastProof.IsZero() {
		t.Error("the proof has no time")
	}
}

// A wake that several sessions may take stays for the others when one of them ends.
func TestSeveralSessions(t *testing.T) {
	w := newWorld(t)
	g := w.machine()
	other := wake.Waiter{Key: wake.Key{CLI: "codex", ID: "t", Process: 8}, Mechanism: "queue", Attended: true, Seconds: 1}
	w.wait(g, "a")
	if _, err := g.Wait(t.Context(), builder, other); err != nil {
		t.Fatal(err)
	}
	if got := w.deliver(g, "w_1"); got != channel.Waiting {
		t.Fatalf("got %s", got)
	}

	w.report(g, wake.EventEnd)
	if got := w.state(g, "w_1"); got != channel.Waiting {
		t.Errorf("after one session ended: got %s, want it to wait for the other", got)
	}
	got, err := g.Wait(t.Context(), builder, other)
	if err != nil || got.Wake == nil || got.Wake.ID != "w_1" {
		t.Errorf("the other session: got %+v, %v", got, err)
	}
	if _, err := g.Report(t.Context(), builder, wake.Report{Key: other.Key, Event: wake.EventEnd}); err != nil {
		t.Fatal(err)
	}
	if got := w.state(g, "w_1"); got != channel.Failed {
		t.Errorf("after the session that has it ended: got %s", got)
	}
}

func TestRelease(t *testing.T) {
	w := newWorld(t)
	g := w.machine()
	end := func(release bool) {
		t.Helper()
		if _, err := g.Report(t.Context(), builder, wake.Report{Key: key, Event: wake.EventEnd, Release: release}); err != nil {
			t.Fatal(err)
		}
	}
	w.wait(g, "one")
	end(false)
	if got := w.wait(g, "one"); got.Gone {
		t.Error("the waiter of a CLI that goes on in another session ended")
	}
	end(true)
	if got := w.wait(g, "one"); !got.Gone || w.session(g).State != wake.SessionEnded {
		t.Errorf("after the end: got %+v, session %+v", got, w.session(g))
	}
	if got := w.wait(g, "two"); got.Gone || w.session(g).State != wake.SessionIdle {
		t.Errorf("the next waiter: got %+v, session %+v", got, w.session(g))
	}
}

func TestVersions(t *testing.T) {
	w := newWorld(t)
	g := w.machine()
	woken := func(id, version string) wake.Session {
		t.Helper()
		waiter := wake.Waiter{Key: key, Version: version, Mechanism: "monitor", Waiter: version, Attended: true, Seconds: 1}
		for range 2 { // the first one arms
			if _, err := g.Wait(t.Context(), builder, waiter); err != nil {
				t.Fatal(err)
			}
			w.deliver(g, id)
		}
		return w.session(g)
	}
	if got := woken("w_1", "1.0.0"); got.Version != "1.0.0" || got.Proven != "" {
		t.Errorf("before a turn began: got %+v", got)
	}
	w.report(g, wake.EventPrompt, "w_1")
	w.report(g, wake.EventTurnEnd)
	if got := w.session(g); got.Proven != "1.0.0" {
		t.Errorf("after a turn began: got %+v", got)
	}
	w.now = w.now.Add(time.Hour)
	if got := woken("w_2", "1.1.0"); got.Version != "1.1.0" || got.Proven != "1.0.0" {
		t.Errorf("after the CLI was changed: got %+v", got)
	}
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	g := w.machine()
	long := strings.Repeat("x", 3000)
	for name, p := range map[string]wake.Waiter{
		"no session":      {Key: wake.Key{CLI: "claude"}, Mechanism: "m"},
		"no mechanism":    {Key: key},
		"negative":        {Key: wake.Key{CLI: "claude", ID: "s", Process: -1}, Mechanism: "m"},
		"too many":        {Key: key, Mechanism: "m", Seconds: 61},
		"a long name":     {Key: key, Mechanism: "m", Waiter: long},
		"a long session":  {Key: wake.Key{CLI: "claude", ID: long}, Mechanism: "m"},
		"negative waits":  {Key: key, Mechanism: "m", Seconds: -1},
		"a long program":  {Key: wake.Key{CLI: long, ID: "s"}, Mechanism: "m"},
		"a long folder":   {Key: key, Mechanism: "m", Cwd: long},
		"a long mechanic": {Key: key, Mechanism: long},
	} {
		if _, err := g.Wait(t.Context(), builder, p); hub.CodeOf(err) != hub.CodeInvalid && hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("wait, %s: got %v", name, err)
		}
	}
	for name, p := range map[string]wake.Report{
		"an unknown event": {Key: key, Event: "dance"},
		"no event":         {Key: key},
		"many wakes":       {Key: key, Event: wake.EventPrompt, Wakes: make([]string, 21)},
	} {
		if _, err := g.Report(t.Context(), builder, p); hub.CodeOf(err) != hub.CodeInvalid && hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("report, %s: got %v", name, err)
		}
	}
	for want, p := range map[hub.Code]wake.Handing{
		hub.CodeInvalid:  {Wake: "w_1", Outcome: channel.Read},
		hub.CodeNotFound: {Wake: "w_1", Outcome: channel.Handed},
		hub.CodeTooLarge: {Wake: "w_1", Outcome: channel.Failed, Detail: long},
	} {
		if err := g.Handed(t.Context(), builder, p); hub.CodeOf(err) != want {
			t.Errorf("handed: got %v, want %s", err, want)
		}
	}
	list, err := hub.Read(t.Context(), w.store, func(r hub.Reader) ([]wake.Session, error) { return g.List(r, "builder") })
	if err != nil || len(list) != 0 {
		t.Errorf("bad input left %+v, %v", list, err)
	}
}

func TestLateWaiter(t *testing.T) {
	w := newWorld(t)
	g := w.machine()
	wait := func(name string, began time.Time) wake.Call {
		t.Helper()
		got, err := g.Wait(t.Context(), builder, wake.Waiter{Key: key, Mechanism: "monitor", Waiter: name, Attended: true, Seconds: 1, Began: hub.At(began)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}

	hooked := w.now
	w.report(g, wake.EventPrompt)
	w.now = w.now.Add(time.Second)
	w.report(g, wake.EventEnd)
	if got := wait("slow", hooked); !got.Gone {
		t.Error("a waiter that came after the end of its session waits on")
	}
	w.now = w.now.Add(time.Second)
	if got := wait("next", w.now); got.Gone {
		t.Error("the waiter of a session that was taken up again is sent away")
	}
}
