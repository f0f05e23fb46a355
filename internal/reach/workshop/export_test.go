package workshop

import (
	"io"

	"github.com/parley-agents/parley/internal/ground/process/confine"
)

// SetSupported replaces the question whether the system can confine, until the function that it
// returns is called.
func SetSupported(f func() error) (restore func()) {
	old := supported
	supported = f
	return func() { supported = old }
}

// Weaken makes the runs of a shop take a level, on a machine that had another one when it was probed.
func Weaken(s *Shop, best confine.Coverage, level confine.Level) {
	s.best = best
	s.level = level
}

// CountXML counts the tests in one file of JUnit.
func CountXML(r io.Reader) (Tests, error) { return countTests(r) }

// A Queue gives places to runs.
type Queue = queue

// NewQueue returns a queue with n places.
var NewQueue = newQueue

// Take, Give and Waiting are those of the queue.
var (
	Take    = (*queue).take
	Give    = (*queue).give
	Waiting = func(q *queue) (n int) {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, w := range q.waiting {
			n += len(w)
		}
		return n
	}
)
