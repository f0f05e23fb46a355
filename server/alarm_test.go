package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/server"
)

func TestWhatMayWake(t *testing.T) {
	t.Parallel()
	t.Run("a late task wakes the coordinator, once", func(t *testing.T) {
		w := startWakes(t, server.Options{SLA: time.Hour}, "planner", "boss")
		w.keys["builder"] = w.add(t, "builder")[0]
		mustCall(t, w.as(w.operator), api.SetRole, api.AgentParams{ID: "boss", Role: hub.RoleCoordinator})
		boss := w.terminalOf("boss", obeys)
		h := w.acceptedTask("planner", "builder")
		w.pass(2 * time.Hour)
		w.restart() // a hub looks for late tasks when it starts, then each minute
		if got := boss.next(); !strings.Contains(got.Notice, "1 new message") {
			t.Errorf("got %q", got.Notice)
		}
		w.ended("boss")

		w.pass(48 * time.Hour)
		w.restart()
		alarms := func() (n int) {
			for _, m := range mustCall(t, boss.client(), api.Inbox, api.InboxParams{Peek: true}).Messages {
				if m.From == hub.Self && m.ThreadID == h.ThreadID {
					n++
				}
			}
			return n
		}
		w.until("the task is escalated again", func() bool { return alarms() > 0 }, func() any { return alarms() })
		boss.none("it was woken for this task before")
	})
	t.Run("the acceptance of a task wakes no agent", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "builder", "planner")
		p := w.terminalOf("planner", obeys)
		w.acceptedTask("planner", "builder")
		p.none("its task was accepted")
	})
	for name, answer := range map[string]func(to api.Recipients) []api.Recipients{
		"in one message": func(to api.Recipients) []api.Recipients { return []api.Recipients{to} },
		"one by one":     func(to api.Recipients) []api.Recipients { return []api.Recipients{to[:1], to[1:]} },
	} {
		t.Run("three agents that answer everyone "+name+" take at most 12 turns", func(t *testing.T) { storm(t, answer) })
	}
	t.Run("the gap between wakes stretches, except for messages of the operator", func(t *testing.T) {
		w := startWakes(t, server.Options{}, "planner", "builder")
		b := w.terminalOf("builder", obeys)
		builder := api.Recipients{"builder"}
		for _, gap := range []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute} {
			if gap > 0 {
				w.send("planner", api.SendParams{To: builder})
				w.pass(gap - 10*time.Second)
				b.none("within the gap")
				w.pass(11 * time.Second)
			} else {
				w.send("planner", api.SendParams{To: builder})
			}
			b.next()
			w.ended("builder")
		}
		w.pass(31 * time.Second)
		mustCall(t, w.as(w.operator), api.Send, api.SendParams{To: builder, Text: "stop"})
		b.next()
	})
}

// storm lets three agents answer each message to both others, and counts their turns and
// the requests to their models until the hub ends it: it holds their messages, or their
// thread is full, whichever comes first. The gap between wakes does not slow them down.
//
// A model gets a request with the notice, one with the answer of acp_inbox, and one with the
// answers to all messages that it sent at once; it says nothing then.
func storm(t *testing.T, answer func(others api.Recipients) []api.Recipients) {
	names := []hub.AgentID{"ada", "bob", "cyd"}
	w := startWakes(t, server.Options{Wakes: server.WakeLimits{PerHour: 60, PairPerHour: 1000, Gap: time.Millisecond}}, append([]hub.AgentID{"planner"}, names...)...)
	var turns, requests atomic.Int64
	var full atomic.Bool // the hub took no further message in the thread
	answers := func(t *terminal, wk wake.Notice) {
		t.takeTurn(wk, func() {
			turns.Add(1)
			requests.Add(2)
			others := slices.DeleteFunc(slices.Clone(names), func(id hub.AgentID) bool { return id == t.agent })
			in, _ := rpc.Call(context.Background(), t.client(), api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
			if len(in.Messages) > 0 {
				requests.Add(1)
			}
			for _, m := range in.Messages {
				for _, to := range answer(others) {
					_, err := rpc.Call(context.Background(), t.client(), api.Send, api.SendParams{To: to, ReplyTo: m.ID, Text: fmt.Sprintf("re %s", m.ID)})
					if hub.CodeOf(err) == hub.CodeLoop {
						full.Store(true)
					}
				}
			}
		})
	}
	var last *terminal
	for _, n := range names {
		last = w.terminalOf(n, answers)
	}

	w.send("planner", api.SendParams{To: names})
	told := func() int {
		return len(mustCall(t, w.as(w.operator), api.Inbox, api.InboxParams{Peek: true}).Messages)
	}
	w.until("the hub ends it", func() bool { return told() > 0 || full.Load() }, func() any { return turns.Load() })
	w.until("no turn runs", func() bool {
		before := turns.Load()
		last.flush()
		return turns.Load() == before
	}, func() any { return turns.Load() })
	t.Logf("%d turns, %d requests to models; the thread is full: %t", turns.Load(), requests.Load(), full.Load())
	if n := turns.Load(); n > 12 {
		t.Errorf("got %d turns", n)
	}
	if n := requests.Load(); n > 36 {
		t.Errorf("got %d requests to models", n)
	}
	held := 0
	for _, a := range mustCall(t, w.as(w.operator), api.ListSessions, api.AgentNameParams{}).Agents {
		held += a.Looped
	}
	if held == 0 && !full.Load() {
		t.Error("no agent is listed with messages that are held")
	}
}

// acceptedTask hands a task over, which its recipient accepts.
func (w *wakeHub) acceptedTask(from, to hub.AgentID) handoff.Report {
	w.t.Helper()
	h := mustCall(w.t, w.as(w.keys[from]), api.Handoff, api.HandoffParams{
		Action: "initiate", To: to, TaskID: "t-1", Title: "review", Summary: "s", NextStep: "n", Criteria: []string{"c"},
	}).Report
	return *mustCall(w.t, w.as(w.keys[to]), api.Handoff, api.HandoffParams{Action: "accept", ID: h.ID}).Report
}
