package acp

import "sync"

// Limits of the updates that wait to be taken, in bytes of their messages.
//
// At maxQueued the goroutine that reads waits, and with it the agent. It must not
// wait while a call is in flight: the answer comes behind the updates, and the
// goroutine that makes the call may be the one that takes the updates. Then
// maxBehind is the limit, and the turn fails beyond it.
const (
	maxQueued = 4 << 20
	maxBehind = 64 << 20
	perUpdate = 256 // the memory of an update beside its message
)

// A backlog is the state that the queues of a connection share: one lock, one
// condition, and the number of calls in flight. They share it because a call of any
// session must free the reader that waits at the queue of any other.
type backlog struct {
	mu    sync.Mutex // guards calls and the fields of the queues
	moved *sync.Cond // signals a change of a queue or of calls
	calls int        // calls in flight
}

// newBacklog returns the state for a connection without calls.
func newBacklog() *backlog {
	g := &backlog{}
	g.moved = sync.NewCond(&g.mu)
	return g
}

// addCall counts a call in flight. It wakes a reader that waits for room.
func (g *backlog) addCall() {
	g.mu.Lock()
	g.calls++
	g.mu.Unlock()
	g.moved.Broadcast()
}

// removeCall wakes no one: a reader that waits for room waits on.
// The next put decides anew.
func (g *backlog) removeCall() {
	g.mu.Lock()
	g.calls--
	g.mu.Unlock()
}

// A queue holds the updates of a turn until they are taken.
type queue struct {
	backlog *backlog
	items   []*Update
	size    int
	closed  bool // no more updates come
	discard bool // the updates are waived
}

// mustWait reports whether an update that counts as size bytes has to wait until
// updates are taken. An update that is larger than the bound is taken when the
// queue is empty. The lock of the backlog is held.
func (q *queue) mustWait(size int) bool {
	full := q.size > 0 && q.size+size > maxQueued
	return full && q.backlog.calls == 0 && !q.discard && !q.closed
}

// put adds an update whose message has size bytes. It waits for room, and reports
// false if there is none and it must not wait.
// It is called by the one goroutine that reads from the agent.
//
// Invariants: size is the sum over items, each with perUpdate added. It grows beyond
// maxQueued only while calls are in flight, and beyond maxBehind never; an update
// that is larger than a bound is the exception, and is then alone in the queue.
func (q *queue) put(u *Update, size int) bool {
	g := q.backlog
	size += perUpdate
	g.mu.Lock()
	defer g.mu.Unlock()
	for q.mustWait(size) {
		g.moved.Wait()
	}
	switch {
	case q.discard || q.closed:
		return true
	case q.size > 0 && q.size+size > maxBehind:
		return false
	}
	q.items = append(q.items, u)
	q.size += size
	// take waits for an empty queue only, so later updates need no signal.
	if len(q.items) == 1 {
		g.moved.Broadcast()
	}
	return true
}

// take waits for updates and returns all that are queued, none after the last.
// It takes the whole queue at once, so a reader that is as fast as the agent pays
// for one lock per batch.
func (q *queue) take() []*Update {
	g := q.backlog
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		g.moved.Wait()
	}
	items := q.items
	q.items, q.size = nil, 0
	g.moved.Broadcast()
	return items
}

// drain discards the queued updates and all later ones.
func (q *queue) drain() {
	g := q.backlog
	g.mu.Lock()
	q.items = nil
	q.size = 0
	q.discard = true
	g.mu.Unlock()
	g.moved.Broadcast()
}

// close ends the queue. The queued updates can still be taken.
func (q *queue) close() {
	g := q.backlog
	g.mu.Lock()
	q.closed = true
	g.mu.Unlock()
	g.moved.Broadcast()
}
