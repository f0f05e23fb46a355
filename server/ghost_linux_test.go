package server_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/server"
)

// windowOf starts a session of an agent in a process of its own, which the test can
// kill.
func (w *wakeHub) windowOf(agent hub.AgentID, id string, turn func(*terminal, wake.Notice)) (t *terminal, kill func()) {
	w.t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill() // fails if it has ended
		cmd.Wait()
	}
	w.t.Cleanup(kill)
	t = &terminal{
		wakeHub: w, agent: agent, secret: w.keys[agent], mechanism: "monitor", attended: true, turn: turn,
		key: wake.Key{CLI: "claude", ID: id, Process: cmd.Process.Pid}, stamp: process.Stamp(cmd.Process.Pid),
	}
	t.begin()
	return t, kill
}

func TestGhosts(t *testing.T) {
	t.Parallel()
	builder := api.Recipients{"builder"}
	t.Run("mail after the kill of a window wakes the next window", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		_, kill := w.windowOf("builder", "first", obeys)
		kill() // its waiter still waits

		got := mustCall(t, w.as(w.keys["planner"]), api.Send, api.SendParams{To: builder, Text: "x"})
		if f := got.Deliveries[1]; f.Reach != hub.ReachUnreachable || !strings.Contains(f.Error, "no live session in a terminal") {
			t.Errorf("the forecast of a killed window: got %+v", f)
		}
		if s := w.sessionNamed("builder", "first"); s.State != wake.SessionEnded || !s.Armed.IsZero() {
			t.Errorf("the killed window: got %+v", s)
		}
		w.untilRow(got.ID, hub.DeliverySkipped)

		second, _ := w.windowOf("builder", "second", obeys)
		second.next()
		w.untilRow(got.ID, hub.DeliveryAccepted)
	})
	t.Run("a wake that a killed window took goes to the next window", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		first, kill := w.windowOf("builder", "first", nil)
		id := w.send("planner", api.SendParams{To: builder})
		first.next()
		kill()
		second, _ := w.windowOf("builder", "second", obeys)
		w.pass(31 * time.Second) // the gap
		second.next()
		w.untilRow(id, hub.DeliveryAccepted)
	})
	t.Run("a wake is offered to every window, and the first takes it", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		second := w.terminalOf("builder", obeys)
		hangs := api.WakeWaitParams{Key: wake.Key{CLI: "claude", ID: "first", Process: 43}, Mechanism: "monitor", Attended: true, Seconds: 1}
		mustCall(t, w.as(w.keys["builder"]), api.WaitWake, hangs) // its waiter does not come again
		mustCall(t, w.as(w.keys["builder"]), api.ReportWake, api.WakeReportParams{Key: hangs.Key, Event: wake.EventTurnEnd})
		if s := w.sessionNamed("builder", "first"); s.Armed.IsZero() {
			t.Errorf("got %+v, want it armed", s)
		}
		id := w.send("planner", api.SendParams{To: builder})
		second.next()
		w.untilRow(id, hub.DeliveryAccepted)
		second.none("it was woken once")
	})
	t.Run("a turn without a sign of life for two minutes counts as over", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		b := w.terminalOf("builder", obeys)
		b.report(wake.EventPrompt)
		if s := w.sessionNamed("builder", b.key.ID); s.State != wake.SessionWorking {
			t.Errorf("got %+v", s)
		}
		w.pass(3 * time.Minute)
		if s := w.sessionNamed("builder", b.key.ID); s.State != wake.SessionIdle {
			t.Errorf("got %+v", s)
		}
		w.send("planner", api.SendParams{To: builder})
		b.next()
	})
	t.Run("a wake of a CLI without a session is the wake of the session that it begins", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		key := wake.Key{CLI: "opencode", ID: wake.Opening, Process: 44}
		id := w.send("planner", api.SendParams{To: builder})
		call := mustCall(t, w.as(w.keys["builder"]), api.WaitWake, api.WakeWaitParams{Key: key, Mechanism: "plugin", Attended: true, Seconds: 60})
		if call.Wake == nil {
			t.Fatal("it is not woken")
		}
		mustCall(t, w.as(w.keys["builder"]), api.HandedWake, api.WakeHandedParams{Wake: call.Wake.ID, Outcome: "handed"})
		key.ID = "ses_1"
		mustCall(t, w.as(w.keys["builder"]), api.ReportWake, api.WakeReportParams{Key: key, Event: wake.EventPrompt, Wakes: []string{call.Wake.ID}})
		w.untilRow(id, hub.DeliveryAccepted)
		if all := mustCall(t, w.as(w.operator), api.ListSessions, api.AgentNameParams{Agent: "builder"}).Agents[0].Sessions; len(all) != 1 || all[0].ID != "ses_1" {
			t.Errorf("got %+v", all)
		}
	})
	t.Run("a session whose request broke off is not armed until it comes again", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		b := w.terminalOf("builder", obeys)
		b.stop()
		w.until("it is not armed", func() bool { return w.sessionNamed("builder", b.key.ID).Armed.IsZero() }, func() any { return nil })
		id := w.send("planner", api.SendParams{To: builder})
		w.untilRow(id, hub.DeliverySkipped)
		b.begin()
		b.next()
		w.untilRow(id, hub.DeliveryAccepted)
	})
}
