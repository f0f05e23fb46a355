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
	"github.com/parley-agents/parley/comply/rules"
	"github.com/parley-agents/parley/internal/goodagent"
	"github.com/parley-agents/parley/internal/proof"
)

// asGoodAgent makes the test binary the good agent, or the mutant with that id.
const asGoodAgent = "COMPLY_TEST_GOOD_AGENT"

func serveGoodAgent(id string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := goodagent.Serve(ctx, goodagent.Find(id), os.Environ(), os.Stdin, os.Stdout, os.Stderr); err != nil && ctx.Err() == nil {
		return 1
	}
	return 0
}

// goodAgent returns the good agent, or a mutant of it: a function of this
// process unless it has to be one of its own.
func goodAgent(m *goodagent.Mutant) comply.Agent {
	if m != nil && m.Process {
		return goodProcess(m.ID())
	}
	return proof.Agent(m)
}

// goodProcess returns the good agent, or a mutant of it, as a process.
func goodProcess(id string) comply.Agent {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return comply.Agent{Name: id, Command: self, Env: map[string]string{asGoodAgent: id, "GORACE": "atexit_sleep_ms=0"}}
}

// proofTests returns the suite, and tests that show all sides of an agent, for the
// checks that every conversation passes.
func proofTests(t *testing.T) (suite, smoke []*comply.Test) {
	t.Helper()
	suite, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	if smoke, err = comply.Load("testdata/smoke"); err != nil {
		t.Fatal(err)
	}
	return suite, smoke
}

func TestGoodAgent(t *testing.T) {
	suite, smoke := proofTests(t)
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("breaks no rule of version %d", version), func(t *testing.T) {
			t.Parallel()
			got := run(t, goodAgent(nil), slices.Concat(suite, smoke), &comply.Options{Protocol: version, Jobs: 8, TimeoutScale: slow})
			for _, r := range got.Tests {
				if r.Status != comply.Pass && r.Status != comply.NA || len(r.Findings) > 0 {
					t.Errorf("%s: %s (%s) %+v", r.ID, r.Status, r.Reason, r.Findings)
				}
			}
			for rule, tests := range proof.Found(got) {
				t.Errorf("%s in %v", rule, tests)
			}
		})
	}
}

// TestMutants runs each mutant against the tests of its rule, the checks of every
// conversation and the smoke tests. The rule must be found to be broken, and
// nothing that does not follow from it. The race detector sees one mutant of each
// group; all of them would keep it busy for minutes.
func TestMutants(t *testing.T) {
	suite, smoke := proofTests(t)
	group := ""
	for _, m := range goodagent.Mutants() {
		before := group
		if group, _, _ = strings.Cut(m.Rule, "-"); raceDetector && group == before {
			continue
		}
		t.Run(m.ID(), func(t *testing.T) {
			t.Parallel()
			got, err := proof.Try(t.Context(), m, goodAgent(m), slices.Concat(proof.About(suite, m.Rule), smoke), &comply.Options{Jobs: 4})
			if err != nil {
				t.Fatal(err)
			}
			if !got.Caught {
				t.Errorf("an agent that %s was not caught; found: %v", m.Does, got.Found)
			}
			for _, rule := range got.Unrelated {
				t.Errorf("an agent that %s was also found to break %s in %v", m.Does, rule, got.Found[rule])
			}
		})
	}
}

func TestMutantsNameRules(t *testing.T) {
	for _, m := range goodagent.Mutants() {
		for _, rule := range m.Broken() {
			if !slices.ContainsFunc(comply.Rules(), func(r comply.Rule) bool { return r.ID == rule }) {
				t.Errorf("%s: there is no rule %s", m.ID(), rule)
			}
		}
		if goodagent.Find(m.ID()) != m {
			t.Errorf("two mutants are called %s", m.ID())
		}
		if m.Does == "" {
			t.Errorf("%s does not say what it does", m.ID())
		}
	}
}

// TestLedgerRules holds the ledger to what it claims.
func TestLedgerRules(t *testing.T) {
	claimed := rules.LedgerIDs()
	for _, r := range comply.Rules() {
		if r.Class == rules.ByFrame && !slices.Contains(claimed, r.ID) && rules.Unbreakable(r.ID) == "" {
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
