package comply

import (
	"sync/atomic"
	"time"
)

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
