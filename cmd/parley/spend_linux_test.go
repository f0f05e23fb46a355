package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// said are the counts that the scripted model says for each of its answers in TestSpendReal.
var said = model.Step{Do: model.Usage, Input: 1234, Cached: 301, Output: 567, Reasoning: 33}

// TestSpendReal compares what a scripted model said with the sums on the hub, for each CLI in a
// terminal. PARLEY_TURNS is the number of turns (3).
func TestSpendReal(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		t.Run(c.name, func(t *testing.T) {
			testSpendReal(t, c)
		})
	}
}

func testSpendReal(t *testing.T, c realCLI) {
	if c.name == "gemini" {
		c.args = append(slices.Clone(c.args), "--yolo")
	}
	d := c.atModel(t, model.Rule{
		When: model.Condition{Prompt: regexp.MustCompile(`count this`)},
		Do:   []model.Step{said, {Do: model.Shell, Command: "echo counted"}, {Do: model.Say, Text: "Counted."}},
	})
	turns := 3
	if v, err := strconv.Atoi(os.Getenv("PARLEY_TURNS")); err == nil {
		turns = v
	}
	for n := range turns {
		d.types(fmt.Sprintf("round %d: count this", n)) // a text that is not on the screen yet
		d.await("a turn", func() bool { return d.counted() >= 2*(n+1) && d.idle() })
	}

	// Requests that the CLI makes for itself, such as for a title, have other prompts.
	calls := int64(d.counted())
	want := hub.Tokens{Input: calls * 933, CachedRead: calls * 301, Output: calls * 567}
	near := func(got, want int64) bool { return 100*max(got-want, want-got) <= want }
	var got hub.Tokens
	defer func() {
		if t.Failed() {
			t.Logf("got %+v, want %+v", got, want)
		}
	}()
	d.await("the counts", func() bool {
		got = d.spend("").Total.Tokens
		return near(got.Output, want.Output) && near(got.CachedRead, want.CachedRead) && near(got.Input, want.Input)
	})
	if got := d.spend("").Total.Turns; got != int64(turns) {
		t.Errorf("%d turns, want %d", got, turns)
	}
}

// counted returns how many answers of the model said the counts of the test.
func (d *desk) counted() (n int) {
	for _, x := range d.exchanges() {
		if !x.Side && x.Status == 200 && strings.Contains(x.Prompt, "count this") {
			n++
		}
	}
	return n
}

// atModel opens a CLI in a terminal whose model has a rule.
func (c realCLI) atModel(t *testing.T, rule model.Rule) *desk {
	t.Helper()
	d, start := c.prepare(t, quickWakes)
	script := c.obedient(t)
	script.Rules = append([]model.Rule{rule}, script.Rules...)
	d.model.Config.Handler = model.New(script)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if c.asleep {
		d.connect(start)
		return d.show(append(append(start, c.name), c.args...))
	}
	return d.show(append(append(start, self, c.name, "--as", d.agent, "--wake", "--"), c.args...))
}

// toldEndings are the causes that a CLI in a terminal tells the hub of.
var toldEndings = map[string][]string{
	"claude": {"quota", "login", "context"}, "codex": {"quota", "login", "context"}, "opencode": {"login"}, "copilot": {"login", "context"}, "pi": {"quota", "login", "context"},
}

// TestEndingsReal has the model of each CLI in a terminal fail in the form of its vendor in the
// middle of a task. The uncommitted work is kept and the task waits for one command; for a CLI that
// tries again without a word, it waits when its window is closed.
func TestEndingsReal(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		for _, cause := range []string{"quota", "login", "context"} {
			t.Run(c.name+" "+cause, func(t *testing.T) {
				testEndingReal(t, c, cause)
			})
		}
	}
}

func testEndingReal(t *testing.T, c realCLI, cause string) {
	d := c.atModel(t, model.Rule{
		When: model.Condition{Prompt: regexp.MustCompile(`work on it`)},
		Do:   []model.Step{{Do: model.Error, How: cause}},
	})
	inGit(t, d.dir, "init", "-q")
	inGit(t, d.dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first")
	d.ok(d.operator("agent", "wake", d.agent, "--off"), nil) // its turns begin with the words that are typed
	d.ok(d.as("planner", "handoff", "new", "--to", d.agent, "--task", "T-1", "--title", "write a draft", "--objective", "a draft", "--summary", "begin", "--next", "write draft.txt", "--criterion", "it is whole", "--worktree", d.dir), nil)
	d.ok(d.as(d.agent, "handoff", "accept", "h1"), nil)
	if err := os.WriteFile(filepath.Join(d.dir, "draft.txt"), []byte("half of it\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.types("work on it")
	d.await("a request of the CLI", func() bool {
		return slices.ContainsFunc(d.exchanges(), func(x model.Exchange) bool { return strings.Contains(x.Prompt, "work on it") })
	})
	tellsOfErrors := slices.Contains(toldEndings[c.name], cause)
	if !tellsOfErrors { // it tries again, or no hook tells: a person closes the window
		window, err := strconv.Atoi(strings.TrimSpace(d.tmux("display-message", "-p", "-t", "w", "#{pane_pid}")))
		if err != nil {
			t.Fatal(err)
		}
		d.tmux("kill-server")
		if c.name == "gemini" && cause == "quota" { // it waits for its quota, also without a terminal
			syscall.Kill(-window, syscall.SIGKILL)
		}
	}
	d.await("a waiting task", func() bool { return len(d.continued()) == 1 })
	got := d.continued()[0]
	if got.State != hub.ContinuationWaiting || got.Rescue == nil {
		t.Fatalf("got %+v", got)
	}
	isClosed := !tellsOfErrors && got.Reason == hub.ContinueClosed // it may have told before its window was closed
	if got.Reason != reasonOf(cause) && !isClosed {
		t.Errorf("the reason is %s", got.Reason)
	}
	r := d.operator("continue", "h1", "--with", "tester")
	d.ok(r, nil)
	contains(t, r.out, "h2 is offered to tester", "uncommitted work is kept as s1: 1 file, +1 -0")
}
