package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/server"
)

var offeredHandoff = regexp.MustCompile(`"handoff_id":"([^"]+)"`)

// hubOf returns a client with the key of a turn.
func hubOf(t *acp.AgentTurn, turn keptTurn) *rpc.Client {
	return rpc.NewClient(strings.TrimSuffix(t.MCPServers[0].HTTP.URL, "/mcp"), turn.Key, "", nil)
}

// takeTask accepts the handoff that a turn is about, and leaves a file that is not committed. Then
// it stops, as a file beside its folder says.
func takeTask(ctx context.Context, t *acp.AgentTurn, turn keptTurn) error {
	id := offeredHandoff.FindStringSubmatch(turn.Texts)[1]
	if _, err := rpc.Call(ctx, hubOf(t, turn), api.Handoff, api.HandoffParams{Action: "accept", ID: hub.HandoffID(id)}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.Dir, "draft.txt"), []byte("half of it\n"), 0o600); err != nil {
		return err
	}
	return stopBy(ctx, t)
}

// stopBy ends the turn of an agent as a file beside its folder says: always, or once.
func stopBy(ctx context.Context, t *acp.AgentTurn) error {
	failure := func(text string) error {
		return &jsonrpc.Error{Code: jsonrpc.CodeServer, Message: "Internal error", Data: json.RawMessage(text)}
	}
	raw, _ := os.ReadFile(beside(t.Dir, "cause"))
	cause, isOnce := strings.CutPrefix(string(raw), "once ")
	if isOnce {
		os.Remove(beside(t.Dir, "cause"))
	}
	if text, isError := strings.CutPrefix(cause, "error "); isError {
		raw, _ := json.Marshal(map[string]string{"message": text})
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "Internal error", Data: raw}
	}
	if text, isSaid := strings.CutPrefix(cause, "say "); isSaid {
		return t.Say(ctx, text)
	}
	switch cause {
	case "quota for 6 seconds":
		return failure(`{"codexErrorInfo":"usageLimitExceeded","message":"Try again in 6 seconds."}`)
	case "quota for an unknown time":
		return failure(`{"codexErrorInfo":"usageLimitExceeded"}`)
	case "quota":
		return failure(`{"codexErrorInfo":"usageLimitExceeded","message":"Try again in 3 hours."}`)
	case "login":
		return failure(`{"message":"401 invalid_api_key"}`)
	case "context":
		return failure(`{"message":"context_length_exceeded"}`)
	case "crash":
		os.Exit(3)
	case "hang":
		<-ctx.Done()
		return nil
	}
	return t.Say(ctx, "half of it is done")
}

// continueTask accepts the handoff by which a task goes on, and goes on with it.
func continueTask(ctx context.Context, t *acp.AgentTurn, turn keptTurn) error {
	id := regexp.MustCompile(`accept the handoff (\S+) `).FindStringSubmatch(turn.Prompt)[1]
	if _, err := rpc.Call(ctx, hubOf(t, turn), api.Handoff, api.HandoffParams{Action: "accept", ID: hub.HandoffID(id)}); err != nil {
		return err
	}
	return resumeTask(ctx, t)
}

// resumeTask goes on with a task that the agent owns.
func resumeTask(ctx context.Context, t *acp.AgentTurn) error {
	if err := os.WriteFile(filepath.Join(t.Dir, "continued.txt"), []byte("the other half\n"), 0o600); err != nil {
		return err
	}
	return t.Say(ctx, "continued")
}

// makeRepository makes a folder a repository with one commit.
func makeRepository(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// giveTask has planner hand a task over to builder, which accepts it in its first turn.
func (w *wakeHub) giveTask(dir string) hub.HandoffID {
	w.t.Helper()
	makeRepository(w.t, dir)
	mustCall(w.t, w.as(w.operator), api.AddRoot, api.RootParams{Path: dir})
	got := mustCall(w.t, w.as(w.keys["planner"]), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "T-1", Title: "write the parser", Objective: "a parser", Summary: "start", NextStep: "write parser.go", Criteria: []string{"tests pass"}, Worktree: dir,
	})
	return got.Report.ID
}

func (w *wakeHub) continuations() []hub.Continuation {
	w.t.Helper()
	return mustCall(w.t, w.as(w.operator), api.Continuations, api.ContinuationListParams{}).Continuations
}

func TestContinuation(t *testing.T) {
	t.Parallel()
	for _, cause := range []struct {
		name   string
		reason hub.ContinuationReason
	}{
		{"quota", hub.ContinueQuota}, {"login", hub.ContinueLogin}, {"context", hub.ContinueContext}, {"crash", hub.ContinueCrash}, {"hang", hub.ContinueHang}, {"budget", hub.ContinueBudget},
	} {
		t.Run(cause.name+": a successor continues the task in the same folder, and no line is lost", func(t *testing.T) {
			t.Parallel()
			o := server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}
			if cause.name == "hang" { // the others must not be taken for it on a slow machine
				o.Patience = 3 * time.Second
			}
			w := startWakes(t, o, "planner")
			dir := w.keepSelf("builder", func(p *api.KeepParams) {
				p.Or = []keeper.Successor{{Name: "next", Command: p.Command}}
			})
			os.WriteFile(beside(dir, "cause"), []byte(cause.name), 0o600)
			if cause.name == "budget" {
				mustCall(t, w.as(w.operator), api.SetBudget, usage.Limit{Of: "builder", Turns: 1, Per: hub.PerTotal})
			}
			id := w.giveTask(dir)
			w.until("the task is taken", func() bool {
				all := w.continuations()
				return len(all) == 1 && all[0].State == hub.ContinuationTaken
			}, func() any { return fmt.Sprint(w.continuations(), w.logOf("builder"), w.logOf("builder-next")) })

			c := w.continuations()[0]
			if c.Handoff != id || c.Of != "builder" || c.To != "builder-next" || c.Reason != cause.reason || c.Rescue == nil || c.Rescue.Files != 1 || c.Rescue.Insertions != 1 {
				t.Fatalf("got %+v with %+v", c, c.Rescue)
			}
			kept, err := exec.Command("git", "--git-dir", c.Rescue.Copy, "show", c.Rescue.Commit+":draft.txt").CombinedOutput()
			if err != nil || string(kept) != "half of it\n" {
				t.Errorf("the rescue: got %q, %v", kept, err)
			}
			w.until("the task goes on", func() bool { return exists(filepath.Join(dir, "continued.txt")) }, func() any { return w.logOf("builder-next") })

			// One agent owns the task, by a handoff that the first one sent.
			open := mustCall(t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "list", TaskID: "T-1", State: hub.HandoffActivated}).Listing.Handoffs
			if len(open) != 1 || open[0].To != "builder-next" || open[0].From != "builder" || open[0].Reason != string(cause.reason) || open[0].ID != c.Next {
				t.Errorf("the owners: got %+v", open)
			}
			if s := w.kept("builder"); s.State != keeper.Resting || s.Problem == "" {
				t.Errorf("the first agent: got %s, %q, want it to rest", s.State, s.Problem)
			}
			if cause.name == "quota" && c.Until.IsZero() {
				t.Error("the time at which the quota is full again is not known")
			}
		})
	}

	t.Run("without a successor the task waits for a person, who continues it by one call", func(t *testing.T) {
		t.Parallel()
		w := startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner")
		var command []string
		dir := w.keepSelf("builder", func(p *api.KeepParams) { command = p.Command })
		os.WriteFile(beside(dir, "cause"), []byte("login"), 0o600)
		id := w.giveTask(dir)
		w.until("the task waits", func() bool {
			all := w.continuations()
			return len(all) == 1 && all[0].State == hub.ContinuationWaiting
		}, func() any { return w.logOf("builder") })

		// Its sender and the operator are told.
		has(t, w.mailOf(w.keys["planner"]), "lost its login")
		got := mustCall(t, w.as(w.operator), api.ContinueTask, api.ContinueParams{Handoff: id, With: "next", Command: command})
		if got.To != "builder-next" || got.State != hub.ContinuationOffered {
			t.Errorf("got %+v", got)
		}
		w.until("the task goes on", func() bool { return exists(filepath.Join(dir, "continued.txt")) }, func() any { return w.logOf("builder-next") })

		// The rescue can be shown, applied elsewhere and dropped.
		all := mustCall(t, w.as(w.operator), api.ListRescues, api.None{}).Rescues
		if len(all) != 1 {
			t.Fatalf("got the rescues %+v", all)
		}
		if shown := mustCall(t, w.as(w.operator), api.ShowRescue, api.RescueParams{ID: all[0].ID}); !strings.Contains(shown.Patch, "+half of it") {
			t.Errorf("got the patch %q", shown.Patch)
		}
		if _, err := rpc.Call(t.Context(), w.as(w.keys["planner"]), api.ShowRescue, api.RescueParams{ID: all[0].ID}); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("another agent read it: %v", err)
		}
		os.Remove(filepath.Join(dir, "draft.txt"))
		if applied := mustCall(t, w.as(w.operator), api.ApplyRescue, api.RescueParams{ID: all[0].ID}); len(applied.Paths) != 1 {
			t.Errorf("applied: got %+v", applied)
		}
		if text, _ := os.ReadFile(filepath.Join(dir, "draft.txt")); string(text) != "half of it\n" {
			t.Errorf("after apply: got %q", text)
		}
		mustCall(t, w.as(w.operator), api.DropRescue, api.RescueParams{ID: all[0].ID})
		if left := mustCall(t, w.as(w.operator), api.ListRescues, api.None{}).Rescues; len(left) != 0 {
			t.Errorf("after drop: got %+v", left)
		}
	})

	t.Run("a task of an agent in a terminal waits when the window is closed, and goes on when it is opened again", func(t *testing.T) {
		t.Parallel()
		w, dir, report := terminalTask(t)
		if err := os.WriteFile(filepath.Join(dir, "draft.txt"), []byte("half of it\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		report(wake.EventEnd, "")
		w.until("the task waits", func() bool {
			all := w.continuations()
			return len(all) == 1 && all[0].State == hub.ContinuationWaiting && all[0].Reason == hub.ContinueClosed && all[0].Rescue != nil
		}, func() any { return w.continuations() })
		if got := report(wake.EventStart, "").Notice; !strings.Contains(got, "You stopped in the middle of a task") || !strings.Contains(got, "draft.txt") {
			t.Errorf("the session begins with %q", got)
		}
		if c := w.continuations()[0]; c.State != hub.ContinuationTaken || c.To != "builder" {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("a task of an agent in a terminal without quota is continued by another one, and the first one is told", func(t *testing.T) {
		t.Parallel()
		w, _, report := terminalTask(t)
		report(wake.EventTurnEnd, hub.ContinueQuota)
		w.until("the task waits", func() bool { return len(w.continuations()) == 1 }, func() any { return w.continuations() })
		c := mustCall(t, w.as(w.operator), api.ContinueTask, api.ContinueParams{Handoff: w.continuations()[0].Handoff, With: "tester"})
		if c.State != hub.ContinuationOffered || c.To != "tester" || c.Rescue != nil {
			t.Errorf("got %+v", c)
		}
		if _, err := rpc.Call(t.Context(), w.as(w.operator), api.ContinueTask, api.ContinueParams{Handoff: c.Handoff, With: "planner"}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a task that is offered was offered to another agent: %v", err)
		}

		// The first agent works again, in the same window: it is told at each step whose task it is.
		has(t, report(wake.EventPrompt, "").Notice, "is offered to tester")
		mustCall(t, w.as(w.keys["tester"]), api.Handoff, api.HandoffParams{Action: "accept", ID: c.Next})
		if c := w.continuations()[0]; c.State != hub.ContinuationTaken {
			t.Errorf("got %+v", c)
		}
		has(t, report(wake.EventTool, "").Notice, "tester has the task")
		if _, err := rpc.Call(t.Context(), w.as(w.operator), api.ContinueTask, api.ContinueParams{Handoff: c.Handoff, With: "planner"}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a task that was handed on was continued again: %v", err)
		}

		// The agent that asked for the task hears its end, and so does the operator; the first agent has no mail.
		mustCall(t, w.as(w.keys["tester"]), api.Handoff, api.HandoffParams{Action: "complete", ID: c.Next, Summary: "all tests pass", NoChanges: true})
		has(t, w.mailOf(w.keys["planner"]), "handed on to tester as h2: builder is out of quota", "all tests pass")
		has(t, w.mailOf(w.operator), "is taken by tester (h2)", "is done: tester completed h2")
		if got := w.mailOf(w.keys["builder"]); strings.Contains(got, "h2") || strings.Contains(got, "all tests pass") {
			t.Errorf("builder hears %s", got)
		}
	})
	t.Run("the uncommitted work stays where it is if it cannot be kept, and the task waits and says why", func(t *testing.T) {
		t.Parallel()
		w, dir, report := terminalTask(t)
		text := strings.Repeat("half of it\n", 1000)
		if err := os.WriteFile(filepath.Join(dir, "draft.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil { // the repository is gone
			t.Fatal(err)
		}
		report(wake.EventEnd, "")
		w.until("the task waits", func() bool { return len(w.continuations()) == 1 }, func() any { return w.continuations() })
		c := w.continuations()[0]
		if c.Rescue != nil || !strings.Contains(c.Why, "the uncommitted work stays in "+dir) {
			t.Errorf("got %+v", c)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, "draft.txt")); err != nil || string(kept) != text {
			t.Errorf("the file changed: %v", err)
		}
		if got := mustCall(t, w.as(w.operator), api.ContinueTask, api.ContinueParams{Handoff: c.Handoff, With: "tester"}); got.State != hub.ContinuationOffered {
			t.Errorf("one call continues it: got %+v", got)
		}
	})
	t.Run("the text about a task survives a shorter context, once", func(t *testing.T) {
		t.Parallel()
		w, _, report := terminalTask(t)
		if got := mustCall(t, w.as(w.keys["builder"]), api.Compacting, api.None{}); !got.Kept {
			t.Error("nothing was kept")
		}
		if got := report(wake.EventStart, "").Notice; !strings.Contains(got, "Your context was shortened") || !strings.Contains(got, "write the parser") {
			t.Errorf("the shorter context begins with %q", got)
		}
		if got := report(wake.EventTool, "").Notice; strings.Contains(got, "shortened") {
			t.Errorf("it was told again: %q", got)
		}
	})
}

// mailOf returns the payloads of the messages of an agent.
func (w *wakeHub) mailOf(key string) (all string) {
	w.t.Helper()
	for _, m := range mustCall(w.t, w.as(key), api.Inbox, api.InboxParams{}).Messages {
		all += string(m.Payload)
	}
	return all
}

// patienceOfTests is the time of patience of hubs whose agents are asked again.
const patienceOfTests = 5 * time.Second

// stoppedTask starts a hub that keeps builder, with successors, and gives it a task. Builder stops as
// the cause says.
func stoppedTask(t *testing.T, cause string, successors []string, agents ...hub.AgentID) (w *wakeHub, dir string) {
	t.Helper()
	w = startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}, Patience: patienceOfTests}, append(agents, "planner")...)
	dir = w.keepSelf("builder", func(p *api.KeepParams) {
		for _, name := range successors {
			p.Or = append(p.Or, keeper.Successor{Name: name, Command: p.Command})
		}
	})
	if err := os.WriteFile(beside(dir, "cause"), []byte(cause), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, dir
}

// isContinued reports whether the only continuation is in a state.
func (w *wakeHub) isContinued(state hub.ContinuationState, to hub.AgentID) func() bool {
	return func() bool {
		all := w.continuations()
		return len(all) == 1 && all[0].State == state && all[0].To == to
	}
}

// holder returns the agent that has a task, or is offered it; "" for none.
func (w *wakeHub) holder(task string) hub.AgentID {
	w.t.Helper()
	all := mustCall(w.t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "list", TaskID: task}).Listing.Handoffs
	for _, h := range all {
		if h.Status.Active() {
			return h.To
		}
	}
	return ""
}

// story is what happened to the task of builder, for a test that fails.
func (w *wakeHub) story() any { return fmt.Sprint(w.continuations(), w.logOf("builder")) }

func TestContinuationAgain(t *testing.T) {
	t.Parallel()
	for _, cause := range []string{"quota for 6 seconds", "quota for an unknown time"} {
		t.Run("an agent without "+cause+" goes on by itself", func(t *testing.T) {
			t.Parallel()
			w, dir := stoppedTask(t, "once "+cause, []string{keeper.Self})
			w.giveTask(dir)
			w.until("the task goes on", func() bool { return exists(filepath.Join(dir, "continued.txt")) }, w.story)
			w.until("the task is taken", w.isContinued(hub.ContinuationTaken, "builder"), w.story)

			c := w.continuations()[0]
			back := c.At.Add(patienceOfTests)
			if !c.Until.IsZero() {
				back = c.Until
			}
			if c.MovedAt.Before(back.Time) || c.Reason != hub.ContinueQuota {
				t.Errorf("it went on at %s, want %s: %+v", c.MovedAt, back, c)
			}
			if isKnown := cause == "quota for 6 seconds"; isKnown == c.Until.IsZero() {
				t.Errorf("the quota is full at %s", c.Until)
			}
		})
	}
	t.Run("an agent whose budget was spent goes on by itself when the budget is raised", func(t *testing.T) {
		t.Parallel()
		w, dir := stoppedTask(t, "once budget", []string{keeper.Self})
		mustCall(t, w.as(w.operator), api.SetBudget, usage.Limit{Of: "builder", Turns: 1, Per: hub.PerTotal})
		w.giveTask(dir)
		w.until("the task waits", w.isContinued(hub.ContinuationWaiting, ""), w.story)
		mustCall(t, w.as(w.operator), api.SetBudget, usage.Limit{Of: "builder", Turns: 100, Per: hub.PerTotal})
		w.until("the task goes on", func() bool { return exists(filepath.Join(dir, "continued.txt")) }, w.story)
		if c := w.continuations()[0]; c.To != "builder" || c.Reason != hub.ContinueBudget {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("a budget of the hub stops the successors, too, and the first agent keeps its folder", func(t *testing.T) {
		t.Parallel()
		w, dir := stoppedTask(t, "once budget", []string{"next"})
		mustCall(t, w.as(w.operator), api.SetBudget, usage.Limit{Of: "hub", Turns: 1, Per: hub.PerTotal})
		w.giveTask(dir)
		w.until("the task says why it waits", func() bool {
			all := w.continuations()
			return len(all) == 1 && strings.Contains(all[0].Why, "next: ") && strings.Contains(all[0].Why, "budget b1 of hub")
		}, w.story)
		if kept := mustCall(t, w.as(w.operator), api.ListKept, api.None{}).Agents; len(kept) != 1 || kept[0].State == keeper.Stopped {
			t.Errorf("got %+v, want builder alone", kept)
		}
		mustCall(t, w.as(w.operator), api.SetBudget, usage.Limit{Of: "hub", Turns: 100, Per: hub.PerTotal})
		w.until("the task goes on", w.isContinued(hub.ContinuationTaken, "builder-next"), w.story)
	})
	t.Run("a task that a successor refuses is offered to the next one, and the first owner is told who has it", func(t *testing.T) {
		t.Parallel()
		w, dir := stoppedTask(t, "once login", []string{"reviewer", "tester"}, "reviewer", "tester")
		w.giveTask(dir)
		w.until("reviewer is asked", w.isContinued(hub.ContinuationOffered, "reviewer"), w.story)
		mustCall(t, w.as(w.keys["reviewer"]), api.Handoff, api.HandoffParams{Action: "reject", ID: w.continuations()[0].Next, Reason: "other", Detail: "no time"})
		w.until("tester is asked", w.isContinued(hub.ContinuationOffered, "tester"), w.story)
		mustCall(t, w.as(w.keys["tester"]), api.Handoff, api.HandoffParams{Action: "accept", ID: w.continuations()[0].Next})
		w.until("the task is taken", w.isContinued(hub.ContinuationTaken, "tester"), w.story)

		w.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "hello"})
		w.until("builder is told", func() bool {
			turns, _ := os.ReadFile(beside(dir, "turns.jsonl"))
			return strings.Contains(string(turns), "tester has the task")
		}, w.story)
	})
	t.Run("all tasks of an agent go to the same stand-in, which is started once", func(t *testing.T) {
		t.Parallel()
		w, dir := stoppedTask(t, "", []string{"next"})
		w.giveTask(dir)
		w.until("the first task is begun", func() bool { return exists(filepath.Join(dir, "draft.txt")) }, w.story)
		if err := os.WriteFile(beside(dir, "cause"), []byte("quota"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustCall(t, w.as(w.keys["planner"]), api.Handoff, api.HandoffParams{
			Action: "initiate", To: "builder", TaskID: "T-2", Title: "test the parser", Objective: "tests", Summary: "start", NextStep: "write parser_test.go", Criteria: []string{"tests pass"}, Worktree: dir,
		})
		w.until("both tasks are offered to the stand-in", func() bool { // builder may have accepted T-2 or not
			return w.holder("T-1") == "builder-next" && w.holder("T-2") == "builder-next"
		}, w.story)
		if s := w.kept("builder-next"); s.State == keeper.Stopped {
			t.Errorf("the stand-in is stopped: %s", s.Problem)
		}
	})
	t.Run("a task that is offered to an agent that rests is offered to its stand-in, by the same sender, who is told", func(t *testing.T) {
		t.Parallel()
		w, dir := stoppedTask(t, "quota", []string{"next"})
		makeRepository(t, dir)
		mustCall(t, w.as(w.operator), api.AddRoot, api.RootParams{Path: dir})
		w.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "hello"})
		w.until("builder rests", func() bool { return w.kept("builder").State == keeper.Resting }, w.story)
		offered := mustCall(t, w.as(w.keys["planner"]), api.Handoff, api.HandoffParams{
			Action: "initiate", To: "builder", TaskID: "T-2", Title: "test the parser", Objective: "tests", Summary: "start", NextStep: "write parser_test.go", Criteria: []string{"tests pass"}, Worktree: dir,
		}).Report.ID
		w.until("the task is offered to the stand-in", func() bool { return w.holder("T-2") == "builder-next" }, w.story)

		next := mustCall(t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "list", TaskID: "T-2", To: "builder-next"}).Listing.Handoffs[0]
		was := mustCall(t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "show", ID: offered}).Report
		if next.From != "planner" || was.Status != hub.HandoffRejected || was.RejectReason != hub.RejectCapacity {
			t.Errorf("the next offer is from %s; the first one is %s, %s", next.From, was.Status, was.RejectReason)
		}
		told := ""
		for _, m := range mustCall(t, w.as(w.keys["planner"]), api.Inbox, api.InboxParams{}).Messages {
			told += string(m.Payload)
		}
		has(t, told, "builder is out of quota", "the task is offered to builder-next")
		if all := w.continuations(); len(all) != 0 {
			t.Errorf("no work was begun, and there are continuations: %+v", all)
		}
	})
	t.Run("a paused successor is passed over, and a task does not go back to its owner after a refusal", func(t *testing.T) {
		t.Parallel()
		w, dir := stoppedTask(t, "once login", []string{"reviewer", "tester"}, "reviewer", "tester")
		mustCall(t, w.as(w.operator), api.PauseAgent, api.AgentParams{ID: "reviewer"})
		id := w.giveTask(dir)
		w.until("tester is asked", w.isContinued(hub.ContinuationOffered, "tester"), w.story)
		mustCall(t, w.as(w.keys["tester"]), api.Handoff, api.HandoffParams{Action: "reject", ID: w.continuations()[0].Next, Reason: "other", Detail: "no time"})
		if _, err := rpc.Call(t.Context(), w.as(w.operator), api.ContinueTask, api.ContinueParams{Handoff: id, With: keeper.Self}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("its owner continues a task that it cannot complete: %v", err)
		}
	})
	t.Run("a task that waits and is released by the operator waits no more", func(t *testing.T) {
		t.Parallel()
		w, _, report := terminalTaskAt(t, server.Options{Patience: time.Second})
		report(wake.EventTurnEnd, hub.ContinueLogin)
		w.until("the task waits", w.isContinued(hub.ContinuationWaiting, ""), w.story)
		mustCall(t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "release", ID: w.continuations()[0].Handoff, Detail: "done by hand"})
		w.until("it waits no more", func() bool { return w.continuations()[0].Over() }, w.story)
	})
	t.Run("an agent that goes on after all keeps its task", func(t *testing.T) {
		t.Parallel()
		w, dir := stoppedTask(t, "once login", nil)
		w.giveTask(dir)
		w.until("the task waits", w.isContinued(hub.ContinuationWaiting, ""), w.story)
		w.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "hello"})
		w.until("the task is its own again", w.isContinued(hub.ContinuationTaken, "builder"), w.story)
	})
}

func TestContinuationInTeams(t *testing.T) {
	t.Parallel()
	t.Run("a task of a team that its owner has without a handoff goes on with another member", func(t *testing.T) {
		t.Parallel()
		w, dir, id, report := teamTask(t, server.Options{})
		report(wake.EventEnd, "")
		w.until("the task waits", func() bool { return len(w.continuations()) == 1 }, func() any { return w.continuations() })
		if c := w.continuations()[0]; c.Handoff != "" || c.Task != string(id) || c.State != hub.ContinuationWaiting || c.Rescue == nil {
			t.Errorf("got %+v", c)
		}

		if _, err := rpc.Call(t.Context(), w.as(w.operator), api.ContinueTask, api.ContinueParams{Handoff: hub.HandoffID(id), With: "claude"}); hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("an agent that is no member continues it: %v", err)
		}
		got := mustCall(t, w.as(w.operator), api.ContinueTask, api.ContinueParams{Handoff: hub.HandoffID(id), With: "tester"})
		if got.To != "tester" || got.State != hub.ContinuationOffered || got.ShortIDs[got.Next] == "" {
			t.Fatalf("got %+v", got)
		}
		notice := sessionOf(w, "tester")(wake.EventStart, "").Notice
		has(t, notice, "You continue a task of builder, which was closed", "write the parser", "parser.go", "accept the handoff "+string(got.ShortIDs[got.Next])+" ")
		mustCall(t, w.as(w.keys["tester"]), api.Handoff, api.HandoffParams{Action: "accept", ID: got.Next})
		task := mustCall(t, w.as(w.operator), api.Team, api.TeamParams{Action: "task", Team: "core", Task: id}).Task
		if task.Owner != "tester" || task.State != hub.TaskInProgress || task.Handoff != got.Next {
			t.Errorf("got the task %+v", task)
		}
		if c := w.continuations()[0]; c.State != hub.ContinuationTaken {
			t.Errorf("got %+v", c)
		}
		has(t, report(wake.EventStart, "").Notice, "tester has the task")

		// The guard lets the next owner change the files, and denies the first one.
		ask := func(agent hub.AgentID) reservation.Answer {
			t.Helper()
			return mustCall(t, w.as(w.keys[agent]), api.AskFiles, reservation.Question{Tree: dir, Kind: reservation.Edit, Paths: []string{"parser.go"}, Session: "s-" + string(agent)})
		}
		w.until("tester has the files", func() bool { return ask("tester").Decision == reservation.Allow }, func() any { return ask("tester") })
		if got := ask("builder"); got.Decision != reservation.Deny || !strings.Contains(got.Text, "tester") {
			t.Errorf("the first owner may edit the file: %+v", got)
		}
	})
	for _, cause := range []struct {
		name   string
		event  wake.Event
		reason hub.ContinuationReason
		why    hub.ContinuationReason
	}{
		{"that is out of quota, at once", wake.EventTurnEnd, hub.ContinueQuota, hub.ContinueQuota},
		{"whose window stays closed", wake.EventEnd, "", hub.ContinueClosed},
	} {
		t.Run("the successors of a team continue the task of a member "+cause.name, func(t *testing.T) {
			t.Parallel()
			w, _, id, report := teamTask(t, server.Options{Patience: time.Second})
			mustCall(t, w.as(w.operator), api.SetBudget, usage.Limit{Of: "reviewer", Turns: 1, Per: hub.PerTotal})
			mustCall(t, w.as(w.keys["reviewer"]), api.RecordUsage, usage.Report{Source: hub.UsagePlugin, CLI: "pi", Ended: true, Calls: []hub.ModelCall{}})
			mustCall(t, w.as(w.operator), api.TeamPolicy, api.TeamPolicyParams{Team: "core", Successors: &[]hub.AgentID{"reviewer", "builder", "tester"}})

			report(cause.event, cause.reason)
			w.until("tester is offered the task", func() bool {
				all := w.continuations()
				return len(all) == 1 && all[0].State == hub.ContinuationOffered && all[0].To == "tester" && all[0].Reason == cause.why
			}, func() any { return w.continuations() })

			// The policy of the team is its approval.
			mustCall(t, w.as(w.keys["tester"]), api.Handoff, api.HandoffParams{Action: "accept", ID: w.continuations()[0].Next})
			task := mustCall(t, w.as(w.operator), api.Team, api.TeamParams{Action: "task", Team: "core", Task: id}).Task
			if task.Owner != "tester" || task.State != hub.TaskInProgress {
				t.Errorf("got the task %+v", task)
			}
			has(t, report(wake.EventStart, "").Notice, "tester has the task")
		})
	}
	t.Run("an owner that opens its window in time keeps its task, whatever the team's policy", func(t *testing.T) {
		t.Parallel()
		w, _, _, report := teamTask(t, server.Options{})
		mustCall(t, w.as(w.operator), api.TeamPolicy, api.TeamPolicyParams{Team: "core", Successors: &[]hub.AgentID{"tester"}})
		report(wake.EventEnd, "")
		w.until("the task waits", func() bool { return len(w.continuations()) == 1 }, func() any { return w.continuations() })
		c := w.continuations()[0]
		if c.State != hub.ContinuationWaiting || !strings.Contains(c.Why, "tester is asked after 10m0s") {
			t.Errorf("got %+v", c)
		}
		report(wake.EventStart, "")
		if c := w.continuations()[0]; c.State != hub.ContinuationTaken || c.To != "builder" {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("only members that accept tasks are successors of a team, and only the operator names them", func(t *testing.T) {
		t.Parallel()
		w, _, _, _ := teamTask(t, server.Options{})
		for _, names := range [][]hub.AgentID{{"nobody"}, {"planner"}, {"tester", "tester"}} {
			if _, err := rpc.Call(t.Context(), w.as(w.operator), api.TeamPolicy, api.TeamPolicyParams{Team: "core", Successors: &names}); err == nil {
				t.Errorf("%v were taken", names)
			}
		}
		names := []hub.AgentID{"tester"}
		if _, err := rpc.Call(t.Context(), w.as(w.keys["planner"]), api.TeamPolicy, api.TeamPolicyParams{Team: "core", Successors: &names}); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("an agent named them: %v", err)
		}
	})
}

// teamTask starts a hub on which builder, in a terminal, works on a task of the team core that it has
// without a handoff. One of its files is not committed.
func teamTask(t *testing.T, o server.Options) (w *wakeHub, dir string, id hub.TaskID, report func(wake.Event, hub.ContinuationReason) api.WakeAdvice) {
	t.Helper()
	w = startWakes(t, o, "planner", "builder", "tester", "reviewer")
	dir = t.TempDir()
	makeRepository(t, dir)
	mustCall(t, w.as(w.operator), api.AddRoot, api.RootParams{Path: dir})
	seats := []team.Seat{{Agent: "planner", Role: hub.RoleCoordinator}, {Agent: "builder", Role: hub.RoleExecutor}, {Agent: "tester", Role: hub.RoleExecutor}, {Agent: "reviewer", Role: hub.RoleIntegrator}}
	mustCall(t, w.as(w.operator), api.Team, api.TeamParams{Action: "create", Team: "core", Objective: "work", Members: seats})
	mustCall(t, w.as(w.operator), api.Team, api.TeamParams{Action: "status", Team: "core", Lifecycle: hub.TeamActive})
	made := mustCall(t, w.as(w.operator), api.Team, api.TeamParams{Action: "task", Team: "core", Title: "write the parser", Owner: "builder", Worktree: dir, Scope: []string{"parser.go"}})
	report = sessionOf(w, "builder")
	report(wake.EventStart, "")
	mustCall(t, w.as(w.keys["builder"]), api.Team, api.TeamParams{Action: "task", Team: "core", Task: made.Task.ID, State: hub.TaskInProgress})
	if err := os.WriteFile(filepath.Join(dir, "parser.go"), []byte("half of it\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, dir, made.Task.ID, report
}

// sessionOf returns a function that tells the hub of an event in the session of an agent in a
// terminal.
func sessionOf(w *wakeHub, agent hub.AgentID) func(wake.Event, hub.ContinuationReason) api.WakeAdvice {
	return func(e wake.Event, reason hub.ContinuationReason) api.WakeAdvice {
		w.t.Helper()
		return mustCall(w.t, w.as(w.keys[agent]), api.ReportWake, wake.Report{Key: wake.Key{CLI: "claude", ID: "s-" + string(agent), Process: os.Getpid()}, Event: e, Reason: reason})
	}
}

// terminalTask starts a hub on which builder, in a terminal, owns a task. report tells the hub of
// an event in its session.
func terminalTask(t *testing.T) (w *wakeHub, dir string, report func(wake.Event, hub.ContinuationReason) api.WakeAdvice) {
	t.Helper()
	return terminalTaskAt(t, server.Options{})
}

// terminalTaskAt is terminalTask on a hub with options.
func terminalTaskAt(t *testing.T, o server.Options) (w *wakeHub, dir string, report func(wake.Event, hub.ContinuationReason) api.WakeAdvice) {
	t.Helper()
	w = startWakes(t, o, "planner", "builder", "tester")
	dir = t.TempDir()
	report = sessionOf(w, "builder")
	report(wake.EventStart, "")
	id := w.giveTask(dir)
	mustCall(t, w.as(w.keys["builder"]), api.Handoff, api.HandoffParams{Action: "accept", ID: id})
	return w, dir, report
}
