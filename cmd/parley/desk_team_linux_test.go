package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// TestToolsChange has an agent join a team while its CLI runs. The next turn offers the
// tools for teams to the model.
func TestToolsChange(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		if c.asleep || c.name == "pi" { // nothing wakes it; it has no MCP
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			d, start := c.prepare(t, quickWakes)
			d.model.Config.Handler = model.New(asksForTeams())
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			d.show(append(append(start, self, c.name, "--as", d.agent, "--wake", "--"), c.args...))
			d.await("an armed session", d.idle)
			turn := func(text string) {
				t.Helper()
				before := len(d.wakes())
				d.mail(text)
				d.await("a turn", func() bool { return len(d.wakes()) > before && d.idle() })
			}

			turn("before")
			once := c.name == "codex" || c.name == "qwen" // they list tools at their start alone, and get all
			if got := d.asked(); got != once {
				t.Fatalf("the model could call acp_team: %t, want %t", got, once)
			}
			d.ok(d.operator("team", "new", "auth", "--goal", "log in", "--members", "planner:coordinator,"+d.agent+":executor"), nil)
			turn("the mail about the team")
			turn("after")
			if !d.asked() {
				t.Errorf("the model was not offered acp_team in its next turn:\n%s", strings.Join(d.summary(), "\n"))
			}
		})
	}
}

// asksForTeams returns the script of a model that reads its inbox when it is woken and lists
// its teams, if it is offered the tool for that.
func asksForTeams() *model.Script {
	s := model.Default()
	s.Rules = []model.Rule{{
		When: model.Condition{Prompt: regexp.MustCompile(`\[parley wake w_`)},
		Do: []model.Step{
			{Do: model.MCP, Server: "parley", Name: "acp_inbox", Args: json.RawMessage("{}")},
			{Do: model.MCP, Server: "parley", Name: "acp_team", Args: json.RawMessage(`{"action":"list"}`)},
			{Do: model.Say, Text: "Looked."},
		},
	}}
	return s
}

// asked reports whether the model of asksForTeams made both calls in the last turn.
func (d *desk) asked() bool {
	wakes := d.wakes()
	last := wakes[len(wakes)-1]
	return slices.ContainsFunc(d.exchanges(), func(x model.Exchange) bool { return strings.Contains(x.Prompt, last) && x.Results == 2 })
}

// TestStorm has three agents in windows that answer every message to both others. The hub
// stops them.
func TestStorm(t *testing.T) {
	onlyReal(t)
	claude := realCLIs[slices.IndexFunc(realCLIs, func(c realCLI) bool { return c.name == "claude" })]
	claude.args = append(slices.Clone(claude.args), "--permission-mode", "default")
	names := []string{"builder", "tester", "writer"}
	d, start := claude.prepare(t, "wakes:\n  gap: 1s\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	desks := []*desk{d}
	d.model.Config.Handler = model.New(answersAll(self, names[1:]))
	d.show(append(append(start, self, "claude", "--as", names[0], "--wake", "--"), claude.args...))
	for i, name := range names[1:] {
		other := &desk{house: d.house, cli: claude, agent: name, dir: d.dir}
		start := other.furnish(answersAll(self, slices.Delete(slices.Clone(names), i+1, i+2)))
		other.show(append(append(start, self, "claude", "--as", name, "--wake", "--"), claude.args...))
		desks = append(desks, other)
	}
	for _, x := range desks {
		x.await("an armed session", x.idle)
	}

	d.sent(d.as("planner", "send", "--to", strings.Join(names, ","), "What do you think?", "--json"))
	d.await("the end of the storm", func() bool {
		told := strings.Contains(d.operator("inbox", "--peek").out, "is held: loop")
		return told && !slices.ContainsFunc(desks, func(x *desk) bool { return !x.idle() })
	})
	quiet()
	turns, asked := 0, 0
	for _, x := range desks {
		turns += len(x.wakes())
		asked += requests(x)
	}
	t.Logf("%d turns, %d model requests", turns, asked)
	if turns > 12 {
		t.Errorf("%d turns, want at most 12", turns)
	}
	if asked > 3*turns {
		t.Errorf("%d model requests in %d turns, want at most 3 in each: inbox, send, end", asked, turns)
	}
}

// answersAll returns the script of a model that answers mail with another message to others
// each time.
func answersAll(self string, others []string) *model.Script {
	answer := asParley + "=1 " + self + " send --to " + strings.Join(others, ",") + ` "I think so, too, at $(date +%s%N). What do you think?"`
	s := model.Default()
	s.Rules = []model.Rule{{
		When: model.Condition{Prompt: regexp.MustCompile(`\[parley wake w_`)},
		Do: []model.Step{
			{Do: model.MCP, Server: "parley", Name: "acp_inbox", Args: json.RawMessage("{}")},
			{Do: model.Shell, Command: answer},
			{Do: model.Say, Text: "Answered."},
		},
	}}
	return s
}
