package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// A commandHub keeps builder in a repository with an allowed check.
type commandHub struct {
	*keptPair
	dir string
}

// startCommands starts a hub that keeps builder with a policy.
func startCommands(t *testing.T, policy sandbox.Policy) *commandHub {
	t.Helper()
	p := &keptPair{wakeHub: startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner", "builder")}
	var err error
	if p.top, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	p.git("init", "-q", "-b", "main")
	p.write("a.txt", "first\n")
	p.write("test.sh", "echo \"$HOME\"; grep -q fixed a.txt\n")
	p.git("add", ".")
	p.git("commit", "-q", "-m", "first")
	mustCall(t, p.as(p.operator), api.AddRoot, api.RootParams{Path: p.top})
	mustCall(t, p.as(p.operator), api.AddCheck, api.AddCheckParams{RepositoryParams: api.RepositoryParams{Repository: p.top}, Name: "test", Command: []string{"sh", "test.sh"}})
	dir := p.keepSelf("builder", func(k *api.KeepParams) {
		k.Dir = p.top
		k.Policy = policy
	})
	return &commandHub{p, dir}
}

func (p *keptPair) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.top, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// command asks for a check or a command as an agent, and waits until it has ended.
func (h *commandHub) command(as hub.AgentID, action, command string) (keeper.Outcome, error) {
	h.t.Helper()
	for {
		got, err := rpc.Call(h.t.Context(), h.as(h.keys[as]), api.Handoff, api.HandoffParams{Action: action, Command: command})
		if err != nil {
			return keeper.Outcome{}, err
		}
		if got.Outcome.State.Over() {
			return *got.Outcome, nil
		}
	}
}

// must returns the outcome of a command that runs.
func (h *commandHub) must(action, command string) keeper.Outcome {
	h.t.Helper()
	got, err := h.command("builder", action, command)
	if err != nil {
		h.t.Fatalf("%s %s: %v", action, command, err)
	}
	return got
}

// refused expects that a command is refused with a code and words.
func (h *commandHub) refused(as hub.AgentID, action, command string, code hub.Code, words ...string) {
	h.t.Helper()
	got, err := h.command(as, action, command)
	if hub.CodeOf(err) != code {
		h.t.Fatalf("%s %s: got %+v, %v, want %s", action, command, got, err, code)
	}
	text := err.Error()
	if e, ok := errors.AsType[*hub.Error](err); ok {
		text += " " + e.Hint
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			h.t.Errorf("%s %s: %q lacks %q", action, command, text, word)
		}
	}
}

// TestKeptCommands has the hub run checks and commands in the folder of a kept agent, whose own
// shell is off.
func TestKeptCommands(t *testing.T) {
	t.Parallel()
	t.Run("policy write: the hub runs an allowed check in the agent's folder, and no other command", func(t *testing.T) {
		t.Parallel()
		h := startCommands(t, sandbox.PolicyWrite)
		if got := h.must("check", "test"); got.State != hub.ResultFailed || got.ExitCode != 1 {
			t.Errorf("before the work: got %+v", got)
		}
		h.write("a.txt", "fixed\n") // not committed
		got := h.must("check", "test")
		if got.State != hub.ResultPassed || !strings.Contains(got.Output, "/homes/builder") {
			t.Errorf("after the work: got %+v, want passed in a home of the agent's own", got)
		}

		h.refused("builder", "check", "tset", hub.CodeNotFound, "test")
		h.refused("builder", "check", "", hub.CodeInvalid, "command is required")
		h.refused("builder", "run", "touch new", hub.CodeDenied, "your policy is write", "check", "--policy build")
		h.refused("planner", "check", "test", hub.CodeDenied, "own shell")
		if exists(filepath.Join(h.top, "new")) {
			t.Error("a refused command was run")
		}
		page := mustCall(t, h.as(h.operator), api.ListResults, api.ResultsParams{})
		if len(page.Results) != 0 {
			t.Errorf("got %d results that could count for the work: %+v", len(page.Results), page.Results)
		}
	})
	t.Run("policy build: any command, confined, without the network and without the repository", func(t *testing.T) {
		t.Parallel()
		h := startCommands(t, keeper.PolicyBuild)
		outside := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := h.must("run", "echo hello > new && cat new"); got.State != hub.ResultPassed || got.Output != "hello\n" {
			t.Errorf("got %+v", got)
		}
		for _, line := range []string{"echo x > " + outside, "cat " + h.opts.Home + "/*.db", "git commit -q --allow-empty -m x", "exit 3"} {
			if got := h.must("run", line); got.State != hub.ResultFailed {
				t.Errorf("%s: got %+v, want failed", line, got)
			}
		}
		if got := h.must("run", "cat /proc/net/dev | grep -c :"); got.State == hub.ResultPassed && strings.TrimSpace(got.Output) != "1" {
			t.Errorf("it has network devices beside loopback: %s", got.Output)
		}
		h.refused("builder", "run", strings.Repeat("x", 20<<10), hub.CodeTooLarge, "20480")

		entries := 0
		for _, line := range h.running.journal(t, 0) {
			if strings.Contains(line, string(actions.AgentCommand)) {
				entries++
			}
		}
		if entries != 6 {
			t.Errorf("got %d entries of the journal about commands, want 6", entries)
		}
	})
	t.Run("policy read runs nothing", func(t *testing.T) {
		t.Parallel()
		h := startCommands(t, sandbox.PolicyRead)
		h.refused("builder", "check", "test", hub.CodeDenied, "your policy is read", "--policy write")
		h.refused("builder", "run", "true", hub.CodeDenied, "your policy is read")
	})
	t.Run("a command that changes a file of another agent is refused with its name", func(t *testing.T) {
		t.Parallel()
		h := startCommands(t, keeper.PolicyBuild)
		q := reservation.Question{Tree: h.top, Paths: []string{"a.txt"}, Kind: reservation.Edit}
		if a := h.ask(q); a.Decision == reservation.Deny {
			t.Fatalf("planner: %+v", a)
		}
		h.refused("builder", "run", "echo mine > a.txt", hub.CodeDenied, "a.txt", "planner")
		if got, _ := os.ReadFile(filepath.Join(h.top, "a.txt")); string(got) != "first\n" {
			t.Errorf("a.txt has %q", got)
		}
	})
	t.Run("one command at a time, which ends when the agent is stopped", func(t *testing.T) {
		t.Parallel()
		h := startCommands(t, keeper.PolicyBuild)
		none := 0
		call := func(line string) (api.HandoffAnswer, error) {
			return rpc.Call(t.Context(), h.as(h.keys["builder"]), api.Handoff, api.HandoffParams{Action: "run", Command: line, Wait: &none})
		}
		const long = "echo $$ > pid; exec sleep 1000"
		got, err := call(long)
		if err != nil || got.Outcome.State != hub.ResultRunning {
			t.Fatalf("got %+v, %v", got.Outcome, err)
		}
		if _, err := call("true"); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a second command: got %v, want %s", err, hub.CodeConflict)
		}
		h.until("the command runs", func() bool { return exists(filepath.Join(h.top, "pid")) }, func() any { return h.logOf("builder") })
		mustCall(t, h.as(h.operator), api.StopAgent, api.StopParams{Agent: "builder"})
		if _, err := call("true"); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a command of a stopped agent: got %v, want %s", err, hub.CodeConflict)
		}
		if log := h.logOf("builder"); !strings.Contains(log, string(hub.ResultCancelled)) {
			t.Errorf("the log does not say that the command was cancelled:\n%s", log)
		}
	})
	t.Run("the agent reads what the hub runs for it, in a new session", func(t *testing.T) {
		t.Parallel()
		h := startCommands(t, sandbox.PolicyWrite)
		h.send("planner", api.SendParams{To: api.Recipients{"builder"}})
		first := h.turns("builder", h.dir, 1)[0]
		for _, word := range []string{"action check", "commit_message"} {
			if !strings.Contains(first.Prompt, word) {
				t.Errorf("the prompt lacks %q:\n%s", word, first.Prompt)
			}
		}
		h.send("planner", api.SendParams{To: api.Recipients{"builder"}})
		if second := h.turns("builder", h.dir, 2)[1]; strings.Contains(second.Prompt, "action check") {
			t.Errorf("it is repeated:\n%s", second.Prompt)
		}
	})
	t.Run("an agent that takes words in its turn reads with the refusal of its shell what the hub runs", func(t *testing.T) {
		t.Parallel()
		p := &keptPair{wakeHub: startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner")}
		dir := p.keepSelf("builder", func(k *api.KeepParams) {
			k.Command[1] = asKeptAgent + "=steers"
			k.Policy = keeper.PolicyBuild
		})
		p.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "ask for make"})
		p.turns("builder", dir, 1)
		words, err := os.ReadFile(beside(dir, "words"))
		if err != nil || !strings.Contains(string(words), "action run and command LINE") {
			t.Errorf("got %s, %v", words, err)
		}
		p.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "hello"})
		if second := p.turns("builder", dir, 2)[1]; strings.Contains(second.Prompt, "action run") {
			t.Errorf("it is repeated in the next turn:\n%s", second.Prompt)
		}
	})
	t.Run("another agent with an open task gets a turn at once that says what the hub runs", func(t *testing.T) {
		t.Parallel()
		p := &keptPair{wakeHub: startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner")}
		dir := p.keepSelf("builder", nil)
		p.giveTask(dir) // it asks for its shell
		turns := p.turns("builder", dir, 2)
		for _, word := range []string{"A command of your own shell was refused", "action check and command NAME", "commit_message"} {
			if !strings.Contains(turns[1].Prompt, word) {
				t.Errorf("the second turn lacks %q:\n%s", word, turns[1].Prompt)
			}
		}
	})
	t.Run("without a task the next turn says it", func(t *testing.T) {
		t.Parallel()
		h := startCommands(t, sandbox.PolicyWrite)
		h.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "ask for make"})
		h.turns("builder", h.dir, 1)
		h.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "hello"})
		if second := h.turns("builder", h.dir, 2)[1]; !strings.Contains(second.Prompt, "action check") {
			t.Errorf("got\n%s", second.Prompt)
		}
	})
}
