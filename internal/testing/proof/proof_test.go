package proof_test

import (
	"testing"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/proof"
	"github.com/parley-agents/parley/protocol/comply"
)

func TestVerdict(t *testing.T) {
	found := map[string][]string{"PRM-01": {"a"}, "FS-07": {"a", "b"}, "FS-08": {"c"}}
	for _, c := range []struct {
		name  string
		v     proof.Verdict
		clean bool
		want  string
	}{
		{"nothing found is no proof", proof.Verdict{}, false, "NOT CAUGHT"},
		{"its rule and no other is", proof.Verdict{Found: found, Caught: true, Gate: true}, true, "caught"},
		{"others are named with their tests", proof.Verdict{Found: found, Caught: true, Gate: true, Unrelated: []string{"FS-07", "FS-08"}}, false, "caught, and also found: FS-07 (a b), FS-08 (c)"},
		{"a run that passes is no proof", proof.Verdict{Found: found, Caught: true}, false, "caught, but NOT BY THE EXIT CODE"},
		{"others without its own are no proof", proof.Verdict{Found: found, Unrelated: []string{"FS-07"}}, false, "NOT CAUGHT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.v.Clean() != c.clean || c.v.String() != c.want {
				t.Errorf("got %v, %q, want %v, %q", c.v.Clean(), c.v, c.clean, c.want)
			}
		})
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	suite, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	suite = proof.About(suite, "INIT-07")
	for _, c := range []struct {
		name, says, is string
		clean          bool
	}{
		{"a mutant is caught by the tests of its rule", "INIT-07", "INIT-07", true},
		{"the good agent is not", "INIT-07", "", false},
		{"what another mutant breaks is unrelated", "INIT-07", "INIT-21", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := proof.Try(t.Context(), goodagent.Find(c.says), proof.Agent(goodagent.Find(c.is)), suite, nil)
			if err != nil || got.Clean() != c.clean {
				t.Errorf("got %v (%v), want a clean verdict: %v", got, err, c.clean)
			}
		})
	}
}
