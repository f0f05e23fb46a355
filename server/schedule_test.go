package server_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/server"
)

// A dueRun is the payload of a run of a schedule.
type dueRun struct {
	Schedule hub.ScheduleID `json:"schedule"`
	Text     string         `json:"text"`
	Missed   int            `json:"missed"`
	Skipped  int            `json:"skipped"`
}

// dueRuns returns the runs in the inbox of an agent.
func (w *wakeHub) dueRuns(agent hub.AgentID) (out []dueRun) {
	w.t.Helper()
	for _, m := range w.inboxOf(agent) {
		if m.Type != hub.TypeEventDue {
			continue
		}
		var run dueRun
		if err := json.Unmarshal(m.Payload, &run); err != nil {
			w.t.Fatal(err)
		}
		if m.From != hub.Operator {
			w.t.Errorf("a run is from %s", m.From)
		}
		out = append(out, run)
	}
	return out
}

// every adds a schedule.
func (w *wakeHub) every(set schedule.Setting) hub.Schedule {
	w.t.Helper()
	return mustCall(w.t, w.as(w.operator), api.AddSchedule, set).Schedule
}

// shown returns the only schedule.
func (w *wakeHub) shown() hub.Schedule {
	w.t.Helper()
	all := mustCall(w.t, w.as(w.operator), api.ListSchedules, api.None{}).Schedules
	if len(all) != 1 {
		w.t.Fatalf("got %+v", all)
	}
	return all[0]
}

// wantRuns checks that so many runs were sent, and so many skipped since the last.
func (w *wakeHub) wantRuns(runs, skipped int64) {
	w.t.Helper()
	w.server.StepSchedules(w.t)
	if s := w.shown(); s.Runs != runs || s.Skipped != skipped {
		w.t.Errorf("got %+v, want %d runs and %d skipped", s, runs, skipped)
	}
}

// readAll acknowledges the inbox of an agent.
func (w *wakeHub) readAll(agent hub.AgentID) {
	w.t.Helper()
	mustCall(w.t, w.as(w.keys[agent]), api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	t.Run("a run is sent in time, and left out while the last one is unread", func(t *testing.T) {
		t.Parallel()
		w := startWakes(t, server.Options{}, "planner", "builder")
		s := w.every(schedule.Setting{Every: "1h", To: "builder", Text: "look at the reviews"})
		if wait := s.Due.Sub(w.clock.Now()); s.ID != "e1" || wait > time.Hour || wait < 59*time.Minute {
			t.Errorf("got %+v", s)
		}
		w.pass(61 * time.Minute)
		w.wantRuns(1, 0)
		for i := range int64(2) {
			w.pass(time.Hour)
			w.wantRuns(1, i+1)
		}
		if got := w.dueRuns("builder"); len(got) != 1 || got[0] != (dueRun{Schedule: "e1", Text: "look at the reviews"}) {
			t.Errorf("got %+v", got)
		}
		w.readAll("builder")
		w.pass(time.Hour)
		w.wantRuns(2, 0)
		if got := w.dueRuns("builder"); len(got) != 1 || got[0].Skipped != 2 || got[0].Missed != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("missed runs are told once", func(t *testing.T) {
		t.Parallel()
		w := startWakes(t, server.Options{}, "planner", "builder")
		w.every(schedule.Setting{Every: "0 9 * * *", Zone: "UTC", To: "builder", Text: "plan"})
		w.running.stop()
		w.clock.Pass(3 * 24 * time.Hour)
		w.restart()
		w.wantRuns(1, 0)
		got := w.dueRuns("builder")
		if len(got) != 1 || got[0].Missed < 2 || got[0].Missed > 3 {
			t.Errorf("got %+v, want one run that stands for the missed ones", got)
		}
		if s := w.shown(); !s.Due.After(w.clock.Now()) || s.Missed != int64(got[0].Missed) {
			t.Errorf("got %+v", s)
		}
		if report := mustCall(t, w.as(w.operator), api.Verify, api.VerifyParams{}); len(report.Findings) > 0 {
			t.Errorf("verify: %+v", report.Findings)
		}
	})
	t.Run("the operator runs one now and removes it", func(t *testing.T) {
		t.Parallel()
		w := startWakes(t, server.Options{}, "planner", "builder")
		b := w.terminalOf("builder", obeys)
		s := w.every(schedule.Setting{Every: "0 9 * * 1-5", Zone: "Europe/Berlin", To: "builder", Text: "plan"})
		mustCall(t, w.as(w.operator), api.RunSchedule, api.ScheduleParams{ID: s.ID})
		b.next() // a run starts a turn
		if got := w.shown(); got.Runs != 1 || !got.Due.Equal(s.Due.Time) {
			t.Errorf("got %+v, want the next run at %s", got, s.Due)
		}
		mustCall(t, w.as(w.operator), api.RemoveSchedule, api.ScheduleParams{ID: s.ID})
		if _, err := rpc.Call(t.Context(), w.as(w.operator), api.RunSchedule, api.ScheduleParams{ID: s.ID}); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("a removed schedule: %v", err)
		}
	})
}
