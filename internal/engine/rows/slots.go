package rows

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// ConnectionWait is the longest time that a call waits for a connection. It ends with
// CodeOverloaded then: nothing waits without an end.
const ConnectionWait = 10 * time.Second

// Readers returns the number of connections for reading: the one that was asked for, or
// the default. In a test binary the default is one, so that a transaction inside another
// fails in the first test that runs it, and not on the hub of a user under load.
func Readers(asked, standard int) int {
	switch {
	case asked > 0:
		return asked
	case testing.Testing():
		return 1
	}
	return standard
}

// Slots admits the calls that read, as many at a time as there are connections. Calls in
// the background have half of them at most. It knows the calls that it admitted, so that
// the log of a call that got no connection names those that hold one.
type Slots struct {
	free       chan int      // indexes of holding
	background chan struct{} // holds one for each call in the background
	log        *slog.Logger

	mu      sync.Mutex // guards holding
	holding []trace    // the zero trace for a free slot
}

// NewSlots returns n free slots.
func NewSlots(n int, log *slog.Logger) *Slots {
	s := &Slots{free: make(chan int, n), background: make(chan struct{}, max(1, n/2)), log: log, holding: make([]trace, n)}
	for i := range n {
		s.free <- i
	}
	return s
}

// Do calls fn when a slot is free. It returns the error of ctx if that ends first, and
// CodeOverloaded after ConnectionWait.
func (s *Slots) Do(ctx context.Context, op string, fn func() error) error {
	call := here()
	wait := new(patience)
	defer wait.stop()

	// A call in the background needs a place among the background calls first.
	if hub.Background(ctx) {
		select {
		case s.background <- struct{}{}:
		default:
			select {
			case s.background <- struct{}{}:
			case <-wait.over():
				return s.overloaded(op, call)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		defer func() { <-s.background }()
	}

	// A free slot is taken without a timer.
	var slot int
	select {
	case slot = <-s.free:
	default:
		select {
		case slot = <-s.free:
		case <-wait.over():
			return s.overloaded(op, call)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.hold(slot, call)
	defer func() {
		s.hold(slot, trace{})
		s.free <- slot
	}()
	return fn()
}

func (s *Slots) hold(slot int, call trace) {
	s.mu.Lock()
	s.holding[slot] = call
	s.mu.Unlock()
}

// overloaded logs a call that got no connection, with those that hold one.
func (s *Slots) overloaded(op string, call trace) error {
	s.mu.Lock()
	var held []string
	for _, h := range s.holding {
		if !h.since.IsZero() {
			held = append(held, h.String())
		}
	}
	s.mu.Unlock()
	return overloaded(s.log, op, call, held)
}

// overloaded returns the error of a call that waited for ConnectionWait, and logs it with
// the calls that held the connections at that time.
func overloaded(log *slog.Logger, op string, call trace, held []string) error {
	log.Error("a call got no connection to the store in time", "op", op, "code", hub.CodeOverloaded, "waiting", call.String(), "holding", held)
	return hub.Errorf(hub.CodeOverloaded, op, "the store served other calls for %v", ConnectionWait).
		WithHint("try again; if it happens often, see the hub's log for slow calls").WithRetry(time.Second)
}

// A patience ends after ConnectionWait. It costs a timer only if it is asked.
type patience struct{ timer *time.Timer }

// over returns a channel that receives when the patience ends.
func (p *patience) over() <-chan time.Time {
	if p.timer == nil {
		p.timer = time.NewTimer(ConnectionWait)
	}
	return p.timer.C
}

func (p *patience) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// A trace is the place in the program from which the store was called.
type trace struct {
	since time.Time
	pcs   [12]uintptr
}

// here returns the trace of the caller of a method of the store.
func here() trace {
	t := trace{since: time.Now()}
	runtime.Callers(3, t.pcs[:])
	return t
}

// String names the innermost functions outside of the store, and the age of the call.
func (t trace) String() string {
	var names []string
	frames := runtime.CallersFrames(t.pcs[:])
	for more := true; more && len(names) < 3; {
		var f runtime.Frame
		f, more = frames.Next()
		inStore := strings.Contains(f.Function, "/internal/engine/") || strings.Contains(f.Function, "/hub.")
		if f.Function != "" && !inStore {
			names = append(names, f.Function[strings.LastIndex(f.Function, "/")+1:])
		}
	}
	return strings.Join(names, " in ") + " for " + time.Since(t.since).Round(time.Millisecond).String()
}
