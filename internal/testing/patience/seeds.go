package patience

import (
	"bufio"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// seedFile has the seeds with which random tests of a package have failed, one on a line: the
// name of the test and the seed. Lines that begin with # are comments.
const seedFile = "testdata/seeds.txt"

// Random runs a random test: with each of its seeds in testdata/seeds.txt, and then with fresh
// new ones; with the given seed alone unless it is 0. A failure names the seed. A line with it in
// that file belongs to the change that mends the failure.
func Random(t *testing.T, given uint64, fresh int, test func(random *rand.Rand)) {
	t.Helper()
	if given != 0 {
		withSeed(t, given, test)
		return
	}
	for _, seed := range knownSeeds(t) {
		withSeed(t, seed, test)
	}
	for range fresh {
		withSeed(t, rand.Uint64(), test)
	}
}

// withSeed runs a random test with one seed, and prints it if the test fails.
func withSeed(t *testing.T, seed uint64, test func(random *rand.Rand)) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the seed was %d; the next runs try it first with this line in %s:\n%s %d", seed, seedFile, t.Name(), seed)
		}
	}()
	test(rand.New(rand.NewPCG(seed, 0)))
}

// knownSeeds returns the seeds of a test in the file, none without a file.
func knownSeeds(t *testing.T) (out []uint64) {
	t.Helper()
	file, err := os.Open(seedFile)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] != t.Name() {
			continue
		}
		if len(fields) != 2 {
			t.Fatalf("%s: %q is not the name of a test and a seed", seedFile, lines.Text())
		}
		seed, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedFile, err)
		}
		out = append(out, seed)
	}
	return out
}
