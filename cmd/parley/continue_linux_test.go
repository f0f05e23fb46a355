package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// stoppingModel returns the script of a model that accepts the task h1, writes a file and then
// fails for a cause, and that continues the task as h2 when it is told to.
func stoppingModel(cause, dir string) *model.Script {
	call := func(name, args string) model.Step {
		return model.Step{Do: model.MCP, Server: "parley", Name: name, Args: json.RawMessage(args)}
	}
	end := model.Step{Do: model.Error, How: cause}
	switch cause {
	case "cut": // the stream of the answer ends in the middle
		end = model.Step{Do: model.Fail, How: "cut"}
	case "kill": // the test kills the program while its model is silent
		end = model.Step{Do: model.Hang}
	case "budget": // one turn is all that it has
		end = model.Step{Do: model.Say, Text: "Half of it is done."}
	}
	draft := filepath.Join(dir, "draft.txt") // a context that was compacted does not name the folder
	rest := []model.Step{{Do: model.Read, Path: draft}, {Do: model.Edit, Path: draft, Old: "half of it", New: "all of it"}, {Do: model.Say, Text: "Continued."}}
	begin := []model.Step{call("acp_handoff", `{"action":"accept","handoff_id":"h1"}`), {Do: model.Read, Path: "draft.txt"}, {Do: model.Edit, Path: "draft.txt", Old: "none of it", New: "half of it"}, end}
	if cause == "cut" { // Qwen Code shows the call with which it recovers under the first prompt
		begin = append(begin, rest...)
	}
	s := model.Default()
	s.Rules = []model.Rule{
		{
			When: model.Condition{Prompt: regexp.MustCompile(`You continue a task of`)},
			Do:   append([]model.Step{call("acp_handoff", `{"action":"accept","handoff_id":"h2"}`)}, rest...),
		},
		{ // Qwen Code recovers
			When: model.Condition{Prompt: regexp.MustCompile(`previous assistant response ended with|full current content embedded`)},
			Do:   rest,
		},
		{
			When: model.Condition{Prompt: regexp.MustCompile(`\[parley wake w_`)},
			Do:   begin,
		},
	}
	return s
}

// recovers are the causes after which a kept CLI goes on by itself: Qwen Code compacts a full context,
// and asks its model for the rest of an answer whose stream was cut.
var recovers = map[string][]string{"qwen": {"context", "cut"}}

// TestContinueInTerminal has a person continue a task with a CLI in their own terminal. The CLI is a
// program that runs its hooks.
func TestContinueInTerminal(t *testing.T) {
	h, dir := closedTask(t)
	cmd := parley(t, append(h.env(""), "PATH="+fakeCLI(t, "claude"), "HOME="+t.TempDir(), "FAKE_VERSION=1.0.0", "FAKE_SESSION=new-1"), "continue", "h1", "--with", "claude", "--terminal", "--as-operator")
	r := do(t, cmd)
	if r.code != 7 {
		t.Fatalf("exit %d, want that of the CLI: %s%s", r.code, r.out, r.err)
	}
	contains(t, r.err, "h2 is offered to builder-claude", "uncommitted work is kept as s1")
	contains(t, r.out, "env PWD="+dir, "You continue a task of builder, which was closed", "accept the handoff h2", "parser.go")
	if got := h.continued(); len(got) != 1 || got[0].To != "builder-claude" || got[0].State != hub.ContinuationOffered {
		t.Errorf("got %+v", got)
	}
}

// TestKeptContinues has a real agent stop in the middle of a task for each cause, and another one
// of the same CLI continue it in the same folder. A CLI that recovers by itself keeps its task.
func TestKeptContinues(t *testing.T) {
	onlyReal(t)
	for _, c := range keptPeers {
		for _, cause := range []string{"quota", "rate", "login", "context", "overload", "cut", "budget", "kill"} {
			t.Run(c.cli+" "+cause, func(t *testing.T) {
				t.Parallel()
				testKeptContinues(t, c.cli, c.known, cause)
			})
		}
	}
}

func testKeptContinues(t *testing.T, cli, known, cause string) {
	d := &den{cli: cli, dir: t.TempDir()}
	d.script = model.New(stoppingModel(cause, d.dir))
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	bin := installPeer(t, cli, known, server.URL, nil)
	d.flags = []string{"--unsafe-limits", "--config", write(t, "config.yaml", "wakes:\n  gap: 1ms\n  per_hour: 1000\n  pair_per_hour: 1000\ncontinue:\n  patience: 20s\n")}
	d.house = newHouse(t, d.flags...)
	if err := os.WriteFile(filepath.Join(d.dir, "draft.txt"), []byte("none of it\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = d.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %s", args, out)
		}
	}
	d.ok(d.operator("hub", "folder", "add", d.dir), nil)
	keep := parley(t, append(d.env(""), "PATH="+bin), "agent", "keep", "builder", "--cli", cli, "--dir", d.dir, "--policy", "write", "--or", cli, "--as-operator")
	d.ok(do(t, keep), nil)
	t.Cleanup(func() {
		d.operator("agent", "stop", "builder") // the hub may have ended
		d.operator("agent", "stop", "builder-"+cli)
	})
	defer func() {
		if t.Failed() {
			d.show()
			t.Logf("%s\n%s", d.operator("agent", "logs", "builder-"+cli).out, d.operator("continue").out)
		}
	}()

	if cause == "budget" {
		d.ok(d.operator("spend", "budget", "set", "builder", "--turns", "1", "--per", "total"), nil)
	}
	d.ok(d.as("planner", "handoff", "new", "--to", "builder", "--task", "T-1", "--title", "write a draft", "--objective", "a draft", "--summary", "begin", "--next", "write draft.txt", "--criterion", "it is whole", "--worktree", d.dir), nil)
	if cause == "kill" {
		d.await("half of the work", func() bool {
			text, _ := os.ReadFile(filepath.Join(d.dir, "draft.txt"))
			return string(text) == "half of it\n"
		})
		if err := syscall.Kill(d.status().Process, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	whole := func() bool {
		text, _ := os.ReadFile(filepath.Join(d.dir, "draft.txt"))
		return string(text) == "all of it\n"
	}
	if slices.Contains(recovers[cli], cause) {
		d.await("the rest of the work", whole)
		if all, owners := d.continued(), d.owners("T-1"); len(all) != 0 || !slices.Equal(owners, []string{"builder"}) {
			t.Errorf("the agent recovered, and the task was continued: owners %v, %+v", owners, all)
		}
		return
	}
	d.await("a taken task", func() bool {
		if owners := d.owners("T-1"); len(owners) > 1 {
			t.Fatalf("the task has several owners: %v", owners)
		}
		all := d.continued()
		return len(all) == 1 && all[0].State == hub.ContinuationTaken
	})
	c := d.continued()[0]
	t.Logf("%s %s: another agent has the task %v after the cause was known", cli, cause, c.MovedAt.Sub(c.At.Time).Round(time.Millisecond))
	if owners := d.owners("T-1"); !slices.Equal(owners, []string{"builder-" + cli}) {
		t.Errorf("the owners of the task: got %v", owners)
	}
	if reason := reasonOf(cause); c.Reason != reason && c.Reason != hub.ContinueHang { // some try again without a word
		t.Errorf("the reason is %s, want %s", c.Reason, reason)
	}
	if c.Of != "builder" || string(c.To) != "builder-"+cli || c.Rescue == nil {
		t.Fatalf("got %+v", c)
	}
	kept, err := exec.Command("git", "--git-dir", c.Rescue.Copy, "show", c.Rescue.Commit+":draft.txt").CombinedOutput()
	if err != nil || string(kept) != "half of it\n" {
		t.Errorf("the rescue: got %q, %v", kept, err)
	}
	d.await("the rest of the work", whole)
}

// owners returns the agents that have accepted a task and not handed it on.
func (h *house) owners(task string) (out []string) {
	h.t.Helper()
	var got struct{ Handoffs []struct{ To string } }
	h.ok(h.operator("handoff", "list", "--task", task, "--state", "activated", "--json"), &got)
	for _, one := range got.Handoffs {
		out = append(out, one.To)
	}
	return out
}

// reasonOf returns the reason of a continuation after a cause.
func reasonOf(cause string) hub.ContinuationReason {
	switch cause {
	case "quota":
		return hub.ContinueQuota
	case "rate":
		return hub.ContinueRate
	case "login":
		return hub.ContinueLogin
	case "context":
		return hub.ContinueContext
	case "budget":
		return hub.ContinueBudget
	case "overload":
		return hub.ContinueOverload
	case "cut": // an answer that breaks off is an error of the turn
		return hub.ContinueError
	}
	return hub.ContinueCrash
}
