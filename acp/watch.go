package acp

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// A watch tells when a frame goes out. Order matters here and there: a
// cancellation must not overtake its prompt, and the updates of a turn not the
// answer that accepts it.
type watch struct {
	waiting atomic.Int32 // how many are in wanted

	mu     sync.Mutex // guards wanted
	wanted map[*sight]bool
}

// A sight is a frame that somebody waits for.
type sight struct {
	part []byte        // what only this frame contains
	seen chan struct{} // closed when it goes out
}

// expect returns what is closed when a frame that contains part goes out. forget
// must be called in the end.
func (w *watch) expect(part []byte) (seen <-chan struct{}, forget func()) {
	s := &sight{part: part, seen: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted == nil {
		w.wanted = map[*sight]bool{}
	}
	w.wanted[s] = true
	w.waiting.Add(1)
	return s.seen, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.drop(s)
	}
}

// look is told every frame that goes out.
func (w *watch) look(raw []byte) {
	if w.waiting.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.wanted {
		if bytes.Contains(raw, s.part) {
			close(s.seen)
			w.drop(s)
		}
	}
}

// drop ends the wait for s. The caller holds mu.
func (w *watch) drop(s *sight) {
	if w.wanted[s] {
		delete(w.wanted, s)
		w.waiting.Add(-1)
	}
}
