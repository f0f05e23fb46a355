package comply

import (
	"sync/atomic"
	"time"
)

// A clock adds up how long a test has waited: for the agent, and because a rule
// wants it to. What is left of the time is the runner's own.
type clock struct{ waited atomic.Int64 }

// wait says that something is waited for until the returned function is called.
func (c *clock) wait() (over func()) {
	began := time.Now()
	return func() { c.waited.Add(int64(time.Since(began))) }
}
