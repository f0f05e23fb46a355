package server

import (
	"context"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A steadyClock is the clock of the machine, but never goes back, not even behind
// the newest time in the store. After the machine's clock was set back it goes on
// at its pace from the time before, until the machine has caught up. So limits
// within a span of time end when that span is over, and ids rise over restarts.
type steadyClock struct {
	// elapsed is monotonic where wall is not; both are functions so that tests can
	// set them.
	wall    func() time.Time     // the machine's clock
	elapsed func() time.Duration // since any beginning; setting the clock does not change it

	mu   sync.Mutex    // guards last and at
	last time.Time     // returned before
	at   time.Duration // elapsed then
}

// newSteadyClock returns a clock that begins at newest or later.
func newSteadyClock(newest time.Time) *steadyClock {
	began := time.Now()
	return &steadyClock{wall: time.Now, elapsed: func() time.Duration { return time.Since(began) }, last: newest}
}

// Now is a hub.Clock.
// Invariant: a value is never before one returned earlier. While the machine's
// clock is behind, time advances by elapsed, so durations stay right.
func (c *steadyClock) Now() time.Time {
	// Round strips the monotonic reading, with which comparisons would ignore that
	// the clock was set.
	now, elapsed := c.wall().Round(0), c.elapsed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.last) {
		now = c.last.Add(elapsed - c.at)
	}
	c.last, c.at = now, elapsed
	return now
}

// openClock makes the clock of the services from the newest entry of the journal.
func (s *Server) openClock(ctx context.Context) error {
	return s.store.View(ctx, func(r hub.Reader) error {
		entries, err := r.Journal(hub.JournalQuery{Newest: true, Limit: 1})
		newest := time.Time{}
		if len(entries) > 0 {
			newest = entries[0].At.Time
		}
		clock := newSteadyClock(newest)
		if s.opts.Clock != nil {
			clock.wall = s.opts.Clock
		}
		s.clock = clock.Now
		return err
	})
}
