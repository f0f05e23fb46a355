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

// maxBatch is how many functions share one transaction at most; maxQueue is
// how many wait for the writer. Who finds the queue full waits until his
// context ends.
const (
	maxBatch = 256
	maxQueue = 1024
)

// A job is one Update on its way through the writer.
type job struct {
	ctx   context.Context
	level hub.Durability
	fn    func(hub.Tx) error
	state atomic.Int32  // see jobQueued
	done  chan struct{} // receives when err is set
	err   error

	settled bool // err says what happened to it; only while it is replayed
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
	j.ctx, j.level, j.fn, j.err, j.settled = ctx, d, fn, nil, false
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
			return ctx.Err() // the writer drops j
		}
		<-j.done // what was done is the truth
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
		// that fails does). Its batch is undone; another goroutine goes on.
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

// gather takes what is queued, and lets those run first who are about to put
// more there: a commit costs as much as several changes. It does not wait for
// anybody else.
func (w *writer) gather() {
	w.drain()
	for before := 0; before < len(w.batch) && len(w.batch) < maxBatch; w.drain() {
		before = len(w.batch)
		runtime.Gosched()
	}
}

// drain takes what else is queued.
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

// take puts a job into the batch, unless its caller has gone.
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

// serve runs the batch and answers everyone in it.
func (w *writer) serve() {
	if len(w.batch) == 0 {
		return
	}
	level := hub.SurvivesKill
	for _, j := range w.batch {
		level = max(level, j.level)
	}
	if err := w.transact(w.batch, level); err == errReplay {
		// Somebody failed after he had written. Each for himself now.
		for i, j := range w.batch {
			if j.err = j.ctx.Err(); j.err == nil {
				w.transact(w.batch[i:i+1], j.level)
			}
			j.settled = true
		}
	}
	w.answer(nil)
}

// answer lets the callers of the batch go, with an error if there is one for
// all who are not settled.
func (w *writer) answer(err error) {
	for i, j := range w.batch {
		if err != nil && !j.settled {
			j.err = err
		}
		w.batch[i] = nil
		j.done <- struct{}{}
	}
	w.batch = w.batch[:0]
}

// errReplay says that a transaction of several was rolled back because of one.
var errReplay = errors.New("replay")

// transact runs jobs in one transaction and sets their errors. If one of
// several spoils it, nothing is changed and errReplay is returned.
func (w *writer) transact(jobs []*job, level hub.Durability) error {
	if err := w.begin(level); err != nil {
		w.s.faulty.Store(true)
		for _, j := range jobs {
			j.err = err
		}
		return nil
	}
	fail := func(err error) error {
		if hub.CodeOf(err) == hub.CodeDegraded {
			w.s.faulty.Store(true)
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
		err = engineError("sqlite.Update", err)
		w.s.faulty.Store(true)
		w.rollback()
		for _, j := range jobs {
			if j.err == nil {
				j.err = err
			}
		}
		return nil
	}
	w.s.faulty.Store(false)
	w.committed, w.committedLag = w.tx.head, w.tx.lag
	w.s.lastRow.Store(w.tx.lag.last)
	w.s.indexedRow.Store(w.tx.lag.indexed)
	w.relax()
	return nil
}

// verdict returns an error if the transaction cannot be committed after a
// function that returned err.
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

// call runs one function. A panic in it is an error of its caller.
func (w *writer) call(j *job) (err error) {
	w.tx.wrote, w.tx.fault = false, nil
	defer func() {
		if v := recover(); v != nil {
			w.c.reset() // the panic may have come from the midst of a statement
			err = hub.Errorf(hub.CodeInternal, "sqlite.Update", "panic: %v", v)
			w.s.log.Error("panic in a transaction", "op", "sqlite.Update", "err", err, "stack", string(debug.Stack()))
		}
	}()
	return j.fn(&w.tx)
}

// begin starts a transaction whose commit has the given durability.
func (w *writer) begin(level hub.Durability) error {
	const op = "sqlite.Update"
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
	seq, hash, err := w.tx.JournalHead()
	if err != nil {
		w.disconnect()
		return err
	}
	w.committed = head{seq, hash}
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

// rollback undoes the transaction, if the engine has not done so itself.
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

// relax takes back what begin set for a commit that is synced.
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
