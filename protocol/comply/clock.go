package comply

import (
	"sync/atomic"
	"time"
)

// rounded returns a span for people: the runner adds the measured times of an agent to the spans
// of a test, which leaves fractions that mean nothing.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Second / 10)
}

// A clock adds up how long a test has waited for the agent or for a delay. The rest of its
// duration is the time of the runner itself.
// The unit is a nanosecond. A test and its services share one clock.
type clock struct{ waited atomic.Int64 }

// wait starts a wait, which the returned function ends.
func (c *clock) wait() (over func()) {
	// Waits of several goroutines may overlap, and then count twice.
	began := time.Now()
	return func() { c.waited.Add(int64(time.Since(began))) }
}
