package client_test

import (
	"os"
	"slices"
	"testing"

	"github.com/parley-agents/parley/comply/client"
	"github.com/parley-agents/parley/comply/jsont"
	"github.com/parley-agents/parley/comply/render"
	"github.com/parley-agents/parley/comply/rules"
	"github.com/parley-agents/parley/internal/testing/goodclient"
)

// good returns the good client, or a mutant of it.
func good(mutant string) client.Client {
	own := os.Args[0]
	command := func(flags ...string) []string {
		return slices.Concat([]string{own, "goodclient", "-mutant", mutant}, flags, []string{"{agent}", "{prompt}"})
	}
	return client.Client{
		Name: "goodclient", Command: command(),
		When: map[client.Need][]string{
			client.NeedLoad:   command("-load", "{session}"),
			client.NeedMode:   command("-mode", "{mode}"),
			client.NeedOption: command("-option", "{option}", "-value", "{value}"),
			client.NeedLogin:  command("-login", "{method}"),
		},
	}
}

// run plays scenarios with a client.
func run(t *testing.T, c client.Client, scenarios []*client.Scenario, scale float64) *render.Report {
	t.Helper()
	opts := &client.Options{Relay: []string{os.Args[0], "relay"}, TimeoutScale: scale}
	opts.Progress = func(e client.Event) {
		t.Logf("%-7s %s %.1fs %s", e.Result.Status, e.Result.ID, e.Wall.Seconds(), e.Result.Reason)
	}
	if testing.Verbose() && os.Getenv("PARLEY_FRAMES") != "" {
		opts.Trace = func(test string, f rules.Frame) { t.Logf("%s %s %.300s", test, f.Direction, f.Text) }
	}
	report, err := client.Run(t.Context(), c, scenarios, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestGoodClient checks that the good client keeps every rule, and that every test can be
// played with it.
func TestGoodClient(t *testing.T) {
	report := run(t, good(""), client.Scenarios(), 1)
	for _, r := range report.Agents[0].Tests {
		if r.Status != render.Pass {
			t.Errorf("%s: got %s, want PASS: %s", r.ID, r.Status, r.Reason)
		}
	}
	for _, f := range report.Agents[0].Ledger {
		t.Errorf("%s: %s: expected %s; %s", f.Test, f.Rule, f.Expected, f.Actual)
	}
	if report.Failed() {
		t.Error("the run failed")
	}
}

// TestMutants checks that every mutant is found to break its rule, and that a MUST fails the
// run.
func TestMutants(t *testing.T) {
	for _, rule := range goodclient.Mutants() {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			report := run(t, good(rule), client.Select(client.Scenarios(), nil, []string{rule}), 0.4)
			found := false
			for _, f := range report.Index() {
				found = found || f.Rule == rule
				t.Logf("found %s: %s", f.Rule, f.Actual)
			}
			if !found {
				t.Errorf("the mutant was not found to break %s", rule)
			}
			if must := rules.Find(rule).Level == jsont.Must; must != report.Failed() {
				t.Errorf("the run failed: %v, want %v", report.Failed(), must)
			}
		})
	}
}

// TestEveryRuleHasATestAndAMutant checks the tables against each other.
func TestEveryRuleHasATestAndAMutant(t *testing.T) {
	tested := map[string]bool{}
	for _, s := range client.Scenarios() {
		for _, id := range s.Rules {
			tested[id] = true
			if !rules.Known(id) {
				t.Errorf("%s names %s, which is no rule", s.ID, id)
			}
		}
	}
	must := 0
	for _, r := range rules.ForClients() {
		if !tested[r.ID] && !client.InLedger(r.ID) && r.ID != "CL-SHUT-01" {
			t.Errorf("no test is about %s", r.ID)
		}
		if !slices.Contains(goodclient.Mutants(), r.ID) {
			t.Errorf("no mutant breaks %s", r.ID)
		}
		if x := rules.ExampleOf(r.ID); x.Good == "" || x.Bad == "" {
			t.Errorf("%s has no example", r.ID)
		}
		if r.Level == jsont.Must {
			must++
		}
	}
	if must < 40 {
		t.Errorf("there are %d rules with MUST, want at least 40", must)
	}
}
