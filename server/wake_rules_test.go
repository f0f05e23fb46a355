package server_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// session returns a session of an agent that the hub does not know yet.
func (w *wakeHub) session(agent hub.AgentID, cli string, process int) *terminal {
	return &terminal{
		wakeHub: w, agent: agent, secret: w.keys[agent], mechanism: "monitor", attended: true,
		key: wake.Key{CLI: cli, ID: "s-" + cli, Process: process},
	}
}

// away starts a session whose waiter was there and comes again when the test calls come.
func (w *wakeHub) away(agent hub.AgentID, cli string, process int) *terminal {
	w.t.Helper()
	t := w.session(agent, cli, process)
	t.report(wake.EventStart)
	if got := t.come(); got != nil {
		w.t.Fatalf("a new session is woken: %+v", got)
	}
	return t
}

// come is one short request of the waiter of a session. It returns the wake that was due; nil
// if there was none.
func (t *terminal) come() *wake.Notice {
	t.t.Helper()
	got := mustCall(t.t, t.client(), api.WaitWake, api.WakeWaitParams{Key: t.key, Mechanism: t.mechanism, Attended: t.attended, Seconds: 1})
	if got.Wake != nil {
		mustCall(t.t, t.client(), api.HandedWake, api.WakeHandedParams{Wake: got.Wake.ID, Outcome: channel.Handed})
	}
	return got.Wake
}

// untilStep waits until the trace of a message has a step.
func (w *wakeHub) untilStep(id hub.EnvelopeID, want string) {
	w.t.Helper()
	var got []string
	w.until("the trace has "+want, func() bool {
		got = nil
		for _, s := range mustCall(w.t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Steps {
			got = append(got, s.What)
			if s.What == want {
				return true
			}
		}
		return false
	}, func() any { return got })
}

// TestWakeRules has the rules of wakes that hold when two things happen in an unlucky order: a
// waiter is away, a hook is faster, mail is read or expires on its way.
func TestWakeRules(t *testing.T) {
	t.Parallel()
	builder := api.Recipients{"builder"}
	const offered = "session: waiting" // the wake is left for the waiter of a session
	var rules sync.WaitGroup           // they mostly wait, so all are checked at once
	defer rules.Wait()
	rule := func(name string, check func(t *testing.T, w *wakeHub)) {
		rules.Go(func() {
			t.Run(name, func(t *testing.T) { check(t, startWakes(t, server.Options{}, "planner", "builder")) })
		})
	}

	rule("a turn that was continued is not continued again, also after the gap", func(t *testing.T, w *wakeHub) {
		b := w.terminalOf("builder", nil)
		b.report(wake.EventPrompt)
		w.send("planner", api.SendParams{To: builder})
		if got := b.report(wake.EventTurnEnd); got == "" {
			t.Fatal("the end of the turn: no notice")
		}
		b.report(wake.EventTool)
		w.pass(time.Minute)
		w.send("planner", api.SendParams{To: builder})
		if got := b.report(wake.EventTurnEnd); got != "" {
			t.Errorf("the second end of the turn: got %q", got)
		}
		b.next() // the second message starts a turn of its own
	})
	rule("a turn that another hook continued is not continued, and mail starts the next", func(t *testing.T, w *wakeHub) {
		b := w.terminalOf("builder", nil)
		b.report(wake.EventPrompt)
		w.send("planner", api.SendParams{To: builder})
		got := mustCall(t, b.client(), api.ReportWake, api.WakeReportParams{Key: b.key, Event: wake.EventTurnEnd, StopActive: true})
		if got.Notice != "" {
			t.Errorf("the end of the turn: got %q", got.Notice)
		}
		b.next()
	})

	rule("a wait whose key was revoked gets no wake", func(t *testing.T, w *wakeHub) {
		old := mustCall(t, w.as(w.operator), api.AddKey, api.AgentParams{ID: "builder", Label: "old"})
		b := w.session("builder", "claude", 42)
		b.secret = old.Key
		ended := b.waiting("")
		mustCall(t, w.as(w.operator), api.RevokeKeys, api.AgentParams{ID: "builder", Label: "old"})
		w.send("planner", api.SendParams{To: builder})
		if got := ended(); hub.CodeOf(got.err) != hub.CodeUnauthenticated || got.call.Wake != nil {
			t.Errorf("got %+v, want %s", got, hub.CodeUnauthenticated)
		}
	})

	rule("a waiter that was replaced gets no wake when it comes again", func(t *testing.T, w *wakeHub) {
		b := w.session("builder", "claude", 42)
		first := b.waiting("old")
		second := b.waiting("new")
		if got := first(); !got.call.Gone {
			t.Errorf("the old waiter: got %+v, want it gone", got)
		}
		if got := b.waiting("old")(); !got.call.Gone {
			t.Errorf("the old waiter comes again: got %+v, want it gone", got)
		}
		w.send("planner", api.SendParams{To: builder})
		if got := second(); got.call.Wake == nil {
			t.Errorf("the new waiter: got %+v, want the wake", got)
		}
	})

	rule("a hook that tells mail takes the place of the wake for it", func(t *testing.T, w *wakeHub) {
		b := w.away("builder", "claude", 42)
		w.untilStep(w.send("planner", api.SendParams{To: builder}), offered)
		if got := b.report(wake.EventPrompt); !strings.Contains(got, "1 new message") {
			t.Fatalf("a prompt of its user: got %q", got)
		}
		if got := b.come(); got != nil {
			t.Errorf("its waiter gets a wake for mail that a hook told: %+v", got)
		}
		if got := b.report(wake.EventTurnEnd); !strings.Contains(got, "1 new message") {
			t.Errorf("the end of the turn with the mail unread: got %q; the wake bars it", got)
		}
	})
	rule("mail that came before a wake left is told with it, and has no wake of its own", func(t *testing.T, w *wakeHub) {
		b := w.away("builder", "claude", 42)
		w.untilStep(w.send("planner", api.SendParams{To: builder}), offered)
		second := w.send("planner", api.SendParams{To: builder})
		got := b.come()
		if got == nil || !strings.Contains(got.Notice, "2 new messages") {
			t.Fatalf("got %+v", got)
		}
		b.report(wake.EventPrompt, got.ID)
		mustCall(t, b.client(), api.Inbox, api.InboxParams{Limit: 1})
		if got := b.report(wake.EventTurnEnd); got != "" {
			t.Errorf("the end of the turn: got %q", got)
		}
		w.pass(time.Minute)
		w.untilStep(second, offered)
		if got := b.come(); got != nil {
			t.Errorf("mail that was told gets a wake of its own: %+v", got)
		}
	})
	rule("mail that was told with an earlier wake is announced once more after 15 minutes", func(t *testing.T, w *wakeHub) {
		b := w.away("builder", "claude", 42)
		w.untilStep(w.send("planner", api.SendParams{To: builder}), offered)
		second := w.send("planner", api.SendParams{To: builder})
		got := b.come()
		if got == nil {
			t.Fatal("no wake")
		}
		b.report(wake.EventPrompt, got.ID)
		mustCall(t, b.client(), api.Inbox, api.InboxParams{Limit: 1})
		b.report(wake.EventTurnEnd)
		w.pass(time.Minute)
		w.untilStep(second, offered)
		if got := b.come(); got != nil {
			t.Errorf("mail that was told gets a wake of its own: %+v", got)
		}
		w.untilStep(second, "session: offered")

		w.pass(16 * time.Minute)
		var again *wake.Notice
		w.until("the mail is announced again", func() bool {
			again = b.come() // it was away for long, so that it comes before it can be reached
			return again != nil
		}, func() any { return again })
		if !strings.Contains(again.Notice, "1 unread message") {
			t.Errorf("after 15 minutes: got %q", again.Notice)
		}
	})
	rule("a prompt of the user does not repeat a wake that is on its way", func(t *testing.T, w *wakeHub) {
		b := w.away("builder", "claude", 42)
		w.untilStep(w.send("planner", api.SendParams{To: builder}), offered)
		due := b.come()
		w.send("planner", api.SendParams{To: builder})
		if got := b.report(wake.EventPrompt); due == nil || got != "" {
			t.Errorf("after the wake %+v: got %q", due, got)
		}
	})
	rule("mail that continued a turn is not told again by the next prompt", func(t *testing.T, w *wakeHub) {
		b := w.away("builder", "claude", 42)
		b.report(wake.EventPrompt)
		w.send("planner", api.SendParams{To: builder})
		if got := b.report(wake.EventTurnEnd); got == "" {
			t.Fatal("the end of the turn: no notice")
		}
		b.report(wake.EventTool)
		b.report(wake.EventTurnEnd)
		if got := b.report(wake.EventPrompt); got != "" {
			t.Errorf("the next prompt: got %q", got)
		}
	})
	rule("of two sessions that wait one gets the wake", func(t *testing.T, w *wakeHub) {
		one, two := w.away("builder", "claude", 42), w.away("builder", "codex", 43)
		w.untilStep(w.send("planner", api.SendParams{To: builder}), offered)
		if got := one.come(); got == nil {
			t.Error("the first that comes: no wake")
		}
		if got := two.come(); got != nil {
			t.Errorf("the second: got %+v", got)
		}
	})
	rule("mail that a session in a terminal ignores does not wake a session without one", func(t *testing.T, w *wakeHub) {
		b, headless := w.session("builder", "claude", 42), w.session("builder", "codex", 43)
		headless.attended = false
		headless.begin()
		b.turn = ignores
		b.begin()
		w.send("planner", api.SendParams{To: builder})
		b.next()
		w.ended("builder")
		w.pass(5 * time.Minute)
		headless.none("a session in a terminal was told")
	})

	rule("mail goes to a session that is idle and has a waiter", func(t *testing.T, w *wakeHub) {
		idle, busy, unarmed := w.session("builder", "claude", 42), w.session("builder", "codex", 43), w.session("builder", "gemini", 44)
		idle.turn = obeys
		idle.begin()
		busy.begin()
		mustCall(t, unarmed.client(), api.ReportWake, api.WakeReportParams{Key: unarmed.key, Event: wake.EventStart, Attended: new(true)})
		w.pass(time.Second) // the others are used last
		busy.report(wake.EventPrompt)
		unarmed.report(wake.EventTurnEnd)
		id, got := w.forecast(hub.ChannelSession)
		if got.Reach != hub.ReachNow || !strings.HasPrefix(got.Reason, "idle in claude") {
			t.Fatalf("the forecast: got %+v", got)
		}
		idle.next()
		w.untilRow(id, hub.DeliveryAccepted)
	})
	rule("of two turns the one that its user saw last is interrupted", func(t *testing.T, w *wakeHub) {
		one, two := w.away("builder", "claude", 42), w.away("builder", "codex", 43)
		w.allow(api.WakeAllowParams{Agent: "builder", Allow: true, Interrupt: true})
		one.report(wake.EventPrompt)
		w.pass(time.Second)
		two.report(wake.EventPrompt)
		critical := api.SendParams{To: builder, Text: "stop", Priority: hub.PriorityCritical}
		w.untilStep(mustCall(t, w.as(w.operator), api.Send, critical).ID, offered)
		if got := one.come(); got != nil {
			t.Errorf("the older turn: got %+v", got)
		}
		if got := two.come(); got == nil || !got.Interrupt {
			t.Errorf("the newer turn: got %+v", got)
		}
	})

	rule("an agent that the operator paused is not woken until it is resumed", func(t *testing.T, w *wakeHub) {
		b := w.terminalOf("builder", obeys)
		mustCall(t, w.as(w.operator), api.PauseAgent, api.AgentParams{ID: "builder"})
		id := w.send("planner", api.SendParams{To: builder})
		if row := w.untilRow(id, hub.DeliverySkipped); row.Error != "the agent is paused" {
			t.Errorf("got %+v", row)
		}
		b.none("the agent is paused")
		mustCall(t, w.as(w.operator), api.ResumeAgent, api.AgentParams{ID: "builder"})
		b.next()
	})
	rule("the user's limit of wakes within an hour is kept", func(t *testing.T, w *wakeHub) {
		b := w.terminalOf("builder", obeys)
		w.allow(api.WakeAllowParams{Agent: "builder", Allow: true, PerHour: 1})
		w.send("planner", api.SendParams{To: builder})
		b.next()
		w.ended("builder")
		w.pass(5 * time.Minute)
		if _, got := w.forecast(hub.ChannelSession); got.Status != hub.DeliverySkipped || !strings.Contains(got.Error, "rate: 1 wake") {
			t.Errorf("the forecast: got %+v", got)
		}
		b.none("its limit is spent")
		w.pass(time.Hour)
		b.next()
	})

	rule("mail that was read on its way wakes no agent", func(t *testing.T, w *wakeHub) {
		b := w.away("builder", "claude", 42)
		w.untilStep(w.send("planner", api.SendParams{To: builder}), offered)
		mustCall(t, b.client(), api.Inbox, api.InboxParams{})
		w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityLow}) // unread, and starts no turn
		if got := b.come(); got != nil {
			t.Errorf("got %+v", got)
		}
	})
	rule("mail that expired on its way wakes no agent", func(t *testing.T, w *wakeHub) {
		b := w.away("builder", "claude", 42)
		w.untilStep(w.send("planner", api.SendParams{To: builder, ExpiresAt: hub.At(w.clock.Now().Add(30 * time.Second))}), offered)
		w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityLow}) // unread, and starts no turn
		w.pass(time.Minute)
		if got := b.come(); got != nil {
			t.Errorf("got %+v", got)
		}
	})
	rule("hooks do not tell mail that expired", func(t *testing.T, w *wakeHub) {
		b := w.away("builder", "claude", 42)
		w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityLow, ExpiresAt: hub.At(w.clock.Now().Add(30 * time.Second))})
		w.pass(time.Minute)
		if got := b.report(wake.EventPrompt); got != "" {
			t.Errorf("got %q", got)
		}
	})

	rule("old entries of the journal are archived: deliveries and wakes have followed it", func(t *testing.T, w *wakeHub) {
		b := w.terminalOf("builder", obeys)
		w.untilRow(w.send("planner", api.SendParams{To: builder}), hub.DeliveryAccepted)
		b.stop()
		w.pass(400 * 24 * time.Hour)
		var got records.ArchiveReport
		w.until("no consumer holds the archive back", func() bool {
			mustCall(t, w.as(w.operator), api.Metrics, api.MetricsParams{}) // which catches up
			got = mustCall(t, w.as(w.operator), api.Archive, api.ArchiveParams{})
			return got.HeldBackBy == ""
		}, func() any { return got })
	})
}

// A waited is the answer to a wait.
type waited struct {
	call wake.Call
	err  error
}

// waiting starts a wait of the session under the name of a waiter and returns when the hub knows
// it, or has answered. The function that it returns gives the answer.
func (t *terminal) waiting(name string) func() waited {
	t.t.Helper()
	answers := make(chan waited, 1)
	params := api.WakeWaitParams{Key: t.key, Mechanism: t.mechanism + name, Waiter: name, Attended: t.attended, Seconds: 20}
	go func() {
		call, err := rpc.Call(t.t.Context(), t.client(), api.WaitWake, params)
		answers <- waited{call, err}
	}()
	t.until("the hub knows the wait", func() bool {
		for _, s := range t.standing(t.agent).Sessions {
			if s.Key == t.key && s.Mechanism == params.Mechanism && !s.Armed.IsZero() {
				return true
			}
		}
		return len(answers) > 0
	}, func() any { return t.standing(t.agent) })
	return func() waited {
		t.t.Helper()
		select {
		case got := <-answers:
			return got
		case <-time.After(patience.For(time.Minute)):
			t.t.Fatal("a wait has no end")
			return waited{}
		}
	}
}
