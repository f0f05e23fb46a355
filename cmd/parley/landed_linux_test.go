package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// A shore is a repository whose main lands what agents complete in a working tree beside it.
type shore struct {
	*house
	repo string // main is checked out there
	work string // the agent's
}

// newShore makes the repository, with the check test, and a working tree on the branch work in a folder
// that is empty.
func newShore(h *house, work string) *shore {
	h.t.Helper()
	s := &shore{house: h, repo: h.t.TempDir(), work: work}
	inGit(h.t, s.repo, "init", "-q", "-b", "main")
	for name, text := range map[string]string{"a.txt": "old\n", "test.sh": "grep -qx made a.txt\n"} {
		if err := os.WriteFile(filepath.Join(s.repo, name), []byte(text), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	inGit(h.t, s.repo, "add", ".")
	inGit(h.t, s.repo, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "first")
	inGit(h.t, s.repo, "worktree", "add", "-q", "-b", "work", s.work)
	h.ok(h.operator("hub", "folder", "add", s.repo), nil)
	h.ok(h.operator("hub", "folder", "add", s.work), nil)
	h.ok(h.as("", "check", "add", "test", "--repo", s.repo, "--as-operator", "--", "sh", "test.sh"), nil)
	h.ok(h.operator("land", "policy", "set", "--repo", s.repo, "--into", "main", "--check", "test", "--no-review", "--by", "auto"), nil)
	return s
}

// initiate returns the arguments with which planner hands the work to builder.
func (s *shore) initiate() map[string]any {
	return map[string]any{
		"action": "initiate", "to": "builder", "task_id": "T-1", "title": "make a.txt say made", "summary": "it says old", "next_step": "change the file",
		"success_criteria": []string{"a.txt says made"}, "worktree_path": s.work, "checks": []string{"test"},
	}
}

// landed waits until the work of h1 is in main, and checks that planner hears of it.
func (s *shore) landed(await func(what string, happened func() bool)) {
	s.t.Helper()
	var got struct {
		Status  hub.HandoffState `json:"status"`
		Landing string           `json:"landing"`
	}
	await("the landing", func() bool {
		r := s.operator("show", "h1", "--json")
		return r.code == 0 && json.Unmarshal([]byte(r.out), &got) == nil && strings.HasPrefix(got.Landing, "landed ")
	})
	if text, err := os.ReadFile(filepath.Join(s.repo, "a.txt")); err != nil || string(text) != "made\n" {
		s.t.Errorf("main has %q (%v)", text, err)
	}
	if out := s.as("planner", "inbox").out; !strings.Contains(out, "landed in main") {
		s.t.Errorf("planner does not hear of the landing: %s", out)
	}
}

// onHub returns a step that calls the handoff tool of the hub.
func onHub(args string) model.Step {
	return model.Step{Do: model.MCP, Server: "parley", Name: "acp_handoff", Args: json.RawMessage(args)}
}

// The steps with which a model does the task h1.
var (
	taken = []model.Step{
		{Do: model.MCP, Server: "parley", Name: "acp_inbox", Args: json.RawMessage(`{}`)}, onHub(`{"action":"accept","handoff_id":"h1"}`),
		{Do: model.Read, Path: "a.txt"}, {Do: model.Edit, Path: "a.txt", Old: "old", New: "made"}, // some CLIs change only a file that was read
	}
	ownCommit = model.Step{Do: model.Shell, Command: "git -c user.name=builder -c user.email=builder@example.org commit -q -a -m made"}
	unsaved   = onHub(`{"action":"complete","handoff_id":"h1","summary":"a.txt says made"}`)
	hubCommit = []model.Step{onHub(`{"action":"complete","handoff_id":"h1","summary":"a.txt says made","commit_message":"make a.txt"}`), {Do: model.Say, Text: "Done."}}

	// The check is red before the work and green after it: a model that reads the answer knows both.
	hubCheck = onHub(`{"action":"check","command":"test"}`)

	woken = regexp.MustCompile(`\[parley wake w_`)
)

// lands returns the script of a model that does the task that wakes it, with some steps after the work. The
// hub commits it.
func lands(after ...model.Step) *model.Script {
	s := model.Default()
	s.Rules = []model.Rule{{When: model.Condition{Prompt: woken}, Do: slices.Concat(taken, after, hubCommit)}}
	return s
}

// landsAsAnswered returns the script of a model that completes the task without a commit, after a commit of
// its own that its sandbox refuses, and does what the hub's answer says.
func landsAsAnswered() *model.Script {
	s := model.Default()
	s.Rules = []model.Rule{
		{When: model.Condition{Prompt: woken, Result: regexp.MustCompile(`or let the hub commit: (argument )?commit_message`)}, Do: hubCommit},
		{When: model.Condition{Prompt: woken}, Do: slices.Concat(taken, []model.Step{ownCommit, unsaved, {Do: model.Say, Text: "I cannot commit."}})},
	}
	return s
}

// landsAsRefused returns the script of a model whose shell is refused when it commits, and which does what the
// hub says about that.
func landsAsRefused() *model.Script {
	s := model.Default()
	told := regexp.MustCompile(`Your own shell is off, also for git\. The hub runs a check`)
	rest := slices.Concat([]model.Step{hubCheck}, hubCommit)
	s.Rules = []model.Rule{
		{When: model.Condition{Prompt: woken, Result: told}, Do: rest}, // words after a result are no prompt
		{When: model.Condition{Prompt: woken}, Do: slices.Concat(taken, []model.Step{ownCommit, {Do: model.Say, Text: "I cannot commit."}})},
		{When: model.Condition{Prompt: told}, Do: rest},
	}
	return s
}

// figures returns the turns, requests and tokens of an agent as a row of the table in
// docs/agents-running.md.
func (s *shore) figures(name string, exchanges []model.Exchange) string {
	requests := 0
	for _, x := range exchanges {
		if !x.Side {
			requests++
		}
	}
	var all struct {
		Total struct{ Turns, Input int }
	}
	s.ok(s.operator("spend", "--agent", "builder", "--coordination", "--json"), &all)
	return fmt.Sprintf("| %s | %d | %d | %d |", name, all.Total.Turns, requests, all.Total.Input)
}

// TestLanded has a person tell one agent to hand a task over, and the agents of each vendor end it with
// a commit in main, without a further word: in a second window, with the defaults of their makers, and
// kept by the hub, whose agents run no shell of their own.
func TestLanded(t *testing.T) {
	onlyReal(t)
	var rows []string
	only := strings.Fields(os.Getenv("PARLEY_REACH_CLIS"))
	isLeftOut := func(name string) bool { return len(only) > 0 && !slices.Contains(only, name) }
	for _, name := range []string{"claude", "codex"} {
		if isLeftOut(name) {
			continue
		}
		t.Run("window of "+name, func(t *testing.T) { rows = append(rows, testLandedInWindow(t, name, lands())) })
	}
	for _, c := range keptPeers {
		if isLeftOut(c.cli) {
			continue
		}
		t.Run("kept "+c.cli, func(t *testing.T) { rows = append(rows, testLandedKept(t, c.cli, c.known, lands(hubCheck))) })
	}
	if os.Getenv("PARLEY_REACH") != "" && !t.Failed() && len(rows) > 0 {
		fillTable(t, "agents-running.md", "landed", "| agent | turns | model requests | tokens of Parley's texts |\n|---|---:|---:|---:|\n", rows)
	}
}

// TestLandedAfterRefusal has agents commit by themselves, which their sandbox or the hub refuses. What they
// read then is enough to end the task with a commit in main.
func TestLandedAfterRefusal(t *testing.T) {
	onlyReal(t)
	t.Run("window of codex", func(t *testing.T) { testLandedInWindow(t, "codex", landsAsAnswered()) })
	for _, c := range keptPeers {
		t.Run("kept "+c.cli, func(t *testing.T) { testLandedKept(t, c.cli, c.known, landsAsRefused()) })
	}
}

// TestLandedByItself has a person ask an agent for a change; the agent commits it and lands it by itself.
func TestLandedByItself(t *testing.T) {
	onlyReal(t)
	for _, name := range []string{"claude", "codex"} {
		t.Run("window of "+name, func(t *testing.T) {
			c := realCLIs[slices.IndexFunc(realCLIs, func(c realCLI) bool { return c.name == name })]
			d, start := c.prepare(t, quickWakes)
			s := newShore(d.house, d.dir)
			args, err := json.Marshal(map[string]string{"action": "land", "branch": "work", "worktree_path": d.dir})
			if err != nil {
				t.Fatal(err)
			}
			script := model.Default()
			script.Rules = []model.Rule{{
				When: model.Condition{Prompt: regexp.MustCompile("make a.txt and land it")},
				Do:   slices.Concat(taken[2:], []model.Step{ownCommit, onHub(string(args)), {Do: model.Say, Text: "Queued."}}),
			}}
			d.model.Config.Handler = model.New(script)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			how := c.args
			if name == "claude" {
				how = append(slices.Clone(how), "--permission-mode", "acceptEdits")
			}
			d.show(append(append(start, self, name, "--as", d.agent, "--wake", "--"), how...))
			d.await("an armed session", d.idle)
			d.types("make a.txt and land it")
			d.await("the landing", func() bool {
				text, _ := os.ReadFile(filepath.Join(s.repo, "a.txt"))
				return string(text) == "made\n"
			})
			if out := s.as(d.agent, "inbox").out; !strings.Contains(out, "landed in main") {
				t.Errorf("the agent does not hear of its landing: %s", out)
			}
		})
	}
}

func testLandedInWindow(t *testing.T, name string, script *model.Script) string {
	c := realCLIs[slices.IndexFunc(realCLIs, func(c realCLI) bool { return c.name == name })]
	c.args = map[string][]string{"claude": {"--permission-mode", "acceptEdits"}}[name] // codex with its own defaults
	second, start := c.prepare(t, quickWakes)
	s := newShore(second.house, second.dir)
	second.model.Config.Handler = model.New(script)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	second.show(append(append(start, self, c.name, "--as", second.agent, "--wake", "--"), c.args...))

	claude := realCLIs[slices.IndexFunc(realCLIs, func(c realCLI) bool { return c.name == "claude" })]
	first := &desk{house: second.house, cli: claude, agent: "planner", dir: s.repo}
	args, err := json.Marshal(s.initiate())
	if err != nil {
		t.Fatal(err)
	}
	asks := model.Default()
	asks.Rules = []model.Rule{{
		When: model.Condition{Prompt: regexp.MustCompile("hand this to builder")},
		Do:   []model.Step{{Do: model.MCP, Server: "parley", Name: "acp_handoff", Args: args}, {Do: model.Say, Text: "Handed over."}},
	}}
	start = first.furnish(asks)
	first.show(append(append(start, self, "claude", "--as", first.agent, "--wake", "--"), claude.args...))
	first.types("hand this to builder")
	asked := time.Now()
	first.await("the handover", func() bool {
		if s.operator("show", "h1").code == 0 {
			return true
		}
		isEarly := strings.Contains(first.screen(), "offers no MCP tool") // a busy machine connects its tools late
		if isEarly && time.Since(asked) > 10*time.Second {
			first.types("now hand this to builder")
			asked = time.Now()
		}
		return false
	})
	s.landed(second.await)
	second.await("the end of the turn", second.idle)
	known, err := cli.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	row := s.figures(known.Title+", in a window", second.exchanges())
	t.Log(row)
	return row
}

func testLandedKept(t *testing.T, name, known string, script *model.Script) string {
	d := &den{cli: name, dir: t.TempDir()}
	d.script = model.New(script)
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	bin := installPeer(t, name, known, server.URL, nil)
	d.flags = []string{"--unsafe-limits", "--config", write(t, "config.yaml", "wakes:\n  gap: 1ms\n  per_hour: 1000\n  pair_per_hour: 1000\n")}
	d.house = newHouse(t, d.flags...)
	s := newShore(d.house, d.dir)
	keep := parley(t, append(d.env(""), "PATH="+bin), "agent", "keep", "builder", "--cli", name, "--dir", d.dir, "--policy", "write", "--as-operator")
	d.ok(do(t, keep), nil)
	t.Cleanup(func() { d.operator("agent", "stop", "builder") }) // the hub may have ended
	defer func() {
		if t.Failed() {
			d.show()
		}
	}()
	d.ok(d.as("planner", "handoff", "new", "--to", "builder", "--task", "T-1", "--title", "make a.txt say made", "--summary", "it says old", "--next", "change the file",
		"--criterion", "a.txt says made", "--worktree", d.dir, "--check", "test"), nil)
	s.landed(d.await)
	d.await("an idle agent", func() bool { return d.status().State == "idle" })
	row := s.figures(known+", kept", d.script.Log())
	t.Log(row)
	return row
}
