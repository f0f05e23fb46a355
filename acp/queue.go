package acp

import "sync"

// Bounds of the updates that wait to be taken, in bytes of their messages. At the
// first the agent has to wait. It cannot while a call waits for an answer that
// comes behind them, because who takes the updates may be the one who calls; then
// the second holds, and beyond that the turn fails.
const (
	maxQueued = 4 << 20
	maxBehind = 64 << 20
	perUpdate = 256 // what an update takes beside its message
)

// A gate is what the queues of a connection have in common.
type gate struct {
	mu    sync.Mutex // guards calls and everything in the queues
	moved *sync.Cond // something in a queue, or calls, has changed
	calls int        // how many calls wait for an answer
}

func newGate() *gate {
	g := &gate{}
	g.moved = sync.NewCond(&g.mu)
	return g
}

// enter notes that a call waits for an answer, leave that it does no longer.
func (g *gate) enter() {
	g.mu.Lock()
	g.calls++
	g.mu.Unlock()
	g.moved.Broadcast()
}

func (g *gate) leave() {
	g.mu.Lock()
	g.calls--
	g.mu.Unlock()
}

// A queue holds the updates of a turn until they are taken.
type queue struct {
	gate    *gate
	items   []*Update
	size    int
	closed  bool // nothing more comes
	discard bool // nobody takes anything more
}

// put adds an update whose message has so many bytes. It waits for room, and
// reports false if there is none and waiting would be in vain.
func (q *queue) put(u *Update, size int) bool {
	g := q.gate
	size += perUpdate
	g.mu.Lock()
	defer g.mu.Unlock()
	for q.size > 0 && q.size+size > maxQueued && g.calls == 0 && !q.discard && !q.closed {
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
	if len(q.items) == 1 {
		g.moved.Broadcast()
	}
	return true
}

// take returns all updates that are there, and waits for some. It returns none
// when nothing more comes.
func (q *queue) take() []*Update {
	g := q.gate
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

// drain throws away what is there and what still comes.
func (q *queue) drain() {
	g := q.gate
	g.mu.Lock()
	q.items, q.size, q.discard = nil, 0, true
	g.mu.Unlock()
	g.moved.Broadcast()
}

// close says that nothing more comes. What is there can still be taken.
func (q *queue) close() {
	g := q.gate
	g.mu.Lock()
	q.closed = true
	g.mu.Unlock()
	g.moved.Broadcast()
}
