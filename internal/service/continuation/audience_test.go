package continuation_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/team"
)

// An event is a row of the table in docs/continue.md: something that happens to a task of builder,
// which cannot go on, and the messages about it.
type event struct {
	name   string
	before func(w *world, cause hub.ContinuationReason) // whose messages are not of the event
	act    func(w *world, cause hub.ContinuationReason)
}

// events are the rows of the table.
var events = []event{
	{name: "no successor is named", act: func(w *world, cause hub.ContinuationReason) {
		w.stop("builder", cause)
		w.want(hub.ContinuationWaiting, "")
	}},
	{name: "a successor is asked", act: askTester},
	{name: "it accepts", before: askTester, act: func(w *world, _ hub.ContinuationReason) {
		w.accept("tester", w.last().Next)
		w.want(hub.ContinuationTaken, "tester")
	}},
	{name: "it completes the task", before: func(w *world, cause hub.ContinuationReason) {
		askTester(w, cause)
		w.accept("tester", w.last().Next)
	}, act: func(w *world, _ hub.ContinuationReason) {
		w.complete("tester", w.last().Next)
	}},
	{name: "it refuses, and the next one is asked", before: askTester, act: func(w *world, _ hub.ContinuationReason) {
		w.crew.kept["builder"] = continuation.Kept{Folder: "/src/app", Or: []string{"tester", "reviewer"}}
		w.reject("tester", w.last().Next)
		w.pass(0)
		w.want(hub.ContinuationOffered, "reviewer")
	}},
	{name: "the last one refuses", before: askTester, act: func(w *world, _ hub.ContinuationReason) {
		w.reject("tester", w.last().Next)
		w.pass(0)
		w.pass(2 * patience) // it is said once
		w.want(hub.ContinuationRefused, "tester")
	}},
	{name: "no successor can take it", act: func(w *world, cause hub.ContinuationReason) {
		w.crew.blocked["tester"] = "the budget b1 of tester is spent"
		w.stop("builder", cause, "tester")
		w.pass(2 * patience)
		w.want(hub.ContinuationWaiting, "")
	}},
	{name: "the agent goes on itself", before: func(w *world, cause hub.ContinuationReason) {
		w.stop("builder", cause)
	}, act: func(w *world, _ hub.ContinuationReason) {
		_, err := w.Returned(w.ctx, "builder")
		w.must(err)
		w.want(hub.ContinuationTaken, "builder")
	}},
	{name: "a person continues it with tester", before: func(w *world, cause hub.ContinuationReason) {
		w.stop("builder", cause)
	}, act: func(w *world, _ hub.ContinuationReason) {
		_, err := w.Continue(w.ctx, operator, continuation.Request{Handoff: w.last().Handoff, With: "tester"})
		w.must(err)
		w.want(hub.ContinuationOffered, "tester")
	}},
}

// askTester has builder stop, and its successor tester be asked. The successors of an agent whose
// window was closed are those of a team.
func askTester(w *world, cause hub.ContinuationReason) {
	w.stop("builder", cause, "tester")
	w.want(hub.ContinuationOffered, "tester")
}

// TestAudience compares the messages about a task with the table in docs/continue.md.
func TestAudience(t *testing.T) {
	page, err := os.ReadFile("../../../docs/continue.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := strings.Split(string(page), "\n")
	for _, cause := range hub.ContinuationReasons {
		for _, e := range events {
			if cause == hub.ContinueClosed && !isForClosed(e) {
				continue
			}
			t.Run(string(cause)+": "+e.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "reviewer")
				w.give("planner", "builder")
				all := []hub.AgentID{"planner", hub.Operator, "builder"}
				if e.before != nil {
					e.before(w, cause)
				}
				for _, name := range all {
					w.hears(name)
				}
				e.act(w, cause)

				row := "| " + e.name
				for _, name := range all {
					row += " | " + cellOf(w.hears(name), cause)
				}
				if row += " |"; !slices.Contains(documented, row) {
					t.Errorf("docs/continue.md has no row\n%s", row)
				}
			})
		}
	}
}

// isForClosed reports whether an event can happen to a task whose window was closed, without a team.
func isForClosed(e event) bool {
	return slices.Contains([]string{"no successor is named", "the agent goes on itself", "a person continues it with tester"}, e.name)
}

// cellOf returns messages as a cell of the table, with a mark for the words about the cause and for the
// sentence with which most of them begin.
func cellOf(all []string, cause hub.ContinuationReason) string {
	if len(all) == 0 {
		return "-"
	}
	text := strings.ReplaceAll(strings.Join(all, "<br>"), cause.Text(), "*cannot go on*")
	return strings.ReplaceAll(text, `builder *cannot go on*; its task "write the parser" (k1) is not done; its uncommitted work is kept as s1 (1 file, +1 -0)`, "*stopped*")
}

// TestSenders compares the agents that hear the end of a task.
func TestSenders(t *testing.T) {
	hasDone := func(all []string) bool {
		return slices.ContainsFunc(all, func(text string) bool {
			return strings.Contains(text, "complete h") && strings.Contains(text, "all tests pass")
		})
	}
	t.Run("the agent that handed the task on itself, and the one before, hear the end of a continued task", func(t *testing.T) {
		w := newWorld(t, "reviewer")
		w.give("planner", "reviewer")
		w.give("reviewer", "builder")
		w.stop("builder", hub.ContinueQuota, "tester")
		next := w.last().Next
		w.accept("tester", next)
		w.complete("tester", next)
		for name, want := range map[hub.AgentID]bool{"planner": true, "reviewer": true, "builder": false} {
			if got := w.hears(name); hasDone(got) != want {
				t.Errorf("%s hears %q", name, got)
			}
		}
	})
	t.Run("a task that was continued twice ends for its first sender alone", func(t *testing.T) {
		w := newWorld(t, "reviewer")
		w.give("planner", "builder")
		w.stop("builder", hub.ContinueQuota, "tester")
		w.accept("tester", w.last().Next)
		w.now = w.now.Add(2 * patience)
		w.stop("tester", hub.ContinueLogin, "reviewer")
		next := w.want(hub.ContinuationOffered, "reviewer").Next
		w.accept("reviewer", next)
		w.complete("reviewer", next)
		for name, want := range map[hub.AgentID]bool{"planner": true, "builder": false, "tester": false} {
			if got := w.hears(name); hasDone(got) != want {
				t.Errorf("%s hears %q", name, got)
			}
		}
		if _, err := w.hands.Show(w.ctx, agent("planner"), next); err != nil {
			t.Errorf("planner cannot read the handoff that it hears of: %v", err)
		}
		if _, err := w.hands.Show(w.ctx, agent("outsider"), next); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("another agent reads the handoff: %v", err)
		}
	})
	t.Run("the end of a task that was done before is not told to the sender of that time", func(t *testing.T) {
		w := newWorld(t, "reviewer")
		w.complete("builder", w.give("planner", "builder"))
		w.hears("planner")
		w.complete("tester", w.give("reviewer", "tester"))
		if got := w.hears("planner"); len(got) != 0 {
			t.Errorf("planner hears %q", got)
		}
		if got := w.hears("reviewer"); !hasDone(got) {
			t.Errorf("reviewer hears %q", got)
		}
	})
	t.Run("the member that made a task of a team hears its end, though its owner had it without a handoff", func(t *testing.T) {
		w := newWorld(t)
		seats := []team.Seat{{Agent: "planner", Role: hub.RoleCoordinator}, {Agent: "builder", Role: hub.RoleExecutor}, {Agent: "tester", Role: hub.RoleExecutor}}
		work := func(as hub.Caller, r team.Request) team.Answer {
			t.Helper()
			got, err := w.teams.Perform(w.ctx, as, "core", r)
			w.must(err)
			return got
		}
		work(operator, team.Create{Objective: "work", Members: seats})
		work(operator, team.Move{Lifecycle: hub.TeamActive})
		made := work(agent("planner"), team.CreateTask{Title: "write the parser", Owner: "builder"})
		work(agent("builder"), team.MoveTask{Task: made.Task.ID, State: hub.TaskInProgress})
		w.stop("builder", hub.ContinueQuota)
		_, err := w.Continue(w.ctx, operator, continuation.Request{Task: made.Task.ID, With: "tester"})
		w.must(err)
		next := w.last().Next
		w.accept("tester", next)
		w.complete("tester", next)
		if got := w.hears("planner"); !hasDone(got) {
			t.Errorf("planner hears %q", got)
		}
		if got := w.hears("builder"); hasDone(got) {
			t.Errorf("builder hears %q", got)
		}
	})
}

// The operator reads which line logs an agent in.
func TestLogIn(t *testing.T) {
	for _, cause := range hub.ContinuationReasons {
		w := newWorld(t)
		w.give("planner", "builder")
		w.crew.kept["builder"] = continuation.Kept{Folder: "/src/app", LogIn: "codex login"}
		_, err := w.Stop(w.ctx, continuation.Cause{Agent: "builder", Reason: cause})
		w.must(err)
		text := strings.Join(w.hears(hub.Operator), "\n")
		if got, want := strings.Contains(text, "(log in with: codex login)"), cause == hub.ContinueLogin; got != want {
			t.Errorf("%s: the operator hears %s", cause, text)
		}
		if got, want := strings.Contains(text, "crashed"), cause == hub.ContinueCrash; got != want {
			t.Errorf("%s: the operator hears %s", cause, text)
		}
	}
}
