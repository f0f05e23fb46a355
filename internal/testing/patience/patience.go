// Package patience is how long tests wait for something that has to happen. A test
// waits for an event; the time only bounds the wait, so that a test that would hang
// fails. On a slow machine PARLEY_TEST_WAIT, a number, stretches all waits at once.
// It also says how many of many cases a test tries, and with which random numbers.
//
// It has no tests of its own.
package patience

import (
	"os"
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

// For returns the bound of a wait that takes d at most on a busy machine.
func For(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
