package comply_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/comply"
	"github.com/parley-agents/parley/internal/goodagent"
)

// asGoodAgent makes the test binary the good agent, or the mutant with that id.
const asGoodAgent = "COMPLY_TEST_GOOD_AGENT"

func serveGoodAgent(id string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := goodagent.Serve(ctx, goodagent.Find(id), os.Environ(), os.Stdin, os.Stdout); err != nil && ctx.Err() == nil {
		return 1
	}
	return 0
}

// goodAgent returns the good agent, or a mutant of it: a function of this
// process unless it has to be one of its own.
func goodAgent(m *goodagent.Mutant) comply.Agent {
	if m == nil {
		m = &goodagent.Mutant{Rule: "none"}
	}
	if m.Process {
		return goodProcess(m.ID())
	}
	return comply.Agent{Name: m.ID(), Serve: func(ctx context.Context, s *comply.Stdio) error {
		return goodagent.Serve(ctx, m, s.Env, s.In, s.Out)
	}}
}

// goodProcess returns the good agent, or a mutant of it, as a process.
func goodProcess(id string) comply.Agent {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return comply.Agent{Name: id, Command: self, Env: map[string]string{asGoodAgent: id, "GORACE": "atexit_sleep_ms=0"}}
}

// A proof is the tests of the suite and the smoke tests.
type proof struct {
	suite []*comply.Test
	smoke []*comply.Test // show all sides of an agent, for the checks that every conversation passes
}

func newProof(t *testing.T) *proof {
	t.Helper()
	suite, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	smoke, err := comply.Load("testdata/smoke")
	if err != nil {
		t.Fatal(err)
	}
	return &proof{suite, smoke}
}

// all returns all tests.
func (p *proof) all() []*comply.Test { return slices.Concat(p.suite, p.smoke) }

// about returns the tests of a rule and the smoke tests, for one version.
func (p *proof) about(rule string, version int) (out []*comply.Test) {
	for _, test := range p.all() {
		for_ := len(test.Protocols) == 0 || slices.Contains(test.Protocols, version)
		if for_ && (slices.Contains(test.Rules, rule) || slices.Contains(p.smoke, test)) {
			out = append(out, test)
		}
	}
	return out
}

// broken returns the rules that were found to be broken, by the tests that found
// it.
func broken(got comply.AgentReport) map[string][]string {
	out := map[string][]string{}
	for _, r := range got.Tests {
		for _, f := range r.Findings {
			out[f.Rule] = append(out[f.Rule], r.ID)
		}
	}
	for _, f := range got.Ledger {
		if f.Test == "_probe" {
			out[f.Rule] = append(out[f.Rule], f.Test)
		}
	}
	return out
}

func TestGoodAgent(t *testing.T) {
	p := newProof(t)
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("breaks no rule of version %d", version), func(t *testing.T) {
			t.Parallel()
			got := run(t, goodAgent(nil), p.all(), &comply.Options{Protocol: version, Jobs: 16})
			for _, r := range got.Tests {
				if r.Status != comply.Pass && r.Status != comply.NA || len(r.Findings) > 0 {
					t.Errorf("%s: %s (%s) %+v", r.ID, r.Status, r.Reason, r.Findings)
				}
			}
			for rule, tests := range broken(got) {
				t.Errorf("%s in %v", rule, tests)
			}
		})
	}
}

// TestMutants runs each mutant against the tests of its rule, the checks of every
// conversation and the smoke tests. The rule must be found to be broken, and
// nothing that does not follow from it.
func TestMutants(t *testing.T) {
	p := newProof(t)
	for _, m := range goodagent.Mutants() {
		t.Run(m.ID(), func(t *testing.T) {
			t.Parallel()
			version := 1
			if m.V2 {
				version = 2
			}
			got := broken(run(t, goodAgent(m), p.about(m.Rule, version), &comply.Options{Protocol: version, Jobs: 4}))
			if got[m.Rule] == nil {
				t.Errorf("an agent that %s was not caught; found: %v", m.Does, got)
			}
			for rule, tests := range got {
				if !slices.Contains(m.Broken(), rule) && !slices.ContainsFunc(tests, func(id string) bool { return id == rule }) {
					t.Errorf("an agent that %s was also found to break %s in %v", m.Does, rule, tests)
				}
			}
			for _, rule := range m.Broken() {
				if !slices.ContainsFunc(comply.Rules(), func(r comply.Rule) bool { return r.ID == rule }) {
					t.Errorf("there is no rule %s", rule)
				}
			}
		})
	}
}

// TestLedgerRules holds the ledger to what it claims.
func TestLedgerRules(t *testing.T) {
	claimed := comply.LedgerRules()
	for _, r := range comply.Rules() {
		if r.Class == comply.ByFrame && !slices.Contains(claimed, r.ID) && comply.Unheld(r.ID) == "" {
			t.Errorf("%s: no check is about it: %s", r.ID, r.Text)
		}
	}
	proven := map[string]bool{}
	for _, m := range goodagent.Mutants() {
		proven[m.Rule] = true
	}
	var unproven []string
	for _, id := range claimed {
		if !proven[id] {
			unproven = append(unproven, id)
		}
	}
	if len(unproven) > 0 {
		t.Errorf("no mutant proves that these can be found: %s", strings.Join(unproven, " "))
	}
}
