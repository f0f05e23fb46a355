package patience_test

import (
	"fmt"
	"testing"

	"github.com/parley-agents/parley/internal/testing/patience"
)

func TestChosen(t *testing.T) {
	const cases = 1000
	// chosen returns the cases that run with a seed.
	chosen := func(t *testing.T, seed, name string) (out []int) {
		t.Helper()
		t.Setenv("PARLEY_SEED", seed)
		for i := range cases {
			if patience.Chosen(i, name) {
				out = append(out, i)
			}
		}
		return out
	}
	t.Run("without a seed all cases run", func(t *testing.T) {
		if got := chosen(t, "", "a case"); len(got) != cases || patience.Sampled() || patience.Tenth(50) != 50 {
			t.Errorf("%d of %d cases run, Tenth(50) is %d", len(got), cases, patience.Tenth(50))
		}
	})
	t.Run("with a seed a tenth of the cases run, the same ones each time", func(t *testing.T) {
		first := chosen(t, "0123abcd", "a case")
		if len(first) != cases/10 || patience.Tenth(50) != 5 || patience.Tenth(3) != 1 {
			t.Errorf("%d of %d cases run, Tenth(50) is %d, Tenth(3) is %d", len(first), cases, patience.Tenth(50), patience.Tenth(3))
		}
		if again := chosen(t, "0123abcd", "a case"); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("the second time %v run, not %v", again, first)
		}
	})
	t.Run("other seeds choose other cases, and each case is chosen by one", func(t *testing.T) {
		all := map[int]bool{}
		for seed := range 200 {
			for _, i := range chosen(t, fmt.Sprint("commit ", seed), "a case") {
				all[i] = true
			}
		}
		if len(all) != cases {
			t.Errorf("200 seeds choose %d of %d cases", len(all), cases)
		}
	})
	t.Run("a case of a requirement always runs", func(t *testing.T) {
		for name, want := range map[string]int{"R1-083 hubs converge": cases, "R1-0834 is no number of a requirement": cases / 10, "see R1-083": cases / 10} {
			if got := len(chosen(t, "0123abcd", name)); got != want {
				t.Errorf("%s: %d cases run, want %d", name, got, want)
			}
		}
	})
}
