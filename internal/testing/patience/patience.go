// Package patience is how long tests wait for something that has to happen. A test
// waits for an event; the time only bounds the wait, so that a test that would hang
// fails. On a slow machine PARLEY_TEST_WAIT, a number, stretches all waits at once.
// It also says how many of many cases a test tries, and with which random numbers.
package patience

import (
	"hash/fnv"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

var factor = func() float64 {
	f, err := strconv.ParseFloat(os.Getenv("PARLEY_TEST_WAIT"), 64)
	if err != nil || f <= 0 {
		return 1
	}
	return f
}()

// NotUnderRace skips a long test under the race detector, which makes it ten times
// slower and finds little in it: its work is done by one goroutine at a time.
// scripts/test runs it without; PARLEY_RACE=all keeps it.
func NotUnderRace(t *testing.T) {
	t.Helper()
	if Race && os.Getenv("PARLEY_RACE") != "all" {
		t.Skip("it runs without the race detector")
	}
}

// Every returns n: a test that tries each of many places tries every n-th in make test. With
// PARLEY_THOROUGH=1, as in make test-real, it returns 1.
func Every(n int) int {
	if os.Getenv("PARLEY_THOROUGH") == "1" {
		return 1
	}
	return n
}

// Seed is a number made from PARLEY_SEED, which scripts/test sets to the id of the commit; 0 without it.
func Seed() uint64 {
	text := os.Getenv("PARLEY_SEED") // so that go test runs the cases of another seed again
	if text == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// Sampled reports whether a test with many cases runs a tenth of them.
func Sampled() bool { return os.Getenv("PARLEY_SEED") != "" }

var row = regexp.MustCompile(`^R\d-\d{3}\b`)

// Chosen reports whether a test runs the i-th of its many cases: all of them, and in make test, which sets
// PARLEY_SEED, one in ten, others for each commit. A case whose name begins with the number of a
// requirement is always run.
func Chosen(i int, name string) bool {
	return !Sampled() || row.MatchString(name) || (uint64(i)+Seed())%10 == 0
}

// Tenth returns n, and in make test a tenth of it, at least 1.
func Tenth(n int) int {
	if !Sampled() {
		return n
	}
	return max(n/10, 1)
}

// For returns the bound of a wait that takes d at most on a busy machine.
func For(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
