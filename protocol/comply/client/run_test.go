package client_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/goodclient"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/comply/client"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// good returns the good client, or a mutant of it, that offers a version of the protocol.
func good(mutant string, version int) client.Client {
	own := os.Args[0]
	command := func(flags ...string) []string {
		return slices.Concat([]string{own, "goodclient", "-mutant", mutant, "-protocol", strconv.Itoa(version)}, flags, []string{"{agent}", "{prompt}"})
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
func run(t *testing.T, c client.Client, version int, scale float64) *render.Report {
	t.Helper()
	opts := &client.Options{Relay: []string{os.Args[0], "relay"}, TimeoutScale: scale, Protocol: version}
	opts.Progress = func(e client.Event) {
		t.Logf("%-7s %s %.1fs %s", e.Result.Status, e.Result.ID, e.Wall.Seconds(), e.Result.Reason)
	}
	if testing.Verbose() && os.Getenv("PARLEY_FRAMES") != "" {
		opts.Trace = func(test string, f rules.Frame) { t.Logf("%s %s %.300s", test, f.Direction, f.Text) }
	}
	report, err := client.Run(t.Context(), c, client.Applicable(client.Scenarios(), version), opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestGoodClient checks that the good client keeps every rule, and that every test of a version
// can be played with it.
func TestGoodClient(t *testing.T) {
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			report := run(t, good("", version), version, 1)
			for _, r := range report.Agents[0].Tests {
				if r.Status != render.Pass {
					t.Errorf("%s: got %s, want PASS: %s", r.ID, r.Status, r.Reason)
				}
			}
			for _, f := range report.Agents[0].Ledger {
				t.Errorf("%s: %s: expected %s; %s", f.Test, f.Rule, f.Expected, f.Actual)
			}
			if report.Failed() || report.Protocol != version {
				t.Errorf("the run of version %d failed: %v", report.Protocol, report.Failed())
			}
		})
	}
}

// A client that does not offer the version of the run is not judged.
func TestUnofferedVersion(t *testing.T) {
	opts := &client.Options{Relay: []string{os.Args[0], "relay"}, Protocol: 2}
	ids := []string{"client.turn", "client.permission.kinds"}
	report, err := client.Run(t.Context(), good("", 1), client.Select(client.Scenarios(), ids, nil), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Agents[0].Tests {
		if r.Status != render.NA || !strings.Contains(r.Reason, "offers version 1") {
			t.Errorf("%s: got %s: %s", r.ID, r.Status, r.Reason)
		}
	}
}

// versionOf returns the version in which the mutant of a rule is tested.
func versionOf(rule string) int {
	if rules.Find(rule).Unstable {
		return 2
	}
	return 1
}

// together is how many mutants run at the same time. Most of them wait, so that more than the
// processors is right.
const together = 12

// TestMutants checks that every mutant is found to break its rule, and that a MUST fails the
// run. The race detector sees one mutant of each group; make mutants runs all.
func TestMutants(t *testing.T) {
	mutants := goodclient.Mutants()
	if patience.Race {
		mutants = firstOfEachGroup(mutants)
	}
	reports := make([]*render.Report, len(mutants))
	errs := make([]error, len(mutants))
	var wg sync.WaitGroup
	slots := make(chan struct{}, together)
	for i, rule := range mutants {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			version := versionOf(rule)
			opts := &client.Options{Relay: []string{os.Args[0], "relay"}, TimeoutScale: patience.For(time.Second).Seconds() * 0.5, Protocol: version}
			scenarios := client.Applicable(client.Scenarios(), version)
			reports[i], errs[i] = client.Run(t.Context(), good(rule, version), client.Select(scenarios, nil, []string{rule}), opts)
		})
	}
	wg.Wait()

	for i, rule := range mutants {
		t.Run(rule, func(t *testing.T) {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			found := false
			for _, f := range reports[i].Index() {
				found = found || f.Rule == rule
				t.Logf("found %s: %s", f.Rule, f.Actual)
			}
			if !found {
				t.Errorf("the mutant was not found to break %s", rule)
			}
			if must := rules.Find(rule).Level == jsont.Must; must != reports[i].Failed() {
				t.Errorf("the run failed: %v, want %v", reports[i].Failed(), must)
			}
		})
	}
}

// firstOfEachGroup returns one rule of each group, such as CL-FS.
func firstOfEachGroup(rules []string) (out []string) {
	seen := map[string]bool{}
	for _, rule := range rules {
		group := rule[:strings.LastIndex(rule, "-")]
		if !seen[group] {
			out = append(out, rule)
		}
		seen[group] = true
	}
	return out
}

// TestWait checks the run with a person, who is the good client started again and again.
func TestWait(t *testing.T) {
	ids := []string{"client.turn", "client.initialize.version-3", "client.initialize.minimal", "client.permission.kinds", "client.update.known"}
	agent := make(chan []string, 1)
	done := make(chan struct{})
	var report *render.Report
	var err error
	go func() {
		defer close(done)
		opts := &client.Options{Relay: []string{os.Args[0], "relay"}}
		report, err = client.Wait(t.Context(), "window", client.Select(client.Scenarios(), ids, nil), opts, func(n client.Notice) {
			if n.Agent != nil {
				agent <- n.Agent
			}
		})
	}()

	command := slices.Concat([]string{"goodclient"}, <-agent, []string{"hello"})
	for range ids {
		exec.Command(os.Args[0], command...).Run() // a version that it does not speak is an error
	}
	<-done
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Agents[0].Tests {
		if r.Status != render.Pass {
			t.Errorf("%s: got %s, want PASS: %s", r.ID, r.Status, r.Reason)
		}
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
