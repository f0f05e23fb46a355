package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/testing/hostiletest"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// asKeptAgent in the environment makes the test binary an agent that a hub keeps.
const asKeptAgent = "SERVER_TEST_AS_KEPT_AGENT"

// A keptTurn is a line of turns.jsonl, which the agent writes.
type keptTurn struct {
	Process int    `json:"process"`
	Session string `json:"session"`
	Resumed bool   `json:"resumed"`
	Prompt  string `json:"prompt"`
	Texts   string `json:"texts"` // of the messages that it read
	Key     string `json:"key"`   // for the hub
	Run     string `json:"run"`   // in its environment
}

// beside returns the path of a file of the test, outside of the folder of an agent.
func beside(dir, name string) string { return filepath.Join(filepath.Dir(dir), name) }

// beKeptAgent is an agent that reads its inbox in each turn and does what the messages
// say. A second prompt during a turn ends it with an error.
func beKeptAgent() {
	var mu sync.Mutex
	resumed := false
	agent := &acp.Agent{
		Capabilities: []acp.Capability{acp.CanMCPHTTP},
		LoadSession: func(context.Context, *acp.AgentSession, bool) error {
			resumed = true
			return nil
		},
	}
	agent.Prompt = func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
		if !mu.TryLock() {
			os.WriteFile(beside(t.Dir, "overlap"), nil, 0o600)
			os.Exit(4)
		}
		defer mu.Unlock()
		if _, err := os.Stat(beside(t.Dir, "mute")); err == nil { // its model takes its time
			awaitGo(ctx, t.Dir)
		}
		turn := keptTurn{Process: os.Getpid(), Session: string(t.ID), Resumed: resumed, Prompt: t.Text(), Run: os.Getenv(fleet.RunVariable)}
		if len(t.MCPServers) > 0 && t.MCPServers[0].HTTP != nil { // a further session has none
			server := t.MCPServers[0].HTTP
			turn.Key = strings.TrimPrefix(server.Headers.Or(nil)[0].Value, "Bearer ")
			c := rpc.NewClient(strings.TrimSuffix(server.URL, "/mcp"), turn.Key, "", nil)
			page, err := rpc.Call(ctx, c, api.Inbox, api.InboxParams{NewOnly: true})
			if err != nil {
				turn.Texts = "error: " + err.Error()
			}
			for _, m := range page.Messages {
				turn.Texts += string(m.Payload)
				rpc.Call(ctx, c, api.Inbox, api.InboxParams{Ack: api.AckSet{IDs: []hub.EnvelopeID{m.ID}}, NewOnly: true, Peek: true})
			}
		}
		line, _ := json.Marshal(turn)
		f, err := os.OpenFile(beside(t.Dir, "turns.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		f.Write(append(line, '\n'))
		f.Close()
		return acpv2.StopReasonEndTurn, keptWork(ctx, t, turn)
	}
	if os.Getenv(asKeptAgent) == "steers" {
		takeWords(agent)
	}
	in := io.Reader(os.Stdin)
	if os.Getenv(asKeptAgent) == "v2" { // it speaks version 2 alone
		agent.V2 = true
		lines := bufio.NewReader(os.Stdin)
		first, err := lines.ReadString('\n')
		if err != nil {
			os.Exit(1)
		}
		var offer struct {
			ID     json.RawMessage
			Params struct{ ProtocolVersion int }
		}
		if json.Unmarshal([]byte(first), &offer) != nil || offer.Params.ProtocolVersion != 2 {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid params: info is required"}}`+"\n", offer.ID)
			io.Copy(io.Discard, lines)
			os.Exit(0)
		}
		in = io.MultiReader(strings.NewReader(first), lines)
	}
	if err := acp.Serve(context.Background(), agent, in, os.Stdout); err != nil {
		os.Exit(1)
	}
}

// awaitGo waits until the test makes the file go.
func awaitGo(ctx context.Context, dir string) { awaitFile(ctx, beside(dir, "go")) }

// awaitFile waits until the test makes a file.
func awaitFile(ctx context.Context, path string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !exists(path) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// keptWork does what the messages of a turn say.
func keptWork(ctx context.Context, t *acp.AgentTurn, turn keptTurn) error {
	dir := t.Dir
	has := func(word string) bool {
		return strings.Contains(turn.Texts, word) || strings.Contains(turn.Prompt, "do "+word)
	}
	marked := func(name string) bool {
		_, err := os.Stat(beside(dir, name))
		return err == nil
	}
	switch {
	case strings.Contains(turn.Prompt, "You continue a task of"):
		return continueTask(ctx, t, turn)
	case marked("cause") && offeredHandoff.MatchString(turn.Texts):
		return takeTask(ctx, t, turn)
	case marked("cause"):
		return stopBy(ctx, t)
	case strings.Contains(turn.Prompt, "You stopped in the middle of a task"):
		return resumeTask(ctx, t)
	case marked("rash"):
		return claimTask(ctx, t, turn)
	case marked("doomed"):
		t.Say(ctx, "about to crash")
		os.Exit(3)
	case marked("stubborn"):
		return t.Say(ctx, "STATUS:ok\nFILES_CREATED:never.txt")
	case strings.Contains(turn.Prompt, "was refused"):
		os.WriteFile(filepath.Join(dir, "lie.txt"), []byte("now it is true\n"), 0o600)
		return t.Say(ctx, "STATUS:ok\nFILES_CREATED:lie.txt")
	case has("lie"):
		return t.Say(ctx, "STATUS:ok\nFILES_CREATED:lie.txt")
	case exists(beside(dir, "spent")):
		fmt.Fprintln(os.Stderr, "reading the account\nno credits left")
		return &jsonrpc.Error{Code: jsonrpc.CodeServer, Message: "Internal error", Data: json.RawMessage(`{"codexErrorInfo":"usageLimitExceeded"}`)}
	case has("forge"):
		return forge(ctx, t)
	case has("amend"):
		return amend(ctx, t)
	case has("deposit"):
		return deposit(ctx, t)
	case has("overwrite"):
		return overwrite(ctx, t)
	case has("trespass"):
		os.WriteFile(filepath.Join(dir, "silent.txt"), []byte("nobody was asked\n"), 0o600)
	case has("crash"):
		t.Say(ctx, "about to crash")
		if _, err := os.Stat(beside(dir, "crashed")); err != nil {
			os.WriteFile(beside(dir, "crashed"), nil, 0o600)
			os.Exit(3)
		}
	case has("misname"): // the model and the currency have names that no other agent gives them
		t.Update(ctx, acpv2.SessionUpdate{UsageUpdate: &acpv2.UsageUpdate{Used: 1, Size: 2, Meta: json.RawMessage(`{"_claude/model":"Größtes, neuestes!"}`), Cost: acpv2.Set(acpv2.Cost{Amount: "0.5", Currency: "usd"})}})
		return spendTokens(ctx, t)
	case has("spend"):
		return spendTokens(ctx, t)
	case has("toil"):
		return toil(ctx, t)
	case has("echo"):
		to := "tester"
		if strings.Contains(turn.Texts, "echo to builder") {
			to = "builder"
		}
		other := map[string]string{"tester": "builder", "builder": "tester"}[to]
		if _, err := rpc.Call(ctx, hubOf(t, turn), api.Send, api.SendParams{To: api.Recipients{hub.AgentID(to)}, Text: "echo to " + other}); err != nil {
			return err
		}
	case has("slow"):
		t.Say(ctx, "working")
		awaitGo(ctx, dir)
		if ctx.Err() != nil {
			return nil
		}
	case has("ask"):
		out, err := t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
			Title: "run make", Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{
				ToolCall: acpv2.ToolCallUpdate{ToolCallID: "1", Title: acpv2.Set("run make"), Kind: acpv2.Set(acpv2.ToolKindExecute)},
			}}),
			Options: []acpv2.PermissionOption{{OptionID: "opt_always", Name: "Always", Kind: acpv2.PermissionOptionKindAllowAlways}, {OptionID: "opt_allow", Name: "Allow", Kind: acpv2.PermissionOptionKindAllowOnce}, {OptionID: "opt_reject", Name: "Reject", Kind: acpv2.PermissionOptionKindRejectOnce}},
		})
		if err != nil {
			return err
		}
		answer, _ := json.Marshal(out)
		os.WriteFile(beside(dir, "answer"), answer, 0o600)
		select {
		case words := <-steered:
			return os.WriteFile(beside(dir, "words"), words, 0o600)
		default:
		}
	}
	return t.Say(ctx, "done")
}

// claimTask accepts a handoff, completes it without any work, and reports that it is done. When the
// report is refused, it does the work and completes the handoff.
func claimTask(ctx context.Context, t *acp.AgentTurn, turn keptTurn) error {
	handoff := func(action string, id []byte) error {
		_, err := rpc.Call(ctx, hubOf(t, turn), api.Handoff, api.HandoffParams{Action: action, ID: hub.HandoffID(id), Summary: "done"})
		return err
	}
	if strings.Contains(turn.Prompt, "was refused") {
		os.WriteFile(filepath.Join(t.Dir, "parser.go"), []byte("package parser\n"), 0o600)
		id, _ := os.ReadFile(beside(t.Dir, "task"))
		if err := handoff("complete", id); err != nil {
			return err
		}
		return t.Say(ctx, "STATUS:ok\nFILES_CREATED:parser.go")
	}
	offered := offeredHandoff.FindStringSubmatch(turn.Texts)
	if offered == nil {
		return t.Say(ctx, "hello")
	}
	id := []byte(offered[1])
	os.WriteFile(beside(t.Dir, "task"), id, 0o600)
	if err := handoff("accept", id); err != nil {
		return err
	}
	if err := handoff("complete", id); hub.CodeOf(err) != hub.CodeUnproven {
		return fmt.Errorf("the completion: got %v, want %s", err, hub.CodeUnproven)
	}
	return t.Say(ctx, "STATUS:no_changes")
}

// steered has the words that the hub gave an agent in its turn.
var steered = make(chan []byte, 1)

// takeWords lets an agent take words in its turns, as an extension that some agents have.
func takeWords(a *acp.Agent) {
	a.Meta = json.RawMessage(`{"steering":{"supported":true}}`)
	a.Extension = func(_ context.Context, method string, params json.RawMessage) (any, error) {
		if method != "_session/steering" {
			return nil, jsonrpc.MethodNotFound(method)
		}
		steered <- params
		return map[string]string{"outcome": "injected"}, nil
	}
}

// toil makes up to three files, each after a model call that the test has seen counted, until one is
// refused.
func toil(ctx context.Context, t *acp.AgentTurn) error {
	for n := range 3 {
		call := acpv2.ToolCallUpdate{ToolCallID: acpv2.ToolCallID(fmt.Sprint(n)), Title: acpv2.Set("write a file"), Kind: acpv2.Set(acpv2.ToolKindEdit), Status: acpv2.Set(acpv2.ToolCallStatusInProgress)}
		if err := errors.Join(spendTokens(ctx, t), t.ToolCall(ctx, call)); err != nil {
			return err
		}
		awaitFile(ctx, beside(t.Dir, fmt.Sprintf("counted%d", n+1)))
		if err := t.Files().Write(ctx, filepath.Join(t.Dir, fmt.Sprintf("%d.txt", n+1)), "made\n"); err != nil {
			return os.WriteFile(answerFile(t.Dir), []byte(err.Error()), 0o600)
		}
		call.Status = acpv2.Set(acpv2.ToolCallStatusCompleted)
		if err := t.ToolCall(ctx, call); err != nil {
			return err
		}
	}
	return t.Say(ctx, "done")
}

// spendTokens tells the counts of a model call.
func spendTokens(ctx context.Context, t *acp.AgentTurn) error {
	meta := json.RawMessage(`{"usage":{"inputTokens":1234,"outputTokens":567,"totalTokens":1801,"thoughtTokens":33,"cachedReadTokens":301}}`)
	return t.Update(ctx, acpv2.SessionUpdate{AgentMessageChunk: &acpv2.ContentChunk{MessageID: "m", Content: acp.Text(""), Meta: meta}})
}

// keepSelf keeps the test binary as an agent and returns its folder.
func (w *wakeHub) keepSelf(name hub.AgentID, change func(*api.KeepParams)) string {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		w.t.Fatal(err)
	}
	dir := filepath.Join(w.t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	p := api.KeepParams{Definition: keeper.Definition{Agent: name, Command: []string{env, asKeptAgent + "=1", self}, Dir: dir, Policy: sandbox.PolicyWrite}}
	if change != nil {
		change(&p)
	}
	return mustCall(w.t, w.as(w.operator), api.KeepAgent, p).Dir
}

// turns waits until the agent has had n turns and is idle, and returns them.
func (w *wakeHub) turns(name hub.AgentID, dir string, n int) []keptTurn {
	w.t.Helper()
	var got []keptTurn
	w.until(fmt.Sprintf("%s has had %d turns", name, n), func() bool {
		got = nil
		raw, _ := os.ReadFile(beside(dir, "turns.jsonl"))
		for line := range strings.Lines(string(raw)) {
			var t keptTurn
			if json.Unmarshal([]byte(line), &t) == nil {
				got = append(got, t)
			}
		}
		s := w.kept(name)
		return len(got) >= n && (s.State == keeper.Idle || s.State == keeper.Sleeping)
	}, func() any { return fmt.Sprint(got, w.kept(name)) })
	if len(got) != n {
		w.t.Fatalf("got %d turns, want %d: %+v", len(got), n, got)
	}
	return got
}

func (w *wakeHub) kept(name hub.AgentID) api.KeptAgent {
	w.t.Helper()
	for _, k := range mustCall(w.t, w.as(w.operator), api.ListKept, api.None{}).Agents {
		if k.Agent == name {
			return k
		}
	}
	return api.KeptAgent{}
}

// logOf returns the log of a kept agent.
func (w *wakeHub) logOf(name hub.AgentID) string {
	w.t.Helper()
	var b strings.Builder
	for _, l := range mustCall(w.t, w.as(w.operator), api.LogAgent, api.KeptLogParams{Agent: name}).Lines {
		fmt.Fprintln(&b, l.Kind, l.Text)
	}
	return b.String()
}

func TestKeptAgents(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, change func(*api.KeepParams)) (*wakeHub, string) {
		w := startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner")
		return w, w.keepSelf("builder", change)
	}
	mail := func(w *wakeHub, text string) hub.EnvelopeID {
		return w.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: text})
	}

	t.Run("mail to a sleeping agent is one turn, and a second one to the warm agent, too", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		if s := w.kept("builder"); s.State != keeper.Sleeping || s.Process != 0 {
			t.Errorf("a new agent: got %+v, want one that sleeps", s)
		}
		id := mail(w, "the schema is frozen")
		first := w.turns("builder", dir, 1)[0]
		row := w.untilRow(id, hub.DeliveryAccepted)
		if row.Channel != hub.ChannelWake || !strings.Contains(row.Error, "acp") && !strings.Contains(fmt.Sprint(row), "acp") {
			t.Errorf("got the row %+v, want channel wake by acp", row)
		}
		if !strings.Contains(first.Prompt, "[parley wake w_") || strings.Contains(first.Prompt, "frozen") || !strings.Contains(first.Texts, "frozen") {
			t.Errorf("got %+v, want a notice in the prompt and the text in the inbox", first)
		}
		mail(w, "and one more")
		second := w.turns("builder", dir, 2)[1]
		if second.Process != first.Process || second.Session != first.Session {
			t.Errorf("got %+v after %+v, want the same process", second, first)
		}
	})
	t.Run("an agent that speaks version 2 alone works if it is kept with v2", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, func(p *api.KeepParams) {
			p.Command[1] = asKeptAgent + "=v2"
			p.V2 = true
			p.Policy = sandbox.PolicyAsk
		})
		if id := mail(w, "ask"); id == "" {
			t.Fatal("no message")
		}
		w.until("the question waits for a person", func() bool { return len(w.kept("builder").Asks) == 1 }, func() any { return w.kept("builder") })
		mustCall(t, w.as(w.operator), api.AnswerAgent, api.AnswerParams{Agent: "builder", Question: w.kept("builder").Asks[0].ID, Choice: "yes"})
		w.turns("builder", dir, 1)
		w.until("the log has what it said", func() bool { return strings.Contains(w.logOf("builder"), "text done") }, func() any { return w.logOf("builder") })
	})
	t.Run("an agent that speaks version 2 alone and is kept without v2 is told the word", func(t *testing.T) {
		t.Parallel()
		w, _ := begin(t, func(p *api.KeepParams) { p.Command[1] = asKeptAgent + "=v2" })
		mail(w, "hello")
		w.until("its problem is told", func() bool { return strings.Contains(w.kept("builder").Problem, "--v2") }, func() any { return w.kept("builder") })
		if got := w.kept("builder").Problem; strings.Contains(got, "login") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("ten messages during a turn are one more, and no prompt overlaps", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		mail(w, "slow")
		w.until("the turn runs", func() bool { return strings.Contains(w.logOf("builder"), "text working") }, func() any { return w.kept("builder") })
		for i := range 10 {
			mail(w, fmt.Sprint("meanwhile ", i))
		}
		os.WriteFile(beside(dir, "go"), nil, 0o600)
		got := w.turns("builder", dir, 2)
		if n := strings.Count(got[1].Texts, "meanwhile"); n != 10 {
			t.Errorf("the second turn read %d messages, want 10", n)
		}
		if _, err := os.Stat(beside(dir, "overlap")); err == nil {
			t.Error("a second prompt reached the agent while one ran")
		}
	})
	t.Run("an idle agent is stopped, and the next mail takes up its session", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, func(p *api.KeepParams) { p.Idle = 1 })
		mail(w, "one")
		first := w.turns("builder", dir, 1)[0]
		w.until("it sleeps", func() bool { return w.kept("builder").State == keeper.Sleeping }, func() any { return w.kept("builder") })
		mail(w, "two")
		second := w.turns("builder", dir, 2)[1]
		if second.Process == first.Process || second.Session != first.Session || !second.Resumed {
			t.Errorf("got %+v after %+v, want another process with the same session", second, first)
		}
	})
	t.Run("an agent that waits for its model works, and its wake has not failed", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		os.WriteFile(beside(dir, "mute"), nil, 0o600)
		id := mail(w, "x")
		w.until("it works", func() bool { return w.kept("builder").State == keeper.Working }, func() any { return w.kept("builder") })
		if s := w.sessionNamed("builder", "kept"); s.State != wake.SessionWorking {
			t.Errorf("got %+v", s)
		}
		w.pass(6 * time.Minute)
		mail(w, "y") // the router visits the agent, and would end a wake whose time is over
		(&terminal{wakeHub: w}).flush()
		os.WriteFile(beside(dir, "go"), nil, 0o600)
		w.turns("builder", dir, 1)
		w.untilRow(id, hub.DeliveryAccepted)
		for _, e := range mustCall(t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Deliveries {
			if e.Status == hub.DeliveryFailed {
				t.Errorf("got %+v", e)
			}
		}
	})
	t.Run("a turn that the operator stops is told at the next start, and its log is kept", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		mail(w, "slow") // which the agent acknowledges
		w.until("the turn runs", func() bool { return strings.Contains(w.logOf("builder"), "text working") }, func() any { return w.logOf("builder") })
		as := w.as(w.operator)
		mustCall(t, as, api.StopAgent, api.StopParams{Agent: "builder"})
		if log := w.logOf("builder"); !strings.Contains(log, "working") || !strings.Contains(log, "by the operator") {
			t.Errorf("got the log %q", log)
		}
		os.WriteFile(beside(dir, "go"), nil, 0o600)
		mustCall(t, as, api.RestartAgent, api.RestartParams{Agent: "builder"})
		got := w.turns("builder", dir, 2)
		if !strings.Contains(got[1].Prompt, "The operator stopped your last turn before it ended") || !strings.Contains(got[1].Prompt, "[parley wake w_") {
			t.Errorf("got %q", got[1].Prompt)
		}
	})
	t.Run("an agent whose account is out of quota is known, until a turn goes well", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		spent := func() bool {
			all := mustCall(t, w.as(w.operator), api.ListSessions, api.AgentNameParams{Agent: "builder"}).Agents[0].Sessions
			return slices.ContainsFunc(all, func(s wake.Session) bool { return !s.NoQuota.IsZero() })
		}
		os.WriteFile(beside(dir, "spent"), nil, 0o600)
		mail(w, "x")
		w.until("it is out of quota", spent, func() any { return w.logOf("builder") })
		if log := fmt.Sprint(mustCall(t, w.as(w.operator), api.LogAgent, api.KeptLogParams{Agent: "builder"}).Lines); !strings.Contains(log, "its standard error ends with:") || !strings.Contains(log, "no credits left") {
			t.Errorf("the log of the failed turn: got %s, want the agent's standard error", log)
		}
		os.Remove(beside(dir, "spent"))
		mail(w, "hello")
		w.until("it has quota", func() bool { return !spent() }, func() any { return w.logOf("builder") })
	})
	t.Run("an agent that breaks down goes on with its turn", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		mail(w, "crash")
		got := w.turns("builder", dir, 2)
		if !strings.Contains(got[1].Prompt, "was interrupted") || !got[1].Resumed {
			t.Errorf("got %+v, want a turn that continues", got[1])
		}
	})
	t.Run("a hub that stops during a turn continues it after its start", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		mail(w, "slow")
		w.until("the turn runs", func() bool { return strings.Contains(w.logOf("builder"), "text working") }, func() any { return w.kept("builder") })
		w.restart()
		os.WriteFile(beside(dir, "go"), nil, 0o600)
		got := w.turns("builder", dir, 2)
		if !strings.Contains(got[1].Prompt, "was interrupted") {
			t.Errorf("got %+v, want a turn that continues", got[1])
		}
	})
	t.Run("a report that the files contradict is told to the agent, which repairs it", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		mail(w, "lie")
		got := w.turns("builder", dir, 2)
		if !strings.Contains(got[1].Prompt, "was refused") || !strings.Contains(got[1].Prompt, "lie.txt") {
			t.Errorf("got %q, want the refusal", got[1].Prompt)
		}
		var verdicts []hub.RunVerdict
		w.until("two runs are recorded", func() bool {
			verdicts = nil
			for _, r := range mustCall(t, w.as(w.operator), api.ListRuns, api.RunListParams{}).Runs {
				verdicts = append(verdicts, r.Verdict)
			}
			return len(verdicts) == 2 && verdicts[0] != "" // the second one has ended
		}, func() any { return verdicts })
		if verdicts[0] != hub.RunConfirmed || verdicts[1] != hub.RunContradicted {
			t.Errorf("got %v, newest first, want contradicted and then confirmed", verdicts)
		}
	})
	t.Run("a report of work whose completion was refused is contradicted, and the agent, the operator and the page read why", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		os.WriteFile(beside(dir, "rash"), nil, 0o600)
		id := w.giveTask(dir)
		got := w.turns("builder", dir, 2)
		has(t, got[1].Prompt, "was refused", "you reported status: no_changes", "completion of h1", "nothing has changed")
		var runs []hub.Run
		w.until("two runs have ended", func() bool {
			runs = mustCall(t, w.as(w.operator), api.ListRuns, api.RunListParams{}).Runs
			return len(runs) == 2 && runs[0].Verdict != ""
		}, func() any { return runs })
		if runs[0].Verdict != hub.RunConfirmed || runs[1].Verdict != hub.RunContradicted || len(runs[1].Contradictions) != 1 {
			t.Fatalf("got %+v, newest first, want contradicted and then confirmed", runs)
		}
		has(t, runs[1].Contradictions[0].Found, "the hub refused the completion of h1", "nothing has changed")
		has(t, w.mailOf(w.operator), "no_changes, contradicted", "the hub refused the completion of h1")

		done := mustCall(t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "show", ID: id}).Report
		if done.Status != hub.HandoffClosed || done.Returned != "" {
			t.Errorf("after the work: got %s, returned %q", done.Status, done.Returned)
		}
	})
	t.Run("a question waits for a person, and is denied after its time", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, func(p *api.KeepParams) { p.Policy = sandbox.PolicyAsk })
		mail(w, "ask")
		w.until("it asks", func() bool { return len(w.kept("builder").Asks) == 1 }, func() any { return w.kept("builder") })
		s := w.kept("builder")
		if s.State != keeper.Asking || s.Asks[0].Text != "run make" {
			t.Errorf("got %+v", s)
		}
		as := w.as(w.operator)
		if _, err := rpc.Call(t.Context(), as, api.AnswerAgent, api.AnswerParams{Agent: "builder", Question: 1, Choice: "maybe"}); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("an unknown choice: got %v", err)
		}
		mustCall(t, as, api.AnswerAgent, api.AnswerParams{Agent: "builder", Question: 1, Choice: "yes"})
		w.turns("builder", dir, 1)
		if got, _ := os.ReadFile(beside(dir, "answer")); !strings.Contains(string(got), "opt_allow") {
			t.Errorf("the agent got %s, want the choice that allows once", got)
		}
		asked := mustCall(t, as, api.Inbox, api.InboxParams{Peek: true}).Messages
		if len(asked) != 1 || asked[0].Type != hub.TypeKnowledgeQuery || !strings.Contains(string(asked[0].Payload), "builder asks: run make") {
			t.Errorf("got %+v, want a question in the inbox", asked)
		}
		mail(w, "ask")
		w.until("it asks", func() bool { return len(mustCall(t, as, api.ListHeld, api.None{}).Asks) == 1 }, func() any { return w.kept("builder") })
		mustCall(t, as, api.AnswerAgent, api.AnswerParams{Agent: "builder", Question: w.kept("builder").Asks[0].ID, Choice: "no"})
		w.turns("builder", dir, 2)
		if got, _ := os.ReadFile(beside(dir, "answer")); !strings.Contains(string(got), "opt_reject") {
			t.Errorf("the agent got %s, want the choice that rejects once", got)
		}
		w.keepSelf("builder", func(p *api.KeepParams) { p.Policy, p.Dir, p.Question = sandbox.PolicyAsk, dir, 1 })
		mail(w, "ask again")
		w.turns("builder", dir, 3)
		if got, _ := os.ReadFile(beside(dir, "answer")); strings.Contains(string(got), "opt_allow") {
			t.Errorf("the agent got %s, want a denial", got)
		}
	})
	t.Run("a turn that changes files beyond the policy is told to the operator and recorded", func(t *testing.T) {
		t.Parallel()
		for policy, breach := range map[sandbox.Policy]bool{sandbox.PolicyRead: true, sandbox.PolicyAsk: true, sandbox.PolicyWrite: false} {
			w, dir := begin(t, func(p *api.KeepParams) { p.Policy = policy })
			mail(w, "trespass")
			w.turns("builder", dir, 1)
			inbox, err := json.Marshal(mustCall(t, w.as(w.operator), api.Inbox, api.InboxParams{Limit: 50}))
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(string(inbox), "in a turn of builder files changed") && strings.Contains(string(inbox), "silent.txt"); told != breach {
				t.Errorf("policy %s: the operator was told: %v, want %v: %s", policy, told, breach, inbox)
			}
			log := fmt.Sprint(mustCall(t, w.as(w.operator), api.LogAgent, api.KeptLogParams{Agent: "builder"}).Lines)
			if logged := strings.Contains(log, "breach files changed"); logged != breach {
				t.Errorf("policy %s: a breach is logged: %v, want %v", policy, logged, breach)
			}
			record, err := run.NewFiles(w.opts.Home).Record(w.kept("builder").Run)
			if err != nil || (record.Breach != nil) != breach {
				t.Errorf("policy %s: the record of the turn has the breach %+v, %v, want %v", policy, record.Breach, err, breach)
			}
		}
	})
	t.Run("the operator types, watches, stops and restarts", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		as := w.as(w.operator)
		w.until("builder takes a prompt", func() bool { // it may not have been started yet
			_, err := rpc.Call(t.Context(), as, api.PromptAgent, api.PromptParams{Agent: "builder", Text: "hello there\u202e\u00ad\U000e0041"})
			return err == nil
		}, func() any { return nil })
		if got := w.turns("builder", dir, 1)[0]; !strings.HasPrefix(got.Prompt, "hello there") || hostiletest.Find(got.Prompt) != "" {
			t.Errorf("got %q", got.Prompt)
		}
		log := mustCall(t, as, api.LogAgent, api.KeptLogParams{Agent: "builder"})
		if text := fmt.Sprint(log.Lines); !strings.Contains(text, "prompt hello there") || !strings.Contains(text, "text done") {
			t.Errorf("got the log %s", text)
		}
		mustCall(t, as, api.StopAgent, api.StopParams{Agent: "builder"})
		id := mail(w, "are you there")
		if s := w.kept("builder"); s.State != keeper.Stopped {
			t.Errorf("got %s, want stopped", s.State)
		}
		if _, err := rpc.Call(t.Context(), as, api.PromptAgent, api.PromptParams{Agent: "builder", Text: "x"}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a prompt for a stopped agent: got %v", err)
		}
		mustCall(t, as, api.RestartAgent, api.RestartParams{Agent: "builder"})
		w.turns("builder", dir, 2)
		w.untilRow(id, hub.DeliveryAccepted)
		mustCall(t, as, api.StopAgent, api.StopParams{Agent: "builder", Forget: true})
		if s := w.kept("builder"); s.Agent != "" {
			t.Errorf("it is still kept: %+v", s)
		}
	})
	t.Run("an agent that cannot be started is stopped after some failures, and the operator is told", func(t *testing.T) {
		t.Parallel()
		w := startWakes(t, server.Options{}, "planner")
		program, _ := exec.LookPath("false")
		w.keepSelf("builder", func(p *api.KeepParams) { p.Command = []string{program} })
		mail(w, "hello")
		w.until("it is stopped", func() bool { return w.kept("builder").State == keeper.Stopped }, func() any { return w.kept("builder") })
		if w.kept("builder").Problem == "" {
			t.Error("its problem is not shown")
		}
		page := mustCall(t, w.as(w.operator), api.Inbox, api.InboxParams{Limit: 50})
		if text, _ := json.Marshal(page); !strings.Contains(string(text), "builder is stopped") {
			t.Error("the operator was not told")
		}
	})
	t.Run("bad definitions are refused and change nothing", func(t *testing.T) {
		t.Parallel()
		w, dir := begin(t, nil)
		as := w.as(w.operator)
		good := api.KeepParams{Definition: w.kept("builder").Definition}
		good.Agent = "second"
		repo := t.TempDir()
		git := func(args ...string) string {
			out, err := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
			return string(out)
		}
		git("init", "-q")
		git("commit", "-q", "--allow-empty", "-m", "first")
		inner, runs, link := filepath.Join(dir, "inner"), filepath.Join(w.opts.Home, "runs"), filepath.Join(t.TempDir(), "link")
		if err := errors.Join(os.Mkdir(inner, 0o700), os.MkdirAll(runs, 0o700), os.Symlink(w.opts.Home, link)); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			change func(*api.KeepParams)
			want   hub.Code
		}{
			"yolo":                       {func(p *api.KeepParams) { p.Policy = sandbox.PolicyYolo }, hub.CodeInvalid},
			"no folder":                  {func(p *api.KeepParams) { p.Dir = filepath.Join(dir, "none") }, hub.CodeInvalid},
			"no program":                 {func(p *api.KeepParams) { p.Command = []string{"/none"} }, hub.CodeInvalid},
			"a relative program":         {func(p *api.KeepParams) { p.Command = []string{"env"} }, hub.CodeInvalid},
			"the folder of another":      {func(*api.KeepParams) {}, hub.CodeConflict},
			"a folder that holds it":     {func(p *api.KeepParams) { p.Dir = filepath.Dir(dir) }, hub.CodeConflict},
			"a folder in it":             {func(p *api.KeepParams) { p.Dir = inner }, hub.CodeConflict},
			"the operator":               {func(p *api.KeepParams) { p.Agent = hub.Operator }, hub.CodeInvalid},
			"a budget that is too large": {func(p *api.KeepParams) { p.Dir, p.PerHour = t.TempDir(), 999 }, hub.CodeInvalid},
			"a negative time":            {func(p *api.KeepParams) { p.Idle = -1 }, hub.CodeInvalid},
			"the hub's home":             {func(p *api.KeepParams) { p.Dir = w.opts.Home }, hub.CodePolicy},
			"a folder in the hub's home": {func(p *api.KeepParams) { p.Dir = runs }, hub.CodePolicy},
			"a parent of the hub's home": {func(p *api.KeepParams) { p.Dir = filepath.Dir(w.opts.Home) }, hub.CodePolicy},
			"a link to the hub's home":   {func(p *api.KeepParams) { p.Dir = link }, hub.CodePolicy},
			"no repository":              {func(p *api.KeepParams) { p.Dir, p.Worktree = t.TempDir(), true }, hub.CodeInvalid},
			"a role in a worktree":       {func(p *api.KeepParams) { p.Dir, p.Worktree, p.Role = repo, true, "dancer" }, hub.CodeInvalid},
		} {
			p := good
			c.change(&p)
			if _, err := rpc.Call(t.Context(), as, api.KeepAgent, p); hub.CodeOf(err) != c.want {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
		}
		if left := git("branch", "--list", "parley/*") + git("worktree", "list", "--porcelain"); strings.Contains(left, "second") {
			t.Errorf("a definition that was refused left a branch or a worktree: %s", left)
		}
		for _, method := range []string{"keep", "stop", "restart", "prompt", "answer"} {
			r := w.call(t, w.operator, "parley/agent/"+method, `{"agent":"builder","from":"mallory"}`)
			if r.Error == nil || r.Error.Data.Reason != hub.CodeTampering && r.Error.Data.Reason != hub.CodeInvalid {
				t.Errorf("R3-009 %s with a claimed sender: got %s, want a refusal", method, r.body)
			}
		}
		if n := len(mustCall(t, as, api.ListKept, api.None{}).Agents); n != 1 {
			t.Errorf("got %d kept agents, want 1", n)
		}
		for _, a := range mustCall(t, as, api.ListAgents, api.None{}).Agents {
			if a.ID == "second" {
				t.Error("the agent of a definition that was refused was added")
			}
		}
		if _, err := rpc.Call(t.Context(), w.as(w.keys["planner"]), api.KeepAgent, good); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("an agent keeps another: got %v", err)
		}
	})
}
