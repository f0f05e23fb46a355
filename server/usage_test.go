package server_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/server"
)

// A treasury is a hub with a kept agent whose usage is counted.
type treasury struct {
	*wakeHub
	dir string
}

func openTreasury(t *testing.T) *treasury {
	t.Helper()
	w := startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner")
	return &treasury{w, w.keepSelf("builder", nil)}
}

// mail sends a message to the kept agent.
func (y *treasury) mail(text string) hub.EnvelopeID {
	y.t.Helper()
	return y.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: text})
}

// spend returns the sums by a kind.
func (y *treasury) spend(by hub.UsageKind) usage.Spend {
	y.t.Helper()
	return mustCall(y.t, y.as(y.operator), api.ShowSpend, usage.Query{By: by})
}

// countedCalls waits until each of n model calls of a turn is counted while the turn runs, and lets the
// agent go on.
func (y *treasury) countedCalls(n int) {
	y.t.Helper()
	for i := range n {
		y.until("a model call is counted", func() bool { return y.spend(hub.ByAgent).Total.Tokens.Sum() == int64(i+1)*1801 }, func() any { return y.spend(hub.ByAgent) })
		if err := os.WriteFile(beside(y.dir, fmt.Sprintf("counted%d", i+1)), nil, 0o600); err != nil {
			y.t.Fatal(err)
		}
	}
}

// nothing is the state of a wait that needs no words.
func (y *treasury) nothing() any { return "" }

// budget sets a budget.
func (y *treasury) budget(l usage.Limit) usage.BudgetRow {
	y.t.Helper()
	return mustCall(y.t, y.as(y.operator), api.SetBudget, l)
}

// hasEntry reports whether the journal has an entry of an action.
func (y *treasury) hasEntry(a actions.Action) bool {
	y.t.Helper()
	for _, e := range mustCall(y.t, y.as(y.operator), api.Audit, api.AuditParams{Action: a}).Entries {
		if e.Action == a {
			return true
		}
	}
	return false
}

// further opens a further session of the kept agent in an editor.
func (y *treasury) further() (*editor, *acp.Session) {
	y.t.Helper()
	elsewhere := filepath.Join(y.t.TempDir(), "elsewhere")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		y.t.Fatal(err)
	}
	e := y.open(y.key("builder", ""), "builder")
	s, err := e.NewSession(y.t.Context(), elsewhere, nil)
	if err != nil {
		y.t.Fatal(err)
	}
	return e, s
}

func TestUsageOfKeptAgents(t *testing.T) {
	t.Parallel()
	t.Run("a turn over ACP is counted once, for the conversation that started it", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.mail("spend some")
		y.turns("builder", y.dir, 1)
		y.until("the usage is recorded", func() bool { return y.spend(hub.ByAgent).Total.Turns == 1 }, func() any { return y.spend(hub.ByAgent) })
		got := y.spend(hub.ByTask)
		want := hub.Tokens{Input: 933, Output: 567, CachedRead: 301, Reasoning: 33}
		if len(got.Rows) != 1 || got.Rows[0].Tokens != want || got.Rows[0].Key == hub.OwnWork {
			t.Errorf("got %+v, want %+v in a conversation", got.Rows, want)
		}
	})
	t.Run("a turn whose model and currency have unusual names is counted", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.mail("misname the model")
		y.turns("builder", y.dir, 1)
		y.until("the usage is recorded", func() bool { return y.spend(hub.ByAgent).Total.Turns == 1 }, func() any { return y.logOf("builder") })
		got := y.spend(hub.ByModel)
		want := []usage.Cost{{Currency: "USD", Stated: 0.5}}
		if len(got.Rows) != 1 || got.Rows[0].Key != "unknown" || got.Rows[0].Output != 567 || !reflect.DeepEqual(got.Rows[0].Cost, want) {
			t.Errorf("got %+v", got.Rows)
		}
	})
	t.Run("the model calls of a turn that runs are counted, and a spent budget refuses its next edit", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.budget(usage.Limit{Of: "builder", Tokens: 3000, Per: hub.PerTotal})
		y.mail("toil")
		y.countedCalls(2)
		y.turns("builder", y.dir, 1)
		if refusal, err := os.ReadFile(answerFile(y.dir)); err != nil || !strings.Contains(string(refusal), "budget b1 of builder") {
			t.Errorf("the second edit: got %q, %v", refusal, err)
		}
		if !exists(filepath.Join(y.dir, "1.txt")) || exists(filepath.Join(y.dir, "2.txt")) {
			t.Error("the first edit is within the budget, and the second one is not")
		}
		y.until("the end of the turn is counted", func() bool { return y.hasEntry(actions.BudgetSpent) }, y.nothing)
		if got := y.spend(hub.ByAgent).Total; got.Turns != 1 || got.Tokens.Sum() != 2*1801 {
			t.Errorf("got %+v, want one turn of two calls", got)
		}
	})
	t.Run("the last turn of a hard budget of turns goes on while it is counted", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.budget(usage.Limit{Of: "builder", Turns: 1, Per: hub.PerTotal, Hard: true})
		y.mail("toil")
		y.countedCalls(3)
		y.turns("builder", y.dir, 1)
		if !exists(filepath.Join(y.dir, "3.txt")) {
			t.Errorf("the turn was ended: %s", y.logOf("builder"))
		}
	})
	t.Run("80 % are told once, and at 100 % mail waits and says why, until the budget is raised", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.budget(usage.Limit{Of: "builder", Tokens: 2000, Per: hub.PerDay})
		y.mail("spend some") // 1801 of 2000
		y.turns("builder", y.dir, 1)
		y.until("the warning", func() bool { return y.hasEntry(actions.BudgetWarned) }, y.nothing)
		y.mail("spend more")
		y.turns("builder", y.dir, 2)
		y.until("the end of the budget", func() bool { return y.hasEntry(actions.BudgetSpent) }, y.nothing)

		id := y.mail("spend too much")
		y.until("the reason in the ledger", func() bool {
			for _, d := range y.rows(id) {
				if strings.Contains(d.Error, "budget b1 of builder") {
					return true
				}
			}
			return false
		}, func() any { return y.rows(id) })
		y.turns("builder", y.dir, 2)
		list := mustCall(t, y.as(y.operator), api.ListBudgets, api.None{}).Budgets
		if len(list) != 1 || list[0].State != hub.BudgetSpent || list[0].Used != 3602 || list[0].ResetsAt.IsZero() {
			t.Errorf("got %+v", list)
		}

		y.budget(usage.Limit{Of: "builder", Tokens: 100_000, Per: hub.PerDay})
		y.turns("builder", y.dir, 3)
	})
	t.Run("a turn in a further session is the agent's own work, and none begins after the budget", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		e, s := y.further()
		y.budget(usage.Limit{Of: "builder", Turns: 1, Per: hub.PerTotal})
		e.turn(t, s, "do spend")
		y.until("the usage is recorded", func() bool { return y.spend(hub.ByAgent).Total.Turns == 1 }, func() any { return y.spend(hub.ByAgent) })
		if got := y.spend(hub.ByTask); len(got.Rows) != 1 || got.Rows[0].Key != hub.OwnWork || got.Rows[0].Output != 567 {
			t.Errorf("got %+v", got.Rows)
		}
		turn, err := s.Prompt(t.Context(), acp.Text("do spend"))
		if err == nil {
			_, err = turn.Wait()
		}
		if err == nil || !strings.Contains(err.Error(), "budget b1 of builder") {
			t.Errorf("got %v, want the budget", err)
		}
	})
	t.Run("a budget of turns of the hub stops every agent", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.budget(usage.Limit{Of: "hub", Turns: 2, Per: hub.PerTotal})
		for i := range int64(2) {
			y.mail("spend some")
			y.until("the turn is counted", func() bool { return y.spend(hub.ByAgent).Total.Turns == i+1 }, y.nothing)
		}
		id := y.mail("spend too much")
		y.until("the reason in the ledger", func() bool {
			for _, d := range y.rows(id) {
				if strings.Contains(d.Error, "2 turns of 2 turns in total") {
					return true
				}
			}
			return false
		}, func() any { return y.rows(id) })
		if got := y.spend(hub.ByAgent).Total.Turns; got != 2 {
			t.Errorf("%d turns, want 2", got)
		}
		if _, err := rpc.Call(t.Context(), y.as(y.operator), api.PromptAgent, api.PromptParams{Agent: "builder", Text: "go on"}); hub.CodeOf(err) != hub.CodeRateLimited {
			t.Errorf("a prompt of the operator: %v, want it refused with the reason", err)
		}
		beginning := run.Beginning{ID: hub.RunID(hub.NewIDs(time.Now).Next()), Agent: "planner", Task: "go on", TimeoutS: 60}
		for who, key := range map[string]string{"the operator": y.operator, "the agent": y.keys["planner"]} {
			if _, err := rpc.Call(t.Context(), y.as(key), api.BeginRun, beginning); hub.CodeOf(err) != hub.CodeRateLimited || !strings.Contains(err.Error(), "budget b1 of hub") {
				t.Errorf("a run that %s begins: %v, want it refused with the reason", who, err)
			}
		}
	})
	t.Run("numbers of texts that no program reads are refused, all of them", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		good := api.ReadText{Part: usage.Notices, Times: 1, Bytes: 400}
		for _, bad := range []api.ReadText{{Part: usage.Notices, Times: -1}, {Part: usage.Notices, Times: 1, Bytes: math.MaxInt}, {Part: usage.Notices, Times: math.MaxInt, Bytes: 1}, {Part: "mood", Times: 1}} {
			if _, err := rpc.Call(t.Context(), y.as(y.keys["planner"]), api.CountTexts, api.ReadTexts{Texts: []api.ReadText{good, bad}}); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if got := mustCall(t, y.as(y.operator), api.ShowSpend, usage.Query{Coordination: true}).Total.Input; got != 0 {
			t.Errorf("%d tokens were counted", got)
		}
	})
	t.Run("calls in a transcript that the hub can read count for everyone, others for the agent alone", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		path := filepath.Join(t.TempDir(), "s.jsonl")
		line := func(id string) string {
			return `{"type":"assistant","message":{"id":"` + id + `","model":"claude-sonnet-4-5","usage":{"input_tokens":1000}}}` + "\n"
		}
		if err := os.WriteFile(path, []byte(line("before")+line("a")), 0o600); err != nil {
			t.Fatal(err)
		}
		calls := []hub.ModelCall{{ID: "before", Tokens: hub.Tokens{Input: 7}}, {ID: "a", Tokens: hub.Tokens{Input: 1}}, {ID: "b", Tokens: hub.Tokens{Input: 70_000}}}
		mustCall(t, y.as(y.keys["planner"]), api.RecordUsage, usage.Report{
			Source: hub.UsageTranscript, CLI: "claude", Calls: calls, Files: []usage.TranscriptPart{{Path: path, From: int64(len(line("before")))}},
		})
		if got := y.budget(usage.Limit{Of: "hub", Tokens: 5000, Per: hub.PerDay}); got.Used != 1000 || got.Said != 70_007 {
			t.Errorf("the hub's budget: got %+v, want 1000 used and 70007 said", got)
		}
		if got := y.budget(usage.Limit{Of: "planner", Tokens: 5000, Per: hub.PerDay}); got.Used != 71_007 {
			t.Errorf("the agent's own: got %+v, want 71007 used", got)
		}
	})
	t.Run("a turn that spends a hard budget ends as it ended", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.budget(usage.Limit{Of: "builder", Turns: 1, Per: hub.PerTotal, Hard: true})
		y.mail("spend some")
		y.until("the end of the budget", func() bool { return y.hasEntry(actions.BudgetSpent) }, y.nothing)
		y.turns("builder", y.dir, 1)
		if log := y.logOf("builder"); strings.Contains(log, "stopped") {
			t.Errorf("the turn had ended when the budget was spent: %s", log)
		}
	})
	t.Run("a turn that failed is not tried again when the budget is spent", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.budget(usage.Limit{Of: "builder", Turns: 1, Per: hub.PerTotal})
		y.mail("crash")
		y.until("the reason in the log", func() bool { return strings.Contains(y.logOf("builder"), "stop budget b1 of builder") }, func() any { return y.logOf("builder") })
		y.turns("builder", y.dir, 1)
		if got := y.spend(hub.ByAgent).Total.Turns; got != 1 {
			t.Errorf("%d turns, want 1", got)
		}
	})
	t.Run("a wake that waits for its session is not given when the budget is spent", func(t *testing.T) {
		t.Parallel()
		y := &treasury{wakeHub: startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner", "builder")}
		b := y.away("builder", "claude", 1)
		id := y.mail("spend some")
		y.untilStep(id, "session: waiting")
		y.budget(usage.Limit{Of: "builder", Turns: 1, Per: hub.PerTotal}) // its own: its word counts
		mustCall(t, y.as(y.keys["builder"]), api.RecordUsage, usage.Report{Source: hub.UsageTranscript, CLI: "claude", Session: "s", Turn: "t1", Ended: true, Calls: []hub.ModelCall{}})
		if got := b.come(); got != nil {
			t.Errorf("the waiter got %+v", got)
		}
	})
}

// TestRunaway has two kept agents answer each other without an end. A budget stops them within one
// turn of each.
func TestRunaway(t *testing.T) {
	t.Parallel()
	w := startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond, PerHour: 1000, PairPerHour: 1000}}, "planner")
	w.keepSelf("builder", nil)
	w.keepSelf("tester", nil)
	y := &treasury{wakeHub: w}
	const most = 4
	y.budget(usage.Limit{Of: "hub", Turns: most, Per: hub.PerTotal})
	y.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "echo to tester"})

	waits := func() bool {
		for _, m := range mustCall(t, y.as(y.operator), api.Query, api.QueryParams{}).Messages {
			for _, d := range y.rows(m.ID) {
				if strings.Contains(d.Error, "budget b1 of hub") {
					return true
				}
			}
		}
		return false
	}
	y.until("a message waits for the budget", waits, func() any { return y.spend(hub.ByAgent) })
	y.until("both rest", func() bool { return y.kept("builder").State != "working" && y.kept("tester").State != "working" }, y.nothing)
	if got := y.spend(hub.ByAgent); got.Total.Turns < most || got.Total.Turns > most+2 {
		t.Errorf("%d turns, want %d and at most one more of each agent: %+v", got.Total.Turns, most, got.Rows)
	}
}

func TestStopNow(t *testing.T) {
	t.Parallel()
	t.Run("the turn of a kept agent is ended, no other begins before wakes resume, and then it goes on", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.mail("slow work") // which the agent acknowledges, so that the next turn does not read it again
		y.until("the turn runs", func() bool { return strings.Contains(y.logOf("builder"), "text working") }, func() any { return y.logOf("builder") })
		got := mustCall(t, y.as(y.operator), api.StopTurns, api.StopTurnsParams{All: true})
		want := map[hub.AgentID]api.TurnEnding{"planner": api.TurnNone, "builder": api.TurnEnded}
		for _, one := range got.Agents {
			if one.Turn != want[one.Agent] || !one.Paused {
				t.Errorf("got %+v, want %s", one, want[one.Agent])
			}
		}
		if len(got.Agents) != 2 || !y.hasEntry(actions.AgentStopped) {
			t.Errorf("got %+v", got)
		}
		y.until("the agent rests", func() bool { return y.kept("builder").State != "working" }, y.nothing)
		if _, err := rpc.Call(t.Context(), y.as(y.operator), api.PromptAgent, api.PromptParams{Agent: "builder", Text: "go on"}); hub.CodeOf(err) != hub.CodeRateLimited || !strings.Contains(err.Error(), "agent wake builder --on") {
			t.Errorf("a prompt of the operator: %v, want it refused with the reason", err)
		}
		y.restart()
		y.turns("builder", y.dir, 1)
		mustCall(t, y.as(y.operator), api.ResumeWake, api.WakePauseParams{All: true})
		resumed := y.turns("builder", y.dir, 2)[1]
		has(t, resumed.Prompt, "The operator stopped your last turn before it ended", "[parley wake w_")
		y.mail("spend some")
		y.until("the next turn", func() bool { return y.spend(hub.ByAgent).Total.Output > 0 }, func() any { return y.logOf("builder") })
	})
	t.Run("a turn that failed is not tried again before wakes resume", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		y.mail("crash")
		y.until("the turn failed", func() bool { return y.kept("builder").State == keeper.Failing }, func() any { return y.logOf("builder") })
		got := mustCall(t, y.as(y.operator), api.StopTurns, api.StopTurnsParams{Of: "builder"}).Agents
		if len(got) != 1 || got[0].Turn != api.TurnEnded || !got[0].Paused {
			t.Errorf("got %+v", got)
		}
		y.until("the reason in the log", func() bool { return strings.Contains(y.logOf("builder"), "the operator stopped builder") }, func() any { return y.logOf("builder") })
		y.turns("builder", y.dir, 1)
		mustCall(t, y.as(y.operator), api.ResumeWake, api.WakePauseParams{Agent: "builder"})
		y.turns("builder", y.dir, 2)
	})
	t.Run("the turn of a further session is ended, too", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		_, s := y.further()
		turn, err := s.Prompt(t.Context(), acp.Text("do slow"))
		if err != nil {
			t.Fatal(err)
		}
		stopped := false
		for u := range turn.Updates() {
			if stopped || !strings.Contains(u.Text(), "working") {
				continue
			}
			stopped = true
			got := mustCall(t, y.as(y.operator), api.StopTurns, api.StopTurnsParams{Of: "builder"}).Agents
			if len(got) != 1 || got[0].Turn != api.TurnEnded {
				t.Errorf("got %+v", got)
			}
		}
		if _, err := turn.Wait(); !stopped || err == nil || !strings.Contains(err.Error(), "the turn was stopped") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("tool calls of a stopped agent are denied until its wakes resume", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		ask := func() reservation.Answer {
			q := reservation.Question{Tree: "/nowhere", Kind: reservation.Edit, Paths: []string{}, Command: "make"}
			out, err := rpc.Call(t.Context(), y.as(y.keys["planner"]), api.AskFiles, q)
			if err != nil && out.Decision != "" {
				t.Fatal(err)
			}
			return out
		}
		if got := ask(); got.Decision == reservation.Deny {
			t.Errorf("before: %+v", got)
		}
		mustCall(t, y.as(y.operator), api.StopTurns, api.StopTurnsParams{Of: "planner"})
		if got := ask(); got.Decision != reservation.Deny || got.Reason != reservation.ReasonStopped || !strings.Contains(got.Text, "stopped") {
			t.Errorf("stopped: %+v", got)
		}
		for _, p := range []api.WakePauseParams{{Agent: "planner"}, {All: true}} {
			mustCall(t, y.as(y.operator), api.StopTurns, api.StopTurnsParams{Of: string(p.Agent), All: p.All})
			mustCall(t, y.as(y.operator), api.PauseWake, p)
			if got := ask(); got.Decision != reservation.Deny {
				t.Errorf("wakes are paused after the stop %+v: %+v", p, got)
			}
			mustCall(t, y.as(y.operator), api.ResumeWake, p)
			if got := ask(); got.Decision == reservation.Deny {
				t.Errorf("after %+v: %+v", p, got)
			}
		}
	})
	t.Run("only the operator stops agents, and names that are on the hub", func(t *testing.T) {
		t.Parallel()
		y := openTreasury(t)
		if _, err := rpc.Call(t.Context(), y.as(y.keys["planner"]), api.StopTurns, api.StopTurnsParams{All: true}); err == nil {
			t.Error("an agent stopped the others")
		}
		for _, p := range []api.StopTurnsParams{{}, {Of: "nobody"}, {Of: "team:none"}, {Of: "planner", All: true}} {
			if _, err := rpc.Call(t.Context(), y.as(y.operator), api.StopTurns, p); err == nil {
				t.Errorf("%+v was taken", p)
			}
		}
	})
}
