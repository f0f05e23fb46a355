package bench_test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the benchmarks in the root of the repository, where they build the program.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
