package server_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// A wakeHub is a hub with agents whose sessions wait for wakes.
type wakeHub struct {
	*running
	live  atomic.Pointer[running] // the same, for goroutines
	t     *testing.T
	clock *hubtest.Clock
	opts  server.Options
	keys  map[hub.AgentID]string

	terminals []*terminal
}

// startWakes starts a hub with agents; all but the first may be woken.
func startWakes(t *testing.T, o server.Options, names ...hub.AgentID) *wakeHub {
	t.Helper()
	w := &wakeHub{t: t, clock: new(hubtest.Clock), keys: map[hub.AgentID]string{}}
	o.NoInboxFiles, o.Clock, o.Limits.Unsafe = true, w.clock.Now, true
	if o.Home == "" {
		o.Home = newHome(t, o)
	}
	w.opts = o
	w.running = start(t, o)
	w.live.Store(w.running)
	for i, key := range w.add(t, names...) {
		w.keys[names[i]] = key
		if i > 0 {
			w.allow(api.WakeAllowParams{Agent: names[i], Allow: true})
		}
	}
	return w
}

// pass lets time pass at the hub. Tokens of the operator are short-lived.
func (w *wakeHub) pass(d time.Duration) {
	w.t.Helper()
	w.clock.Pass(d)
	w.renew()
}

// restart ends the hub and starts it again on its home. The terminals end before it when
// the test ends: they report until then.
func (w *wakeHub) restart() {
	w.t.Helper()
	w.running.stop()
	w.running = start(w.t, w.opts)
	w.live.Store(w.running)
	for _, t := range w.terminals {
		w.t.Cleanup(t.stop)
	}
}

func (w *wakeHub) allow(p api.WakeAllowParams) {
	w.t.Helper()
	mustCall(w.t, w.as(w.operator), api.AllowWake, p)
}

// mustCall calls an operation that must succeed.
func mustCall[S, P, R any](t *testing.T, c *rpc.Client, o rpc.Operation[S, P, R], p P) R {
	t.Helper()
	got, err := rpc.Call(t.Context(), c, o, p)
	if err != nil {
		t.Fatalf("%s: %v", o.Method, err)
	}
	return got
}

// send sends a message and returns its id.
func (w *wakeHub) send(from hub.AgentID, p api.SendParams) hub.EnvelopeID {
	w.t.Helper()
	if p.Text == "" {
		p.Text = "schema is frozen"
	}
	return mustCall(w.t, w.as(w.keys[from]), api.Send, p).ID
}

// rows returns the ledger of a message without the inbox, as channel:status.
func (w *wakeHub) rows(id hub.EnvelopeID) []hub.Delivery {
	w.t.Helper()
	var out []hub.Delivery
	for _, d := range mustCall(w.t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Deliveries {
		if d.Channel != hub.ChannelInbox {
			out = append(out, d)
		}
	}
	return out
}

// untilRow waits until the newest row of a message has a status.
func (w *wakeHub) untilRow(id hub.EnvelopeID, want hub.DeliveryStatus) hub.Delivery {
	w.t.Helper()
	var got []hub.Delivery
	w.until(fmt.Sprintf("the row of %s is %s", id, want), func() bool {
		got = w.rows(id)
		return len(got) > 0 && got[len(got)-1].Status == want
	}, func() any { return got })
	return got[len(got)-1]
}

// until waits until a condition holds. Sessions change without an entry of the journal, so it asks
// again and again: soon at first, and less often the longer it waits, because each question costs
// the hub and the test some milliseconds of a processor.
func (w *wakeHub) until(what string, holds func() bool, state func() any) {
	w.t.Helper()
	pause := 10 * time.Millisecond
	timeout := time.After(patience.For(90 * time.Second))
	for !holds() {
		select {
		case <-time.After(pause):
			pause = min(pause*3/2, 150*time.Millisecond)
		case <-timeout:
			w.t.Fatalf("waited in vain until %s; got %+v", what, state())
		}
	}
}

// A terminal is a scripted CLI with a waiter: it takes wakes and does with each what
// the test says.
type terminal struct {
	*wakeHub
	agent  hub.AgentID
	secret string // its key for the hub
	key    wake.Key

	mechanism string
	attended  bool
	stamp     string // of the process of its key

	wakes chan wake.Notice // each wake that the waiter got, in order
	turn  func(*terminal, wake.Notice)
	gone  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}
}

// terminalOf starts a session with a waiter. turn is what the CLI does with a wake.
func (w *wakeHub) terminalOf(agent hub.AgentID, turn func(*terminal, wake.Notice)) *terminal {
	w.t.Helper()
	return w.terminalWith(agent, "monitor", true, turn)
}

// terminalWith is terminalOf for a mechanism, with or without a person.
func (w *wakeHub) terminalWith(agent hub.AgentID, mechanism string, attended bool, turn func(*terminal, wake.Notice)) *terminal {
	w.t.Helper()
	t := &terminal{wakeHub: w, mechanism: mechanism, attended: attended, agent: agent, secret: w.keys[agent], key: wake.Key{CLI: "claude", ID: "s-" + string(agent), Process: 42}, turn: turn}
	t.begin()
	return t
}

// begin starts the session and its waiter, and returns when the hub knows both.
func (t *terminal) begin() {
	w, agent := t.wakeHub, t.agent
	w.t.Helper()
	t.wakes = make(chan wake.Notice, 100)
	t.gone = make(chan struct{})
	t.done = make(chan struct{})
	t.report(wake.EventStart)
	ctx, cancel := context.WithCancel(context.Background())
	t.stop = func() {
		cancel()
		<-t.done
	}
	w.t.Cleanup(t.stop)
	w.terminals = append(w.terminals, t)
	go t.wait(ctx)
	w.until(string(agent)+" is armed", func() bool {
		list := mustCall(w.t, w.as(w.operator), api.ListSessions, api.AgentNameParams{Agent: agent})
		return len(list.Agents) == 1 && slices.ContainsFunc(list.Agents[0].Sessions, func(s wake.Session) bool {
			return s.Key == t.key && !s.Armed.IsZero() && s.Mechanism == t.mechanism
		})
	}, func() any { return nil })
}

func (t *terminal) client() *rpc.Client { return t.live.Load().as(t.secret) }

// wait is the waiter: one long request after the other, also over restarts.
func (t *terminal) wait(ctx context.Context) {
	defer close(t.done)
	last := ""
	for ctx.Err() == nil {
		call, err := rpc.Call(ctx, t.client(), api.WaitWake, api.WakeWaitParams{Key: t.key, Stamp: t.stamp, Mechanism: t.mechanism, Attended: t.attended, Seconds: 20})
		switch {
		case err != nil:
			select { // the hub restarts
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		case call.Gone:
			close(t.gone)
			return
		case call.Wake == nil || call.Wake.ID == last:
			continue
		}
		last = call.Wake.ID
		if _, err := rpc.Call(ctx, t.client(), api.HandedWake, api.WakeHandedParams{Wake: last, Outcome: channel.Handed}); err == nil {
			last = "" // the hub gives it again only if it makes it again
		}
		t.wakes <- *call.Wake
		if t.turn != nil {
			t.turn(t, *call.Wake)
		}
	}
}

// report reports an event of the session, with the wakes seen.
func (t *terminal) report(e wake.Event, wakes ...string) string {
	for deadline := time.Now().Add(patience.For(time.Minute)); ; {
		got, err := rpc.Call(context.Background(), t.client(), api.ReportWake, api.WakeReportParams{Key: t.key, Stamp: t.stamp, Event: e, Wakes: wakes})
		if hub.Unavailable(err) && time.Now().Before(deadline) { // the hub restarts
			<-time.After(20 * time.Millisecond)
			continue
		}
		if err != nil {
			t.t.Errorf("report %s: %v", e, err)
		}
		return got.Notice
	}
}

// quiet reports an event of a CLI that cannot show a notice.
func (t *terminal) quiet(e wake.Event) {
	t.t.Helper()
	mustCall(t.t, t.client(), api.ReportWake, api.WakeReportParams{Key: t.key, Event: e, Quiet: true})
}

// takeTurn is a turn that a wake started: step is what the model does, again if the end of
// the turn brings a notice.
func (t *terminal) takeTurn(w wake.Notice, step func()) {
	t.report(wake.EventPrompt, w.ID)
	step()
	for t.report(wake.EventTurnEnd) != "" {
		step()
	}
}

// obeys is a model that reads its inbox when it is woken.
func obeys(t *terminal, w wake.Notice) {
	t.takeTurn(w, func() {
		rpc.Call(context.Background(), t.client(), api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
	})
}

// ignores is a model that does nothing when it is woken.
func ignores(t *terminal, w wake.Notice) {
	t.report(wake.EventPrompt, w.ID)
	t.report(wake.EventTurnEnd)
}

// next returns the next wake.
func (t *terminal) next() wake.Notice {
	t.t.Helper()
	select {
	case w := <-t.wakes:
		return w
	case <-time.After(patience.For(90 * time.Second)):
		t.t.Fatalf("%s was not woken", t.agent)
		panic("unreachable")
	}
}

// none checks that no wake is waiting. The router has considered everything before:
// a message to another agent, sent after, has been announced.
func (t *terminal) none(why string) {
	t.t.Helper()
	t.flush()
	select {
	case w := <-t.wakes:
		t.t.Errorf("%s was woken: %s: %s", t.agent, why, w.Notice)
	default:
	}
}

// flush returns when the router has visited its agents: a further agent, to which a
// message was sent after everything else, has been woken. Its name is the last in the
// order of visits.
func (t *terminal) flush() {
	t.t.Helper()
	name := hub.AgentID(fmt.Sprintf("zz-witness-%d", len(t.keys)))
	t.keys[name] = t.add(t.t, name)[0]
	t.allow(api.WakeAllowParams{Agent: name, Allow: true})
	w := t.terminalOf(name, obeys)
	defer w.stop()
	id := mustCall(t.t, t.as(t.operator), api.Send, api.SendParams{To: api.Recipients{name}, Text: "flush"}).ID
	t.untilRow(id, hub.DeliveryAccepted)
}

func TestWake(t *testing.T) {
	t.Parallel()
	builder := api.Recipients{"builder"}
	begin := func(t *testing.T, o server.Options, turn func(*terminal, wake.Notice)) (*wakeHub, *terminal) {
		t.Helper()
		w := startWakes(t, o, "planner", "builder")
		return w, w.terminalOf("builder", turn)
	}
	t.Run("one message is one wake with proof, and the notice has no text of it", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		id := w.send("planner", api.SendParams{To: builder, Text: "the secret plan"})
		got := b.next()
		if !strings.HasPrefix(got.Notice, "[parley wake "+got.ID+"] 1 new message for builder.") || strings.Contains(got.Notice, "plan") || len(got.ID) != 14 {
			t.Errorf("got notice %q", got.Notice)
		}
		row := w.untilRow(id, hub.DeliveryAccepted)
		if !strings.Contains(row.Error, "monitor") || row.DeliveredAt.IsZero() {
			t.Errorf("got %+v, want the mechanism and the time", row)
		}
		b.none("after it has read its inbox")
		var steps []string
		for _, s := range mustCall(t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Steps {
			if s.At.IsZero() {
				t.Errorf("a step without a time: %+v", s)
			}
			steps = append(steps, s.What+" "+s.Mechanism)
		}
		for _, want := range []string{"session: waiting monitor", "session: handed monitor", "session: turn_started monitor", "session: turn_ended monitor"} {
			if !slices.Contains(steps, want) {
				t.Errorf("trace: got %q, want %q among the steps", steps, want)
			}
		}
	})
	t.Run("ten messages are one or two wakes", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		var last hub.EnvelopeID
		for range 10 {
			last = w.send("planner", api.SendParams{To: builder})
		}
		w.pass(time.Minute)
		var row []hub.Delivery
		w.until("the last message was announced, or read in the turn of the first", func() bool {
			row = w.rows(last)
			if len(row) == 0 {
				return false
			}
			end := row[len(row)-1]
			return end.Status == hub.DeliveryAccepted || (end.Status == hub.DeliverySkipped && end.Error == "already read")
		}, func() any { return row })
		b.flush()
		if n := len(b.wakes); n < 1 || n > 2 {
			t.Errorf("got %d wakes, want one or two", n)
		}
	})
	t.Run("a wait marks nothing as delivered", func(t *testing.T) {
		w, b := begin(t, server.Options{}, nil)
		id := w.send("planner", api.SendParams{To: builder})
		b.next()
		if got := mustCall(t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Message.Status; got != hub.StatusPending {
			t.Errorf("got %s, want pending until it is fetched", got)
		}
		if in := mustCall(t, b.client(), api.Inbox, api.InboxParams{NewOnly: true}); len(in.Messages) != 1 {
			t.Errorf("got %d new messages, want 1", len(in.Messages))
		}
	})
	t.Run("a recipient that fetched first is not woken", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		b.report(wake.EventPrompt)
		id := w.send("planner", api.SendParams{To: builder})
		mustCall(t, b.client(), api.Inbox, api.InboxParams{})
		b.report(wake.EventTurnEnd)
		if row := w.untilRow(id, hub.DeliverySkipped); row.Error != "already read" {
			t.Errorf("got %+v", row)
		}
		b.none("it has fetched the message")
	})
	t.Run("an expired message wakes no agent", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		b.report(wake.EventPrompt)
		id := w.send("planner", api.SendParams{To: builder, ExpiresAt: hub.At(w.clock.Now().Add(time.Minute))})
		w.pass(2 * time.Minute)
		w.until("it expired", func() bool {
			return mustCall(t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Message.Status == hub.StatusExpired
		}, func() any { return nil })
		b.report(wake.EventTurnEnd)
		b.none("the message expired")
	})
	t.Run("low priority wakes no agent", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityLow})
		b.none("low priority")
	})
	t.Run("an agent whose user said nothing is not woken", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "tester")
		w.keys["builder"] = w.add(t, "builder")[0]
		b := w.terminalOf("builder", obeys)
		id := w.send("planner", api.SendParams{To: builder})
		if row := w.untilRow(id, hub.DeliverySkipped); !strings.Contains(row.Error, "not allowed") {
			t.Errorf("got %+v", row)
		}
		b.none("no yes was given")
		w.allow(api.WakeAllowParams{Agent: "builder", Allow: true})
		b.next() // mail waited for the yes
	})
	t.Run("a pause stops wakes of one agent or of all, mail waits", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		for _, p := range []api.WakePauseParams{{Agent: "builder"}, {All: true}} {
			mustCall(t, w.as(w.operator), api.PauseWake, p)
			id := w.send("planner", api.SendParams{To: builder})
			if row := w.untilRow(id, hub.DeliverySkipped); !strings.Contains(row.Error, "paused") {
				t.Errorf("got %+v", row)
			}
			if !p.All {
				b.none("it is paused")
			}
			if n := len(b.wakes); n > 0 {
				t.Errorf("got %d wakes in a pause", n)
			}
			w.pass(time.Minute)
			mustCall(t, w.as(w.operator), api.ResumeWake, p)
			b.next()
			w.untilRow(id, hub.DeliveryAccepted)
			w.ended("builder") // else its turn reads the next message
		}
	})
	t.Run("an agent without a valid key is not woken, and its waiter is refused", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		mustCall(t, w.as(w.operator), api.RevokeKeys, api.AgentParams{ID: "builder"})
		w.send("planner", api.SendParams{To: builder})
		_, err := rpc.Call(t.Context(), b.client(), api.WaitWake, api.WakeWaitParams{Key: b.key, Mechanism: "monitor"})
		if hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("got %v", err)
		}
		b.none("its key is revoked")
	})
	t.Run("a hub that stops between message and wake wakes once", func(t *testing.T) {
		for _, when := range []string{"before the attempt", "while its turn runs"} {
			w, b := begin(t, server.Options{}, obeys)
			if when != "before the attempt" {
				b.report(wake.EventPrompt)
			}
			id := w.send("planner", api.SendParams{To: builder})
			w.restart()
			if when != "before the attempt" {
				b.report(wake.EventEnd) // of that turn: the CLI was restarted, too
				b.report(wake.EventStart)
			}
			var rows []hub.Delivery
			w.until("it was told", func() bool {
				rows = w.rows(id)
				told := len(rows) > 0 && rows[len(rows)-1].Status != hub.DeliveryPending
				return told || len(b.wakes) > 0
			}, func() any { return rows })
			b.flush()
			if n := len(b.wakes); when == "before the attempt" && n != 1 || n > 1 {
				t.Errorf("%s: got %d wakes, want one", when, n)
			}
		}
	})
	t.Run("a model that ignores the notice is told once more, and not again", func(t *testing.T) {
		w, b := begin(t, server.Options{}, ignores)
		w.send("planner", api.SendParams{To: builder})
		first := b.next()
		w.pass(14 * time.Minute)
		b.none("not yet")
		w.pass(2 * time.Minute)
		second := b.next()
		if second.ID == first.ID || !strings.Contains(second.Notice, "1 unread message for builder.") {
			t.Errorf("got %+v after %+v", second, first)
		}
		w.ended("builder")
		for range 24 {
			w.pass(time.Hour)
		}
		b.none("it was told twice")
	})
	t.Run("24 quiet hours cause no wake", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		for range 24 {
			w.pass(time.Hour)
			b.report(wake.EventPrompt)
			b.report(wake.EventTurnEnd)
		}
		b.none("nothing happened")
	})
	t.Run("at most one wake in the gap; the next messages wait", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		w.send("planner", api.SendParams{To: builder})
		b.next()
		w.ended("builder")
		id := w.send("planner", api.SendParams{To: builder})
		b.none("within the gap")
		if row := w.rows(id); len(row) != 1 || row[0].Status != hub.DeliveryPending {
			t.Errorf("got %+v, want it pending", row)
		}
		w.pass(31 * time.Second)
		b.next()
		w.untilRow(id, hub.DeliveryAccepted)
	})
	t.Run("a notice that a hook showed within a turn does not end the gap", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		w.send("planner", api.SendParams{To: builder})
		b.next()
		w.ended("builder")
		w.pass(time.Second)
		w.send("planner", api.SendParams{To: builder})
		if got := b.report(wake.EventPrompt); !strings.Contains(got, "1 new message") {
			t.Errorf("the prompt of its user: got %q", got)
		}
		b.quiet(wake.EventTurnEnd)
		w.send("planner", api.SendParams{To: builder})
		b.none("within the gap")
		if got := b.report(wake.EventTurnEnd); got != "" {
			t.Errorf("the end of a turn within the gap: got %q", got)
		}
		w.pass(31 * time.Second)
		b.next()
	})
	t.Run("a spent budget leaves mail in the inbox, the ledger says so, and the operator is told once", func(t *testing.T) {
		w, b := begin(t, server.Options{Wakes: server.WakeLimits{PerHour: 2}}, obeys)
		for range 2 {
			w.send("planner", api.SendParams{To: builder})
			b.next()
			w.ended("builder")
			w.pass(5 * time.Minute)
		}
		for range 3 {
			got := mustCall(t, w.as(w.keys["planner"]), api.Send, api.SendParams{To: builder, Text: "x"})
			if f := got.Deliveries[1]; f.Status != hub.DeliverySkipped || f.Reach != hub.ReachOnPoll || !strings.Contains(f.Error, "rate: 2 wakes") {
				t.Errorf("got %+v", f)
			}
			w.pass(time.Minute)
		}
		b.none("its budget is spent")
		told := mustCall(t, w.as(w.operator), api.Inbox, api.InboxParams{})
		if len(told.Messages) != 1 || !strings.Contains(string(told.Messages[0].Payload), "builder") {
			t.Errorf("the operator got %d messages, want one", len(told.Messages))
		}
		w.pass(time.Hour)
		b.next() // mail waited
	})
	t.Run("a sender that spent its wakes of a recipient does not spend those of others", func(t *testing.T) {
		w := startWakes(t, server.Options{Wakes: server.WakeLimits{PairPerHour: 1}}, "planner", "builder", "tester")
		b := w.terminalOf("builder", obeys)
		w.send("planner", api.SendParams{To: builder})
		b.next()
		w.ended("builder")
		w.pass(time.Minute)
		id := w.send("planner", api.SendParams{To: builder})
		if row := w.untilRow(id, hub.DeliverySkipped); !strings.Contains(row.Error, "from planner") {
			t.Errorf("got %+v", row)
		}
		w.untilRow(w.send("tester", api.SendParams{To: builder}), hub.DeliveryAccepted)
		b.next()
	})
	t.Run("three wakes in a row that led to nothing disarm the agent", func(t *testing.T) {
		w, b := begin(t, server.Options{}, ignores)
		for range 3 {
			w.send("planner", api.SendParams{To: builder})
			b.next()
			w.ended("builder")
			w.pass(5 * time.Minute)
		}
		if got := w.standing("builder"); got.Disarmed == "" || got.LastHour != 6 {
			t.Errorf("got %+v, want it disarmed, and each wake counted twice", got.Standing)
		}
		id := w.send("planner", api.SendParams{To: builder})
		if row := w.untilRow(id, hub.DeliverySkipped); !strings.Contains(row.Error, "disarmed") {
			t.Errorf("got %+v", row)
		}
		b.none("it is disarmed")
		mustCall(t, w.as(w.operator), api.ResumeWake, api.WakePauseParams{Agent: "builder"})
		b.next()
	})
	t.Run("a turn is interrupted only by critical mail of a coordinator, if the recipient allows it", func(t *testing.T) {
		w, b := begin(t, server.Options{}, nil)
		w.keys["boss"] = w.add(t, "boss")[0]
		mustCall(t, w.as(w.operator), api.SetRole, api.AgentParams{ID: "boss", Role: hub.RoleCoordinator})
		b.report(wake.EventPrompt)
		critical := api.SendParams{To: builder, Priority: hub.PriorityCritical}
		w.send("boss", critical)
		b.none("the recipient's policy does not allow it")
		mustCall(t, b.client(), api.Inbox, api.InboxParams{})
		w.allow(api.WakeAllowParams{Agent: "builder", Allow: true, Interrupt: true})
		w.send("planner", critical)
		b.none("an executor sent it")
		mustCall(t, b.client(), api.Inbox, api.InboxParams{})
		id := w.send("boss", critical)
		if got := b.next(); !got.Interrupt {
			t.Errorf("got %+v", got)
		}
		journaled := false
		for _, e := range mustCall(t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Journal {
			journaled = journaled || strings.Contains(string(e.Facts), `"interrupt":true`)
		}
		if !journaled {
			t.Error("the journal does not say that a turn was interrupted")
		}
	})
	t.Run("hooks of the turn that a notice started do not repeat it", func(t *testing.T) {
		w, b := begin(t, server.Options{}, nil)
		w.send("planner", api.SendParams{To: builder})
		due := b.next()
		for _, e := range []wake.Event{wake.EventPrompt, wake.EventTool, wake.EventTool} {
			if got := b.report(e, due.ID); got != "" {
				t.Errorf("%s: got %q, want no second notice", e, got)
			}
		}
	})
	t.Run("a short message of the operator travels in the notice where the user allowed it, text of agents never does", func(t *testing.T) {
		w, b := begin(t, server.Options{}, nil)
		order := func(p api.SendParams) string {
			p.To = builder
			id := mustCall(t, w.as(w.operator), api.Send, p).ID
			due := b.next()
			obeys(b, due) // its turn has ended before the next message comes
			w.untilRow(id, hub.DeliveryAccepted)
			w.pass(time.Minute)
			return due.Notice
		}
		if got := order(api.SendParams{Text: "use port 8080"}); strings.Contains(got, "8080") {
			t.Errorf("without the permission: got %q", got)
		}
		w.allow(api.WakeAllowParams{Agent: "builder", Allow: true, WithText: true})
		if got := order(api.SendParams{Text: "use port\u202e 8080"}); !regexp.MustCompile(`^\[parley wake w_\d{12}\] From your operator to builder, m2: use port 8080\n→ acp_respond m2, or acp_inbox ack \[m2\]$`).MatchString(got) {
			t.Errorf("with the permission: got %q", got)
		}
		for name, p := range map[string]api.SendParams{
			"several lines": {Text: "use port 8080\nplease"}, "a long text": {Text: strings.Repeat("use port 8080 ", 30)},
			"high sensitivity": {Text: "use port 8080", Policy: []byte(`{"sensitivity":"high"}`)},
		} {
			if got := order(p); strings.Contains(got, "8080") {
				t.Errorf("%s: got %q, want no text", name, got)
			}
		}
		w.pass(5 * time.Minute) // the gap after so many turns
		w.send("planner", api.SendParams{To: builder, Text: "use port 8080"})
		if got := b.next().Notice; strings.Contains(got, "8080") {
			t.Errorf("text of an agent: got %q", got)
		}
	})
	t.Run("the end of a turn continues it once, and hooks tell what was not told", func(t *testing.T) {
		w, b := begin(t, server.Options{}, nil)
		b.report(wake.EventPrompt)
		id := w.send("planner", api.SendParams{To: builder})
		if got := b.report(wake.EventTurnEnd); !strings.Contains(got, "1 new message") {
			t.Errorf("the end of the turn: got %q", got)
		}
		if got := b.report(wake.EventTool); got != "" {
			t.Errorf("it is told twice: %q", got)
		}
		w.send("planner", api.SendParams{To: builder})
		if got := b.report(wake.EventTurnEnd); got != "" {
			t.Errorf("a turn that was continued is continued again: %q", got)
		}
		w.untilRow(id, hub.DeliveryAccepted)
		b.report(wake.EventPrompt) // the next turn of the user tells the second message
		b.none("hooks told it")
	})
	t.Run("a notice at the end of a turn that did not go on is told again", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		lost := func() hub.EnvelopeID { // the CLI ends its hook before the notice is shown
			b.report(wake.EventPrompt)
			id := w.send("planner", api.SendParams{To: builder})
			if got := b.report(wake.EventTurnEnd); got == "" {
				t.Error("the end of the turn: no notice")
			}
			return id
		}
		id := lost()
		b.none("it may still go on")
		w.pass(3 * time.Minute)
		b.next()
		w.untilRow(id, hub.DeliveryAccepted)
		w.ended("builder")
		w.pass(time.Minute)
		lost()
		if got := b.report(wake.EventPrompt); !strings.Contains(got, "1 new message") {
			t.Errorf("the next prompt of its user: got %q", got)
		}
	})
	t.Run("a session that goes on with a notice is not woken for it", func(t *testing.T) {
		w, b := begin(t, server.Options{}, nil)
		b.report(wake.EventPrompt)
		w.send("planner", api.SendParams{To: builder})
		b.report(wake.EventTurnEnd)
		b.report(wake.EventTool)
		w.pass(3 * time.Minute)
		b.none("it was told and went on")
		b.report(wake.EventTurnEnd)
		w.pass(10 * time.Minute)
		b.none("it was told and went on")
	})
	t.Run("a CLI that goes on by a prompt with the notice is told once, and woken for the next message", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		b.report(wake.EventPrompt)
		w.send("planner", api.SendParams{To: builder})
		notice := b.report(wake.EventTurnEnd)
		_, id, _ := strings.Cut(notice, "[parley wake ")
		id, _, _ = strings.Cut(id, "]")
		if got := b.report(wake.EventPrompt, id); id == "" || got != "" {
			t.Errorf("after %q: got %q", notice, got)
		}
		rpc.Call(t.Context(), b.client(), api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
		if got := b.report(wake.EventTurnEnd); got != "" {
			t.Errorf("the end of the turn that was continued: got %q", got)
		}
		w.ended("builder")
		w.pass(31 * time.Second)
		w.send("planner", api.SendParams{To: builder})
		b.next()
	})
	t.Run("mail that hooks told within a turn and that is unread at its end starts a turn", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		b.report(wake.EventPrompt)
		first := w.send("planner", api.SendParams{To: builder})
		if got := b.report(wake.EventTool); got == "" {
			t.Error("a tool call: no notice")
		}
		if got := b.report(wake.EventTool); got != "" {
			t.Errorf("it is told twice in a turn: %q", got)
		}
		if got := b.report(wake.EventTurnEnd); !strings.Contains(got, "1 new message") {
			t.Errorf("the end of the turn: got %q", got)
		}
		b.report(wake.EventTool)
		rpc.Call(t.Context(), b.client(), api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
		b.report(wake.EventTurnEnd)
		w.untilRow(first, hub.DeliveryAccepted)
		b.report(wake.EventPrompt)
		second := w.send("planner", api.SendParams{To: builder})
		b.report(wake.EventTool)
		if got := b.report(wake.EventTurnEnd); got != "" {
			t.Errorf("within the gap: got %q", got)
		}
		b.none("within the gap")
		w.pass(31 * time.Second)
		b.next()
		w.untilRow(second, hub.DeliveryAccepted)
	})
	t.Run("a newer waiter ends the older one, and a process is part of a session", func(t *testing.T) {
		w, b := begin(t, server.Options{}, nil)
		other := b.key
		other.Process++
		headless := api.WakeWaitParams{Key: other, Mechanism: "monitor", Seconds: 1}
		if got := mustCall(t, b.client(), api.WaitWake, headless); got.Gone || got.Wake != nil {
			t.Errorf("another process: got %+v", got)
		}
		if n := len(w.standing("builder").Sessions); n != 2 {
			t.Errorf("got %d sessions, want 2", n)
		}
		mustCall(t, b.client(), api.WaitWake, api.WakeWaitParams{Key: b.key, Mechanism: "hook", Attended: true, Seconds: 1})
		<-b.gone
	})
	t.Run("R3-125 a probe makes one turn and stores a dated report", func(t *testing.T) {
		w, b := begin(t, server.Options{}, obeys)
		got := mustCall(t, w.as(w.operator), api.TestWake, api.WakeTestParams{Agent: "builder"})
		if n := b.next(); !got.Proven || got.Mechanism != "monitor" || got.Wake != n.ID || !strings.Contains(n.Notice, "A test by your operator") {
			t.Errorf("got %+v, notice %q", got, n.Notice)
		}
		if p := w.standing("builder").Probe; p == nil || p.Wake != got.Wake || p.At.IsZero() {
			t.Errorf("stored: got %+v", p)
		}
	})
	for name, limits := range map[string]server.WakeLimits{
		"their budgets": {PerHour: 3, Gap: time.Millisecond},
		"four rounds":   {PerHour: 1000, PairPerHour: 1000, Gap: time.Millisecond},
	} {
		t.Run("three agents that answer everything stay within "+name+", and the operator is told once", func(t *testing.T) {
			names := []hub.AgentID{"ada", "bob", "cyd"}
			w := startWakes(t, server.Options{Wakes: limits}, append([]hub.AgentID{"planner"}, names...)...)
			var turns atomic.Int64
			answers := func(t *terminal, wk wake.Notice) {
				t.takeTurn(wk, func() {
					turns.Add(1)
					in, _ := rpc.Call(context.Background(), t.client(), api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
					for _, m := range in.Messages {
						for _, to := range names {
							if to != t.agent {
								rpc.Call(context.Background(), t.client(), api.Send, api.SendParams{To: api.Recipients{to}, Text: fmt.Sprintf("re %s to %s", m.ID, to)})
							}
						}
					}
				})
			}
			var last *terminal
			for _, n := range names {
				last = w.terminalOf(n, answers)
			}
			w.send("planner", api.SendParams{To: api.Recipients{"ada"}})
			told := func() int { return len(mustCall(t, w.as(w.operator), api.Inbox, api.InboxParams{Peek: true}).Messages) }
			w.until("the operator is told", func() bool { return told() > 0 }, func() any { return turns.Load() })
			w.until("no turn runs", func() bool {
				before := turns.Load()
				last.flush()
				return turns.Load() == before
			}, func() any { return turns.Load() })
			// Four rounds are at most four turns of each agent; mail of one turn comes together.
			if n := turns.Load(); n > 12 || limits.PerHour == 3 && n > 9 {
				t.Errorf("got %d turns", n)
			}
			if n := told(); n != 1 {
				t.Errorf("the operator was told %d times", n)
			}
		})
	}
	t.Run("the ninth message of a chain is held for the operator, who lets it go on", func(t *testing.T) {
		names := []hub.AgentID{"ada", "bob", "cyd"}
		w := startWakes(t, server.Options{}, append([]hub.AgentID{"planner", "dan"}, names...)...)
		dan := w.terminalOf("dan", obeys)
		var last mailroom.Receipt
		for i := range 10 {
			from := w.as(w.keys[names[i%3]])
			if i > 0 {
				mustCall(t, from, api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
			}
			if last.ID != "" && slices.ContainsFunc(last.Deliveries, func(f mailroom.Forecast) bool { return f.Status == hub.DeliveryHeld }) {
				t.Errorf("message %d of the chain is held", i)
			}
			to := names[(i+1)%3]
			if i == 9 {
				to = "dan"
			}
			last = mustCall(t, from, api.Send, api.SendParams{To: api.Recipients{to}, Text: fmt.Sprint("step ", i)})
		}
		if f := last.Deliveries[1]; f.Reach != hub.ReachHeld || f.Status != hub.DeliveryHeld || !strings.Contains(f.Reason, "parley agent wake dan --on") {
			t.Errorf("the forecast: got %+v", f)
		}
		if row := w.untilRow(last.ID, hub.DeliveryHeld); !strings.Contains(row.Error, "9 messages in a row") {
			t.Errorf("got %+v", row)
		}
		dan.none("its message is held")
		mustCall(t, w.as(w.operator), api.ResumeWake, api.WakePauseParams{Agent: "dan"})
		dan.next()
		w.untilRow(last.ID, hub.DeliveryAccepted)
	})
	t.Run("the sixth answer of a pair in a row is held, and a change of a task begins anew", func(t *testing.T) {
		for _, task := range []bool{false, true} {
			w := startWakes(t, server.Options{}, "planner", "builder")
			w.allow(api.WakeAllowParams{Agent: "planner", Allow: true})
			pair := []hub.AgentID{"planner", "builder"}
			last := mustCall(t, w.as(w.keys["planner"]), api.Send, api.SendParams{To: builder, Text: "a question"})
			for i := range 6 {
				p := api.SendParams{To: api.Recipients{pair[i%2]}, Text: fmt.Sprint("answer ", i), ReplyTo: last.ID}
				if task && i == 3 {
					p.Type = hub.TypeStatusComplete
				}
				last = mustCall(t, w.as(w.keys[pair[(i+1)%2]]), api.Send, p)
				if held := last.Deliveries[1].Status == hub.DeliveryHeld; held != (!task && i == 5) {
					t.Errorf("task %t, answer %d: got %+v", task, i+1, last.Deliveries[1])
				}
			}
			if !task {
				w.untilRow(last.ID, hub.DeliveryHeld)
			}
		}
	})
}

// standing returns how the wakes of an agent stand.
func (w *wakeHub) standing(agent hub.AgentID) api.AgentWakes {
	w.t.Helper()
	return mustCall(w.t, w.as(w.operator), api.ListSessions, api.AgentNameParams{Agent: agent}).Agents[0]
}

// ended waits until the turn of the last wake is over.
func (w *wakeHub) ended(agent hub.AgentID) {
	w.t.Helper()
	w.until("the turn ended", func() bool {
		last := w.standing(agent).Last
		return last != nil && last.State == string(channel.TurnEnded)
	}, func() any { return w.standing(agent) })
}

// TestForecast holds the forecast in the answer to a send against what happened.
func TestForecast(t *testing.T) {
	t.Parallel()
	attended := true
	for _, mechanism := range []string{"monitor", "rewake hook", "queue", "socket", "plugin", "extension"} {
		for channelName, withPerson := range map[hub.Channel]bool{hub.ChannelSession: true, hub.ChannelWake: false} {
			t.Run(fmt.Sprintf("%s over %s: idle is now, busy is after this turn", mechanism, channelName), func(t *testing.T) {
				w := startWakes(t, server.Options{}, "planner", "builder")
				b := w.terminalWith("builder", mechanism, withPerson, obeys)
				id, got := w.forecast(channelName)
				if got.Reach != hub.ReachNow || got.Status != hub.DeliveryPending || !strings.Contains(got.Reason, "reachable by "+mechanism) {
					t.Errorf("idle: got %+v", got)
				}
				if row := w.untilRow(id, hub.DeliveryAccepted); row.Channel != channelName || !strings.Contains(row.Error, mechanism) {
					t.Errorf("idle: it happened otherwise: %+v", row)
				}
				b.next()
				w.ended("builder")
				w.pass(time.Minute)
				b.report(wake.EventPrompt)
				id, got = w.forecast(hub.ChannelSession)
				if withPerson && (got.Reach != hub.ReachOnPoll || !strings.Contains(got.Reason, "after this turn")) {
					t.Errorf("busy: got %+v", got)
				}
				b.quiet(wake.EventTurnEnd)
				b.next()
				w.untilRow(id, hub.DeliveryAccepted)
			})
		}
	}
	t.Run("a CLI that cannot be woken sees it at its next prompt, and the sender is told", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		g := &terminal{wakeHub: w, agent: "builder", secret: w.keys["builder"], key: wake.Key{CLI: "gemini", ID: "s"}, wakes: make(chan wake.Notice)}
		mustCall(t, g.client(), api.ReportWake, api.WakeReportParams{Key: g.key, Event: wake.EventStart, Attended: &attended})
		id, got := w.forecast(hub.ChannelSession)
		if got.Reach != hub.ReachOnPoll || got.Status != hub.DeliverySkipped || !strings.Contains(got.Reason, "idle in gemini, cannot be woken: it sees the message at its next prompt") {
			t.Errorf("got %+v", got)
		}
		if notice := g.report(wake.EventPrompt); !strings.Contains(notice, "1 new message") {
			t.Errorf("the next prompt: got %q", notice)
		}
		w.untilRow(id, hub.DeliveryOffered)
	})
	t.Run("without a session it is unreachable over a session", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		id, got := w.forecast(hub.ChannelSession)
		if got.Reach != hub.ReachUnreachable || !strings.Contains(got.Reason, "no live session") {
			t.Errorf("got %+v", got)
		}
		if rows := w.rows(id); len(rows) != 1 || rows[0].Status != hub.DeliverySkipped {
			t.Errorf("got %+v", rows)
		}
		if in := mustCall(t, w.as(w.keys["builder"]), api.Inbox, api.InboxParams{}); len(in.Messages) != 1 {
			t.Errorf("got %d messages", len(in.Messages))
		}
	})
}

// forecast sends a message to builder and returns the forecast for a channel.
func (w *wakeHub) forecast(c hub.Channel) (hub.EnvelopeID, mailroom.Forecast) {
	w.t.Helper()
	got := mustCall(w.t, w.as(w.keys["planner"]), api.Send, api.SendParams{To: api.Recipients{"builder"}, Text: "x"})
	for _, f := range got.Deliveries {
		if f.Channel == c {
			return got.ID, f
		}
	}
	w.t.Errorf("no row for %s: %+v", c, got.Deliveries)
	return got.ID, mailroom.Forecast{}
}

// sessionNamed returns a session of an agent, as the operator sees it.
func (w *wakeHub) sessionNamed(agent hub.AgentID, id string) wake.Session {
	w.t.Helper()
	for _, s := range mustCall(w.t, w.as(w.operator), api.ListSessions, api.AgentNameParams{Agent: agent}).Agents[0].Sessions {
		if s.ID == id {
			return s
		}
	}
	w.t.Fatalf("%s has no session %s", agent, id)
	return wake.Session{}
}
