package hubtest

import (
	"sync/atomic"
	"time"
)

// A Clock is the clock of a hub that a test sets forward. Both may happen at once: parts of a hub
// read it in goroutines of their own.
type Clock struct{ ahead atomic.Int64 }

// Now is the time of the machine plus the time that a test let pass.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Pass sets the clock forward.
func (c *Clock) Pass(d time.Duration) { c.ahead.Add(int64(d)) }
