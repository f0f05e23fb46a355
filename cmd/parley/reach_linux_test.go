package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// TestReach measures the time from send to the model request that the mail causes,
// and probes each CLI. It writes the tables of docs/agents-running.md and of
// docs/spikes/session-injection.md. make reach runs it; PARLEY_REACH is the number of
// mails for each CLI and PARLEY_REACH_CLIS names some of them.
func TestReach(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv("PARLEY_REACH"))
	if err != nil || times < 1 {
		t.Skip("make reach runs it")
	}
	only := strings.Fields(os.Getenv("PARLEY_REACH_CLIS"))
	var rows, reports []string
	for _, c := range realCLIs {
		if c.asleep || len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			d := c.open(t, "wakes:\n  gap: 1ms\n  per_hour: 1000\n  pair_per_hour: 1000\n")
			known, err := cli.Lookup(c.name)
			if err != nil {
				t.Fatal(err)
			}
			var took []time.Duration
			for i := range times {
				d.await("an idle session", d.idle)
				d.ok(d.as(d.agent, "inbox"), nil) // mail that is read counts as a useful turn
				before := len(d.wakes())
				began := time.Now()
				d.mail(fmt.Sprintf("measured %d", i))
				d.await("the model request", func() bool { return len(d.wakes()) > before })
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			row := fmt.Sprintf("| %s | %s | %.1f s | %d |", known.Title, known.Mechanism, took[len(took)/2].Seconds(), times)
			t.Log(row)
			rows = append(rows, row)
			var probe wake.ProbeReport
			d.await("an idle session", d.idle)
			d.ok(d.operator("agent", "test", d.agent, "--json"), &probe)
			reports = append(reports, fmt.Sprintf("| %s | %s %s | %s | %s | %s | %.1f s |", probe.At.Format("2006-01-02 15:04Z"), known.Title, c.version(t), probe.Channel, probe.Mechanism, probe.State, probe.Seconds))
		})
	}
	if t.Failed() || len(rows) == 0 {
		return
	}
	fillTable(t, "agents-running.md", "reach", "| CLI | mechanism | median | runs |\n|---|---|---|---|\n", rows)
	fillTable(t, "spikes/session-injection.md", "reports", "| probed | CLI | channel | mechanism | state | after |\n|---|---|---|---|---|---|\n", reports)
}

// TestReachKept measures the time from send to the model request that the mail causes
// in agents that the hub keeps, warm and sleeping, and writes the table of
// docs/agents-kept.md. make reach runs it, as TestReach.
func TestReachKept(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv("PARLEY_REACH"))
	if err != nil || times < 1 {
		t.Skip("make reach runs it")
	}
	only := strings.Fields(os.Getenv("PARLEY_REACH_CLIS"))
	var rows []string
	for _, c := range keptPeers {
		if len(only) > 0 && !slices.Contains(only, c.cli) {
			continue
		}
		t.Run(c.cli, func(t *testing.T) {
			d := keepPeer(t, c.cli, c.known)
			measure := func(prepare func()) (took []time.Duration) {
				for i := range times {
					prepare()
					before, began := len(d.turns()), time.Now()
					id := d.mail(fmt.Sprintf("measured %d", i))
					d.await("the model request", func() bool { return len(d.turns()) > before })
					took = append(took, time.Since(began))
					d.finished(before, 1, id)
				}
				slices.Sort(took)
				return took
			}
			asleep := measure(func() { d.ok(d.operator("agent", "restart", "builder"), nil) })
			warm := measure(func() {})
			row := fmt.Sprintf("| %s | %.1f s | %.1f s | %d |", c.known, warm[times/2].Seconds(), asleep[times/2].Seconds(), times)
			t.Log(row)
			rows = append(rows, row)
		})
	}
	if !t.Failed() && len(rows) > 0 {
		fillTable(t, "agents-kept.md", "reach", "| agent | warm | sleeping | runs of each |\n|---|---|---|---|\n", rows)
	}
}

// TestReachTokens measures the tokens that Parley itself costs in each CLI, and writes the table of
// docs/performance.md. make reach runs it, as TestReach.
func TestReachTokens(t *testing.T) {
	if os.Getenv("PARLEY_REACH") == "" {
		t.Skip("make reach runs it")
	}
	only := strings.Fields(os.Getenv("PARLEY_REACH_CLIS"))
	var rows []string
	for _, c := range realCLIs {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			row := coordinationRow(t, c)
			t.Log(row)
			rows = append(rows, row)
		})
	}
	if !t.Failed() && len(rows) > 0 {
		fillTable(t, "performance.md", "coordination", "| CLI | model calls | tool definitions | tool answers | notices | instructions | in all |\n|---|---:|---:|---:|---:|---:|---:|\n", rows)
	}
}

// coordinationRow has a person begin two turns of a CLI, and a message a third one, in which the model
// reads it. It returns the estimated tokens of the hub's texts.
func coordinationRow(t *testing.T, c realCLI) string {
	t.Helper()
	if c.name == "gemini" {
		c.args = append(slices.Clone(c.args), "--yolo")
	}
	d := c.atModel(t, model.Rule{
		When: model.Condition{Prompt: regexp.MustCompile(`count this`)},
		Do:   []model.Step{said, {Do: model.Shell, Command: "echo counted"}, {Do: model.Say, Text: "Counted."}},
	})
	for n := range 2 {
		d.types(fmt.Sprintf("round %d: count this", n))
		d.await("a turn", func() bool { return d.counted() >= 2*(n+1) && d.idle() })
	}
	d.mail("is the parser done?")
	if c.asleep { // the notice comes with the next prompt
		d.types("what now?")
	}
	d.await("the notice", d.told)
	d.await("the end of its turn", func() bool { return (d.unread() == 0 || c.asleep) && d.idle() })

	d.await("the usage of three turns", func() bool { return d.spend("").Total.Turns >= 3 })
	var all usage.Spend
	d.await("the texts of the third turn", func() bool { // in the order of usage.Parts
		all = d.spend("", "--coordination")
		answers, notices := all.Rows[1], all.Rows[2]
		return notices.Turns > 0 && (answers.Turns > 0 || c.asleep || c.name == "pi")
	})

	calls := 0
	for _, x := range d.exchanges() {
		if !x.Side && x.Status == http.StatusOK {
			calls++
		}
	}
	known, err := cli.Lookup(c.name)
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("| %s %s | %d |", known.Title, c.version(t), calls)
	for _, r := range all.Rows {
		row += fmt.Sprintf(" %d |", r.Input)
	}
	return row + fmt.Sprintf(" %d |", all.Total.Input)
}

// TestRequestsForAnswer counts the model requests with which each CLI in a terminal reads one message and
// answers it, and those that only search for tools. The last request ends the turn.
func TestRequestsForAnswer(t *testing.T) {
	onlyReal(t)
	searches := regexp.MustCompile(`(?i)call [a-z_]*search`)
	only := strings.Fields(os.Getenv("PARLEY_REACH_CLIS"))
	var rows []string
	for _, c := range realCLIs {
		isLeftOut := len(only) > 0 && !slices.Contains(only, c.name)
		if c.asleep || isLeftOut {
			continue // its model reads mail with a prompt of a person
		}
		t.Run(c.name, func(t *testing.T) {
			call := c.caller(t)
			d := c.atModel(t, model.Rule{When: model.Condition{Prompt: woken}, Do: []model.Step{
				call("acp_inbox", `{}`, "inbox"), call("acp_send", `{"to":["planner"],"text":"It is done."}`, "send planner done"), {Do: model.Say, Text: "Answered."},
			}})
			d.await("an armed session", d.idle)
			d.mail("is the parser done?")
			d.await("the answer", func() bool { return strings.Contains(d.as("planner", "inbox", "--peek").out, "done") && d.idle() })

			asked, searched := 0, 0
			for _, x := range d.exchanges() {
				if x.Side || !wakeID.Match(x.Body) {
					continue
				}
				asked++
				if searches.MatchString(x.Answer) {
					searched++
				}
			}
			if searched > 1 || asked-searched > 3 {
				t.Errorf("%d model requests, %d of them searches for tools; want one search at most, and three others\n%s", asked, searched, strings.Join(d.summary(), "\n"))
			}
			known, err := cli.Lookup(c.name)
			if err != nil {
				t.Fatal(err)
			}
			row := fmt.Sprintf("| %s %s | %d | %d |", known.Title, c.version(t), asked, searched)
			t.Log(row)
			rows = append(rows, row)
		})
	}
	if os.Getenv("PARLEY_REACH") != "" && !t.Failed() && len(rows) > 0 {
		fillTable(t, "performance.md", "answer", "| CLI | model requests | of these searches for tools |\n|---|---:|---:|\n", rows)
	}
}

// version returns the version of the CLI that is pinned.
func (c realCLI) version(t *testing.T) string {
	t.Helper()
	var pins struct{ Dependencies map[string]string }
	raw, err := os.ReadFile(filepath.Join("..", "..", "internal", "desk", "cli", "testdata", "clis", c.name, "package.json"))
	if err == nil {
		err = json.Unmarshal(raw, &pins)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range pins.Dependencies {
		return v
	}
	return ""
}

// fillTable replaces the table between the marks of a name in a page of the docs.
func fillTable(t *testing.T, name, mark, head string, rows []string) {
	t.Helper()
	page := filepath.Join("..", "..", "docs", filepath.FromSlash(name))
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	open, end := "<!-- "+mark+" -->\n", "<!-- /"+mark+" -->"
	start, rest, found := strings.Cut(string(raw), open)
	_, foot, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	if err := os.WriteFile(page, []byte(start+open+head+strings.Join(rows, "\n")+"\n"+end+foot), 0o644); err != nil {
		t.Fatal(err)
	}
}
