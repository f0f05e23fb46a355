package continuation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/continuation"
)

// TestRulesOfSuccessors has a row for each rule about which agent goes on with a task whose agent stopped.
// Each row changes one thing of the first, in which the first successor is asked.
func TestRulesOfSuccessors(t *testing.T) {
	restricted := func(m map[string]any) { m["policy"] = map[string]any{"classification": "restricted"} }
	for _, c := range []struct {
		name       string
		reason     hub.ContinuationReason // quota, unless it is named
		until      time.Duration          // after which the agent can go on; unknown if 0
		successors []string               // tester and helper, unless they are named
		task       func(m map[string]any)
		before     func(w *world)
		state      hub.ContinuationState
		to         hub.AgentID
		why        string // in the reason of a task that waits
	}{
		{name: "the first successor is asked", state: hub.ContinuationOffered, to: "tester"},
		{name: "nobody is asked without successors", successors: []string{}, state: hub.ContinuationWaiting},
		{name: "a restricted package needs the operator", task: restricted, state: hub.ContinuationWaiting, why: "restricted"},
		{name: "an agent that a person closed keeps its task", reason: hub.ContinueClosed, state: hub.ContinuationWaiting},
		{name: "an agent whose quota is full within the patience keeps its task", until: patience, state: hub.ContinuationWaiting, why: "can go on at"},
		{name: "one whose quota is full a minute later does not", until: patience + time.Minute, state: hub.ContinuationOffered, to: "tester"},
		{name: "a lost login is no matter of time", reason: hub.ContinueLogin, until: time.Minute, state: hub.ContinuationOffered, to: "tester"},

		{name: "a successor whose budget is spent is passed over", before: func(w *world) { w.crew.blocked["tester"] = "its budget is spent" }, state: hub.ContinuationOffered, to: "helper"},
		{name: "a successor that is paused is passed over", before: func(w *world) { w.crew.off = map[hub.AgentID]string{"tester": "it is paused"} }, state: hub.ContinuationOffered, to: "helper"},
		{
			name: "a successor that rests is passed over", state: hub.ContinuationOffered, to: "helper",
			before: func(w *world) { w.crew.kept["tester"] = continuation.Kept{Until: hub.At(w.now.Add(time.Hour))} },
		},
		{
			name: "one whose rest is over is asked", state: hub.ContinuationOffered, to: "tester",
			before: func(w *world) { w.crew.kept["tester"] = continuation.Kept{Until: hub.At(w.now.Add(-time.Second))} },
		},
		{
			name: "a successor that failed for the same reason is passed over", state: hub.ContinuationOffered, to: "helper",
			before: func(w *world) { w.failed("tester", hub.ContinueQuota) },
		},
		{
			name: "one that failed for another reason is asked", state: hub.ContinuationOffered, to: "tester",
			before: func(w *world) { w.failed("tester", hub.ContinueContext) },
		},
		{
			name: "one that failed longer ago than the patience is asked", state: hub.ContinuationOffered, to: "tester",
			before: func(w *world) {
				w.failed("tester", hub.ContinueQuota)
				w.now = w.now.Add(patience + time.Second)
			},
		},
		{
			name: "if none can, the task waits and says why of each", state: hub.ContinuationWaiting, why: "helper: it is paused",
			before: func(w *world) {
				w.crew.blocked["tester"] = "its budget is spent"
				w.crew.off = map[hub.AgentID]string{"helper": "it is paused"}
			},
		},
		{name: "an agent is no successor of itself while it is limited", successors: []string{continuation.Self, "tester"}, state: hub.ContinuationOffered, to: "tester"},
		{
			name: "an agent with a full context goes on itself", reason: hub.ContinueContext, successors: []string{continuation.Self, "tester"},
			state: hub.ContinuationTaken, to: "builder",
		},
		{name: "the agent of a CLI begins in the folder of the task", successors: []string{"claude"}, state: hub.ContinuationOffered, to: "builder-claude"},
		{
			name: "the agent of a CLI without budget does not begin", successors: []string{"claude", "tester"}, state: hub.ContinuationOffered, to: "tester",
			before: func(w *world) { w.crew.blocked["builder-claude"] = "its budget is spent" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "helper")
			var change []func(map[string]any)
			if c.task != nil {
				change = append(change, c.task)
			}
			w.give("planner", "builder", change...)
			if c.before != nil {
				c.before(w)
			}
			successors := c.successors
			if successors == nil {
				successors = []string{"tester", "helper"}
			}
			w.crew.kept["builder"] = continuation.Kept{Folder: "/src/app", CLI: "codex", Or: successors}
			cause := continuation.Cause{Agent: "builder", Reason: hub.ContinueQuota}
			if c.reason != "" {
				cause.Reason = c.reason
			}
			if c.until > 0 {
				cause.Until = hub.At(w.now.Add(c.until))
			}
			_, err := w.Stop(w.ctx, cause)
			w.must(err)

			got := w.of("builder")
			if got.State != c.state || got.To != c.to || !strings.Contains(got.Why, c.why) {
				t.Errorf("got %s to %q (%s), want %s to %q (%s)", got.State, got.To, got.Why, c.state, c.to, c.why)
			}
			if _, began := w.crew.kept["builder-claude"]; began && c.to != "builder-claude" {
				t.Error("an agent began to work without the task")
			}
		})
	}
}

// failed has an agent stop in a task of its own.
func (w *world) failed(name hub.AgentID, reason hub.ContinuationReason) {
	w.Helper()
	w.give("planner", name, func(m map[string]any) {
		m["task"] = map[string]any{"task_id": "T-" + string(name), "title": "another task", "objective": "x", "success_criteria": []any{"y"}}
	})
	_, err := w.Stop(w.ctx, continuation.Cause{Agent: name, Reason: reason})
	w.must(err)
}

// of returns the continuation of the task of an agent.
func (w *world) of(name hub.AgentID) hub.Continuation {
	w.Helper()
	got, err := w.List(w.ctx, operator, false)
	w.must(err)
	for _, c := range got.Continuations {
		if c.Of == name {
			return c
		}
	}
	w.Fatalf("there is no continuation of %s", name)
	return hub.Continuation{}
}

// TestThreeInADay holds that a task goes on by itself three times a day, and then waits for a person.
func TestThreeInADay(t *testing.T) {
	names := []hub.AgentID{"a", "b", "c", "d", "e"}
	w := newWorld(t, names...)
	w.give("planner", "a")
	for i, of := range names[:4] {
		w.now = w.now.Add(time.Hour)
		w.stop(of, hub.ContinueContext, string(names[i+1]))
		got := w.of(of)
		if i == 3 {
			if got.State != hub.ContinuationWaiting || !strings.Contains(got.Why, "3 times within a day") {
				t.Fatalf("the fourth time: got %s to %q (%s), want that it waits", got.State, got.To, got.Why)
			}
			break
		}
		if got.State != hub.ContinuationOffered || got.To != names[i+1] {
			t.Fatalf("time %d: got %s to %q (%s)", i+1, got.State, got.To, got.Why)
		}
		w.accept(names[i+1], got.Next)
	}

	// A day later it goes on by itself again.
	w.pass(25 * time.Hour)
	if got := w.of("d"); got.State != hub.ContinuationOffered || got.To != "e" {
		t.Errorf("a day later: got %s to %q (%s), want that it is offered to e", got.State, got.To, got.Why)
	}
}

// TestWorkingAgentKeepsItsTask holds that a task is not taken from an agent that works on it, by a person or
// after the patience.
func TestWorkingAgentKeepsItsTask(t *testing.T) {
	w := newWorld(t)
	id := w.give("planner", "builder")
	w.stop("builder", hub.ContinueQuota)
	w.crew.kept["builder"] = continuation.Kept{Folder: "/src/app", Or: []string{"tester"}}
	w.crew.working = "builder"
	if _, err := w.Continue(w.ctx, operator, continuation.Request{Handoff: id, With: "tester"}); hub.CodeOf(err) != hub.CodeConflict {
		t.Errorf("a person takes the task of a working agent: got %v", err)
	}
	w.pass(2 * patience)
	w.want(hub.ContinuationWaiting, "")
	w.crew.working = ""
	w.pass(2 * patience)
	w.want(hub.ContinuationOffered, "tester")
}

// TestContinueIsTheOperators has what others, and the operator with wrong words, get as an answer.
func TestContinueIsTheOperators(t *testing.T) {
	w := newWorld(t)
	id := w.give("planner", "builder")
	for name, c := range map[string]struct {
		by   hub.Caller
		ask  continuation.Request
		want hub.Code
	}{
		"an agent":                      {agent("planner"), continuation.Request{Handoff: id, With: "tester"}, hub.CodeDenied},
		"its owner":                     {agent("builder"), continuation.Request{Handoff: id, With: "tester"}, hub.CodeDenied},
		"without a successor":           {operator, continuation.Request{Handoff: id}, hub.CodeInvalid},
		"a handoff that does not exist": {operator, continuation.Request{Handoff: "01a1f400-48e0-742d-a122-7d021295b07d", With: "tester"}, hub.CodeNotFound},
	} {
		if _, err := w.Continue(w.ctx, c.by, c.ask); hub.CodeOf(err) != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	if got, err := w.List(w.ctx, operator, false); err != nil || len(got.Continuations) > 0 {
		t.Errorf("a refused call left %v, %v", got.Continuations, err)
	}
}
