package comply_test

import (
	"context"
	"testing"

	"github.com/parley-agents/parley/comply"
	"github.com/parley-agents/parley/internal/goodagent"
)

// goodAgent returns the good agent, or a mutant of it, in this process.
func goodAgent(m *goodagent.Mutant) comply.Agent {
	name := "goodagent"
	if m != nil {
		name = m.ID()
	}
	return comply.Agent{Name: name, Serve: func(ctx context.Context, s *comply.Stdio) error {
		return goodagent.Serve(ctx, m, s.Env, s.In, s.Out)
	}}
}

// smoke returns tests that show all sides of an agent, so that the checks which
// every conversation passes have something to look at.
func smoke(t *testing.T) []*comply.Test {
	t.Helper()
	tests, err := comply.Load("testdata/smoke")
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func TestGoodAgent(t *testing.T) {
	tests, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	tests = append(tests, smoke(t)...)
	for _, version := range []int{1, 2} {
		got := run(t, goodAgent(nil), tests, &comply.Options{Protocol: version, Jobs: 8})
		for _, r := range got.Tests {
			if r.Status != comply.Pass && r.Status != comply.NA {
				t.Errorf("version %d: %s: %s (%s) %+v", version, r.ID, r.Status, r.Reason, r.Findings)
			}
		}
		for _, f := range got.Ledger {
			t.Errorf("version %d: %+v", version, f)
		}
	}
}
