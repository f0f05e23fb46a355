package rows

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
)

// The writer is the one goroutine of a process that changes the database. Update
// puts a function into its queue and waits. The writer takes every function that is
// queued, at most maxBatch, runs them one after the other in one transaction,
// commits once and answers all of them: group commit, whose cost per function
// falls as the load rises. It keeps these invariants:
//
//   - No caller is answered before the commit that holds its change.
//   - A function that returns an error, panics or breaks a statement changes
//     nothing. If it failed before it wrote, the batch goes on without it. If it
//     failed afterwards, the whole batch is rolled back and each function runs
//     again in a transaction of its own; so a function may run twice, and has no
//     effect but on its transaction.
//   - A caller whose context ends while its function is queued is not served, and
//     neither is one that waited for ConnectionWait. A function that was taken runs to
//     its end, and its caller learns the truth.
//   - A batch is as durable as the most demanding of its functions asks.
//
// While no function is queued the writer does the engine's idle work, a batch at a
// time. A function that arrives meanwhile waits for one such batch.
const (
	maxBatch = 256  // functions that share a transaction
	MaxQueue = 1024 // functions that wait; a further caller waits for its place
)

// An Engine makes the transactions of a Writer. Only the writer's goroutine calls it.
type Engine interface {
	// Tx returns the transaction as functions see it, and its part that rows knows.
	Tx() (hub.Tx, *Tx)
	// Begin starts a transaction whose commit is as durable as level asks.
	Begin(level hub.Durability) error
	// Commit makes the transaction permanent. It returns ErrAgain when nothing was
	// changed and the same functions can run again.
	Commit() error
	// Rollback discards the transaction, if there is one.
	Rollback()
	// Ended returns an error when the engine has ended the transaction by itself:
	// ErrAgain when the same functions can run again.
	Ended() error
	// Reset ends statements that a panic has left under way.
	Reset()
	// Failed notes that changes fail with err and returns the error for callers.
	// Succeeded notes a commit.
	Failed(err error) error
	Succeeded()
	// Idle does some work that waits for the absence of changes. More says whether
	// there is some; urgent says that it cannot wait for long.
	Idle() error
	More() (some, urgent bool)
}

// ErrAgain ends a transaction that was discarded for a reason that lies not in its
// functions.
var ErrAgain = errors.New("again")

// maxAttempts is how often a batch runs that the engine ends each time.
const maxAttempts = 5

// A job is one Update on its way through the writer.
type job struct {
	ctx   context.Context
	level hub.Durability
	fn    func(hub.Tx) error
	from  trace
	state atomic.Int32  // see jobQueued
	done  chan struct{} // receives when err is set
	err   error

	replayed bool // err is its own; only while a batch is replayed
}

// The states of a job. A job leaves jobQueued once: the writer takes it, or
// its caller gives it up.
const (
	jobQueued int32 = iota
	jobTaken
	jobGivenUp
)

// A Gate counts the calls that are under way, until it is closed.
type Gate struct {
	mu     sync.Mutex // guards closed, and calls.Add against it
	closed bool
	calls  sync.WaitGroup // under way
}

// Enter reports CodeDegraded once the gate is closed; else the call needs a Leave.
func (g *Gate) Enter(op string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return hub.Errorf(hub.CodeDegraded, op, "the store is closed")
	}
	g.calls.Add(1)
	return nil
}

// Leave ends a call.
func (g *Gate) Leave() { g.calls.Done() }

// Close lets no further call in, waits for those under way, and reports whether the
// gate was open.
func (g *Gate) Close() bool {
	g.mu.Lock()
	was := g.closed
	g.closed = true
	g.mu.Unlock()
	g.calls.Wait()
	return !was
}

// A Writer runs the Updates of a store.
type Writer struct {
	gate   *Gate
	engine Engine
	log    *slog.Logger
	rest   time.Duration // without changes, after which idle work is done

	queue chan *job
	jobs  sync.Pool // of *job
	done  chan struct{}

	batch []*job // taken and not answered yet
	quiet *time.Timer

	mu      sync.Mutex // guards running
	running trace      // the call whose function runs; zero between functions
}

// NewWriter returns a writer for calls that the gate lets in. Run makes it work. After
// rest without changes it does idle work.
func NewWriter(gate *Gate, engine Engine, rest time.Duration, log *slog.Logger) *Writer {
	return &Writer{gate: gate, engine: engine, log: log, rest: rest, queue: make(chan *job, MaxQueue), done: make(chan struct{}), quiet: time.NewTimer(rest)}
}

// Stop waits until the queue is served. The gate is closed before.
func (w *Writer) Stop() {
	close(w.queue)
	<-w.done
}

// Queued returns how many functions wait.
func (w *Writer) Queued() int { return len(w.queue) }

// Update implements hub.Store.
func (w *Writer) Update(ctx context.Context, d hub.Durability, fn func(tx hub.Tx) error) error {
	if err := w.gate.Enter("store.Update"); err != nil {
		return err
	}
	defer w.gate.Leave()
	j, _ := w.jobs.Get().(*job)
	if j == nil {
		j = &job{done: make(chan struct{}, 1)}
	}
	j.ctx = ctx
	j.level = d
	j.fn = fn
	j.from = here()
	j.err, j.replayed = nil, false
	j.state.Store(jobQueued)
	wait := new(patience)
	defer wait.stop()

	select {
	case w.queue <- j:
	default:
		select {
		case w.queue <- j:
		case <-wait.over():
			return w.overloaded(j.from)
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	// A job that its caller gives up in the queue is passed over by the writer, which
	// may still look at it: it does not go back to the pool.
	select {
	case <-j.done:
	case <-wait.over():
		if j.state.CompareAndSwap(jobQueued, jobGivenUp) {
			return w.overloaded(j.from)
		}
		<-j.done
	case <-ctx.Done():
		if j.state.CompareAndSwap(jobQueued, jobGivenUp) {
			return ctx.Err()
		}
		<-j.done // the function has run, and its outcome is the answer
	}
	err := j.err
	j.ctx = nil
	j.fn = nil
	j.err = nil
	w.jobs.Put(j)
	return err
}

// overloaded returns the error of a call that the writer did not take in time.
func (w *Writer) overloaded(call trace) error {
	w.mu.Lock()
	running := w.running
	w.mu.Unlock()

	held := []string{"no function: the database commits, or waits for a lock"}
	if !running.since.IsZero() {
		held[0] = running.String()
	}
	return overloaded(w.log, "store.Update", call, held)
}

// run notes the call whose function runs.
func (w *Writer) run(call trace) {
	w.mu.Lock()
	w.running = call
	w.mu.Unlock()
}

// Run serves the queue until Stop.
func (w *Writer) Run() {
	finished := false
	defer func() {
		if finished {
			close(w.done)
			return
		}
		// A function has ended this goroutine (runtime.Goexit, as a test
		// that fails does). The batch is discarded; another goroutine goes on.
		w.engine.Rollback()
		w.answer(hub.Errorf(hub.CodeInternal, "store.Update", "a function ended the writer's goroutine"))
		go w.Run()
	}()
	for j := w.next(); j != nil; j = w.next() {
		w.take(j)
		w.gather()
		w.serve()
		if _, urgent := w.engine.More(); urgent { // while the callers just answered prepare their next change
			w.idle()
		}
	}
	finished = true
}

// idle does idle work in a transaction of its own.
func (w *Writer) idle() error { return w.Alone(w.engine.Idle) }

// Alone runs fn in a transaction of its own. Only the writer's goroutine may call it,
// or the one that starts the writer, before Run.
func (w *Writer) Alone(fn func() error) error {
	j := &job{ctx: context.Background(), fn: func(hub.Tx) error { return fn() }}
	w.transact([]*job{j}, hub.SurvivesKill)
	return j.err
}

// next waits for a job; nil if the store is closed. Once no job came for a
// while it does idle work, until a job comes or an error says that the database
// cannot be written now.
func (w *Writer) next() *job {
	rest := w.rest
	for some, _ := w.engine.More(); some; some, _ = w.engine.More() {
		select {
		case j := <-w.queue:
			return j
		default:
		}
		w.quiet.Reset(rest)
		select {
		case j := <-w.queue:
			return j
		case <-w.quiet.C:
		}
		if err := w.idle(); err != nil {
			break
		}
		rest = 0
	}
	return <-w.queue
}

// gather takes every queued function. It yields the processor first to
// goroutines that are about to queue more, since a commit costs as much as
// several functions, and waits for none that is not ready to run.
func (w *Writer) gather() {
	w.drain()
	for before := 0; before < len(w.batch) && len(w.batch) < maxBatch; w.drain() {
		before = len(w.batch)
		runtime.Gosched()
	}
}

// drain takes the functions that are queued now.
func (w *Writer) drain() {
	for len(w.batch) < maxBatch {
		select {
		case j, ok := <-w.queue:
			if !ok {
				return
			}
			w.take(j)
		default:
			return
		}
	}
}

// take puts a job into the batch, unless its caller has given up.
func (w *Writer) take(j *job) {
	if !j.state.CompareAndSwap(jobQueued, jobTaken) {
		return
	}
	if err := j.ctx.Err(); err != nil {
		j.err = err
		j.done <- struct{}{}
		return
	}
	w.batch = append(w.batch, j)
}

// serve runs the batch and answers its callers.
func (w *Writer) serve() {
	if len(w.batch) == 0 {
		return
	}
	level := hub.SurvivesKill
	for _, j := range w.batch {
		level = max(level, j.level)
	}
	if err := w.transact(w.batch, level); err == errReplay {
		// A function failed after it had written. Each runs alone now.
		for i, j := range w.batch {
			if j.err = j.ctx.Err(); j.err == nil {
				w.transact(w.batch[i:i+1], j.level)
			}
			j.replayed = true
		}
	}
	w.answer(nil)
}

// answer wakes the callers of the batch. err, if not nil, is the answer to every
// function that was not replayed.
func (w *Writer) answer(err error) {
	for i, j := range w.batch {
		if err != nil && !j.replayed {
			j.err = err
		}
		w.batch[i] = nil
		j.done <- struct{}{}
	}
	w.batch = w.batch[:0]
}

// errReplay ends a batch that was rolled back because of one of its functions.
var errReplay = errors.New("replay")

// transact runs jobs in one transaction, again if the engine ends it, and sets their
// errors. If one of several makes it unfit to be committed, transact changes nothing
// and returns errReplay.
func (w *Writer) transact(jobs []*job, level hub.Durability) error {
	for attempt := 1; ; attempt++ {
		err := w.attempt(jobs, level)
		if err != ErrAgain || attempt == maxAttempts {
			if err == ErrAgain {
				err = w.engine.Failed(hub.Errorf(hub.CodeDegraded, "store.Update", "the connection to the database was lost repeatedly"))
				for _, j := range jobs {
					j.err = err
				}
				return nil
			}
			return err
		}
	}
}

// attempt is one attempt of transact.
func (w *Writer) attempt(jobs []*job, level hub.Durability) error {
	if err := w.engine.Begin(level); err != nil {
		err = w.engine.Failed(err)
		for _, j := range jobs {
			j.err = err
		}
		return nil
	}

	fail := func(err error) error {
		if err != ErrAgain && hub.CodeOf(err) == hub.CodeDegraded {
			err = w.engine.Failed(err)
		}
		w.engine.Rollback()
		if err == ErrAgain {
			return err
		}
		if len(jobs) > 1 {
			return errReplay
		}
		jobs[0].err = err
		return nil
	}

	_, t := w.engine.Tx()
	t.begin()
	wrote := false
	for _, j := range jobs {
		j.err = w.call(j)
		if err := w.verdict(j.err); err != nil {
			return fail(err)
		}
		wrote = wrote || t.wrote
	}

	if !wrote {
		w.engine.Rollback()
		return nil
	}

	if err := w.engine.Commit(); err != nil {
		if err == ErrAgain {
			w.engine.Rollback()
			return err
		}
		switch hub.CodeOf(err) {
		case hub.CodeConflict, hub.CodeInvalid, hub.CodeNotFound: // a statement that ran later
			return fail(err)
		}
		// A commit that fails fails for all.
		err = w.engine.Failed(err)
		w.engine.Rollback()
		for _, j := range jobs {
			if j.err == nil {
				j.err = err
			}
		}
		return nil
	}

	w.engine.Succeeded()
	return nil
}

// verdict returns an error if the transaction must not be committed after a
// function that returned err: the function wrote before it failed, one of its
// statements broke, or the engine ended the transaction by itself.
func (w *Writer) verdict(err error) error {
	_, t := w.engine.Tx()
	ended := w.engine.Ended()
	switch {
	case ended == ErrAgain:
		return ended
	case err != nil && (t.wrote || t.fault != nil || ended != nil):
		return err
	case t.fault != nil:
		return t.fault
	}
	return ended
}

// call runs one function. A panic becomes the error of its caller.
func (w *Writer) call(j *job) (err error) {
	seen, t := w.engine.Tx()
	t.wrote, t.fault = false, nil
	clear(t.unsummed)
	w.run(j.from)
	defer func() {
		w.run(trace{})
		if v := recover(); v != nil {
			w.engine.Reset()
			err = hub.Errorf(hub.CodeInternal, "store.Update", "panic: %v", v)
			w.log.Error("panic in a transaction", "op", "store.Update", "err", err, "stack", string(debug.Stack()))
		}
	}()
	if err := j.fn(seen); err != nil {
		return err
	}
	return t.sumContracts()
}
