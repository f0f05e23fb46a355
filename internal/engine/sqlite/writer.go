package sqlite

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
)

// The writer is the one goroutine that changes the database. Update puts a
// function into its queue and waits. The writer takes every function that is
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
//   - A caller whose context ends while its function is queued is not served. A
//     function that was taken runs to its end, and its caller learns the truth.
//   - A batch is synced to disk if one of its functions asks for it.
//   - head, lag and topSeq of the transaction are those of the database after a
//     commit, and go back with it after a rollback (topSeq may stay too high).
//   - After an error that leaves the connection in doubt it is closed; the next
//     transaction opens another.
//
// While no function is queued the writer indexes words, a batch at a time; see
// wordindex.go. A function that arrives meanwhile waits for one such batch.
const (
	maxBatch = 256  // functions that share a transaction
	maxQueue = 1024 // functions that wait; a further caller waits until its context ends
)

// A job is one Update on its way through the writer.
type job struct {
	ctx   context.Context
	level hub.Durability
	fn    func(hub.Tx) error
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

// Update implements hub.Store.
func (s *Store) Update(ctx context.Context, d hub.Durability, fn func(tx hub.Tx) error) error {
	const op = "sqlite.Update"
	if !s.enter() {
		return closedError(op)
	}
	defer s.leave()
	j, _ := s.jobs.Get().(*job)
	if j == nil {
		j = &job{done: make(chan struct{}, 1)}
	}
	j.ctx, j.level, j.fn, j.err, j.replayed = ctx, d, fn, nil, false
	j.state.Store(jobQueued)
	select {
	case s.queue <- j:
	default:
		select {
		case s.queue <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		if j.state.CompareAndSwap(jobQueued, jobGivenUp) {
			return ctx.Err() // the writer passes over j
		}
		<-j.done // the function has run, and its outcome is the answer
	}
	err := j.err
	j.ctx, j.fn, j.err = nil, nil, nil
	s.jobs.Put(j)
	return err
}

// A writer owns the connection that changes the database.
type writer struct {
	s      *Store
	c      *conn // nil after a failure that it cannot be trusted after
	tx     tx
	strict bool   // commits are synced right now
	batch  []*job // taken and not answered yet
	quiet  *time.Timer

	// The newest journal entry and the lag after the newest commit.
	committed    head
	committedLag lag
}

// run serves the queue until it is closed.
func (w *writer) run() {
	finished := false
	defer func() {
		if finished {
			close(w.s.writerDone)
			return
		}
		// A function has ended this goroutine (runtime.Goexit, as a test
		// that fails does). The batch is discarded; another goroutine goes on.
		w.rollback()
		w.answer(hub.Errorf(hub.CodeInternal, "sqlite.Update", "a function ended the writer's goroutine"))
		go w.run()
	}()
	for j := w.next(); j != nil; j = w.next() {
		w.take(j)
		w.gather()
		w.serve()
		if w.tx.lag.count() >= maxLag { // while the callers just answered prepare their next change
			w.alone((*tx).indexBatch)
		}
	}
	finished = true
}

// next waits for a job; nil if the store is closed. Once no job came for a
// while it indexes words, a batch after the other, until a job comes or an
// error says that the database cannot be written now.
func (w *writer) next() *job {
	rest := w.s.patience
	for w.tx.lag.count() > 0 {
		select {
		case j := <-w.s.queue:
			return j
		default:
		}
		w.quiet.Reset(rest)
		select {
		case j := <-w.s.queue:
			return j
		case <-w.quiet.C:
		}
		if err := w.alone((*tx).indexBatch); err != nil {
			break
		}
		rest = 0
	}
	return <-w.s.queue
}

// alone runs fn in a transaction of its own.
func (w *writer) alone(fn func(*tx) error) error {
	j := &job{ctx: context.Background(), fn: func(hub.Tx) error { return fn(&w.tx) }}
	w.transact([]*job{j}, hub.SurvivesKill)
	return j.err
}

// gather takes every queued function. It yields the processor first to
// goroutines that are about to queue more, since a commit costs as much as
// several functions, and waits for none that is not ready to run.
func (w *writer) gather() {
	w.drain()
	for before := 0; before < len(w.batch) && len(w.batch) < maxBatch; w.drain() {
		before = len(w.batch)
		runtime.Gosched()
	}
}

// drain takes the functions that are queued now.
func (w *writer) drain() {
	for len(w.batch) < maxBatch {
		select {
		case j, ok := <-w.s.queue:
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
func (w *writer) take(j *job) {
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
func (w *writer) serve() {
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
func (w *writer) answer(err error) {
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

// transact runs jobs in one transaction and sets their errors. If one of
// several makes it unfit to be committed, transact changes nothing and returns
// errReplay.
func (w *writer) transact(jobs []*job, level hub.Durability) error {
	if err := w.begin(level); err != nil {
		err = w.s.failed(err)
		for _, j := range jobs {
			j.err = err
		}
		return nil
	}
	fail := func(err error) error {
		if hub.CodeOf(err) == hub.CodeDegraded {
			err = w.s.failed(err)
		}
		w.rollback()
		if len(jobs) > 1 {
			return errReplay
		}
		jobs[0].err = err
		return nil
	}
	wrote := false
	for _, j := range jobs {
		j.err = w.call(j)
		if err := w.verdict(j.err); err != nil {
			return fail(err)
		}
		wrote = wrote || w.tx.wrote
	}
	if !wrote {
		w.rollback()
		return nil
	}
	if err := w.c.exec(stmtCommit); err != nil {
		// A commit that fails fails for all.
		err = w.s.failed(engineError("sqlite.Update", err))
		w.rollback()
		for _, j := range jobs {
			if j.err == nil {
				j.err = err
			}
		}
		return nil
	}
	w.s.succeeded()
	w.committed, w.committedLag = w.tx.head, w.tx.lag
	w.s.lastRow.Store(w.tx.lag.last)
	w.s.indexedRow.Store(w.tx.lag.indexed)
	w.relax()
	return nil
}

// verdict returns an error if the transaction must not be committed after a
// function that returned err: the function wrote before it failed, one of its
// statements broke, or the engine ended the transaction by itself.
func (w *writer) verdict(err error) error {
	switch {
	case err != nil && (w.tx.wrote || w.tx.fault != nil):
		return err
	case w.tx.fault != nil:
		return w.tx.fault
	case w.c.db.GetAutocommit(): // some errors end the transaction on the spot
		if err != nil {
			return err
		}
		return hub.Errorf(hub.CodeDegraded, "sqlite.Update", "the engine undid the change")
	}
	return nil
}

// call runs one function. A panic becomes the error of its caller.
func (w *writer) call(j *job) (err error) {
	w.tx.wrote, w.tx.fault = false, nil
	defer func() {
		if v := recover(); v != nil {
			w.c.reset() // the panic may have left a statement under way
			err = hub.Errorf(hub.CodeInternal, "sqlite.Update", "panic: %v", v)
			w.s.log.Error("panic in a transaction", "op", "sqlite.Update", "err", err, "stack", string(debug.Stack()))
		}
	}()
	return j.fn(&w.tx)
}

// begin starts a transaction whose commit is as durable as level asks.
func (w *writer) begin(level hub.Durability) error {
	const op = "sqlite.Update"
	if w.tx.foreign != nil {
		return w.tx.foreign
	}
	if w.c == nil {
		if err := w.connect(); err != nil {
			return engineError(op, err)
		}
	}
	if level == hub.SurvivesPowerLoss && !w.s.full {
		if err := w.c.db.Exec(`PRAGMA synchronous = FULL`); err != nil {
			return engineError(op, err)
		}
		w.strict = true
	}
	if err := w.c.exec(stmtBegin); err != nil {
		w.relax()
		return engineError(op, err)
	}
	return nil
}

// connect opens the writer's connection.
func (w *writer) connect() error {
	c, err := openConn(w.s.path, w.s.busy, writerCache)
	if err != nil {
		return err
	}
	c.db.WALHook(w.s.walGrew)
	if w.s.full {
		if err := c.db.Exec(`PRAGMA synchronous = FULL`); err != nil {
			c.close()
			return err
		}
	}
	w.c = c
	w.tx.use(c)
	newest, err := hub.HeadOf(&w.tx)
	if err != nil {
		w.disconnect()
		return err
	}
	w.committed = head{newest.Seq, newest.Hash}
	w.tx.head = w.committed
	if w.tx.topSeq, err = c.number(`SELECT coalesce(max(seq), 0) FROM message_meta`); err == nil {
		w.tx.lag.last, err = c.number(`SELECT coalesce(max(rowid), 0) FROM messages`)
	}
	if err == nil {
		w.tx.lag.indexed, err = w.tx.Cursor(wordCursor)
	}
	if err != nil {
		w.disconnect()
		return err
	}
	w.committedLag = w.tx.lag
	w.s.lastRow.Store(w.tx.lag.last)
	w.s.indexedRow.Store(w.tx.lag.indexed)
	return nil
}

// disconnect closes the writer's connection; the next transaction opens
// another.
func (w *writer) disconnect() {
	if w.c == nil {
		return
	}
	w.c.reset()
	if err := w.c.close(); err != nil {
		w.s.log.Warn("closing the writer's connection", "err", err)
	}
	w.c, w.strict = nil, false
	w.tx.use(nil)
}

// rollback discards the transaction, unless the engine has done so itself.
func (w *writer) rollback() {
	w.tx.head, w.tx.lag = w.committed, w.committedLag
	if w.c == nil {
		return
	}
	if !w.c.db.GetAutocommit() {
		if err := w.c.exec(stmtRollback); err != nil {
			w.s.log.Error("rollback failed, connecting again", "err", err)
		}
		if !w.c.db.GetAutocommit() {
			w.disconnect()
			return
		}
	}
	w.relax()
}

// relax ends the syncing of commits that begin turned on.
func (w *writer) relax() {
	if !w.strict {
		return
	}
	if err := w.c.db.Exec(`PRAGMA synchronous = NORMAL`); err != nil {
		w.disconnect()
		return
	}
	w.strict = false
}
