package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/parley-agents/parley/acp/acpv1"
)

// maxArrivals is how many prompts are remembered that have come and not begun.
const maxArrivals = 1024

// arrivals remember what order requests came in, whose handlers run at the same
// time: which initialize was the first, and which prompts have not begun, because
// a cancellation is handled at once and may be faster.
type arrivals struct {
	mu      sync.Mutex    // guards what follows
	first   string        // the id of the first initialize; "" if there was none
	greeted chan struct{} // closed when it was handled
	fresh   bool          // the last frame was that one
	ids     map[string]*arrival
}

type arrival struct {
	session   SessionID
	cancelled bool
}

// look is told every frame that comes in, in its order.
func (a *arrivals) look(raw []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fresh = false
	if !bytes.Contains(raw, []byte(`session/prompt"`)) && !bytes.Contains(raw, []byte(`"initialize"`)) {
		return
	}
	var frame struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			SessionID SessionID `json:"sessionId"`
		} `json:"params"`
	}
	if json.Unmarshal(raw, &frame) != nil {
		return // it will be refused
	}
	if frame.Method == acpv1.MethodInitialize && a.first == "" {
		a.first, a.greeted, a.fresh = string(frame.ID), make(chan struct{}), true
	}
	if frame.Method != acpv1.MethodSessionPrompt {
		return
	}
	if a.ids == nil || len(a.ids) >= maxArrivals { // those that never begin were refused
		a.ids = map[string]*arrival{}
	}
	a.ids[string(frame.ID)] = &arrival{session: frame.Params.SessionID}
}

// refused is told that the connection refuses a frame. Then nobody will handle it.
func (a *arrivals) refused() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fresh {
		a.first, a.fresh = "", false
	}
}

// greet waits for the first initialize, if one came before the request with that
// id. handled must be called when the request was handled.
func (a *arrivals) greet(ctx context.Context, id json.RawMessage) (handled func(), err error) {
	a.mu.Lock()
	first, greeted := a.first, a.greeted
	a.mu.Unlock()
	switch first {
	case "":
		return func() {}, nil
	case string(id):
		return func() { a.welcome(greeted) }, nil
	}
	select {
	case <-greeted:
		return func() {}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// welcome notes that the first initialize was handled.
func (a *arrivals) welcome(greeted chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-greeted: // the id was used again
	default:
		close(greeted)
	}
}

// cancel notes that what has come for a session is cancelled.
func (a *arrivals) cancel(id SessionID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.ids {
		if p.session == id {
			p.cancelled = true
		}
	}
}

// begin notes that the handler of a prompt has begun, and reports whether the
// prompt was cancelled before. begun is called first, so that a later cancellation
// finds what it has to cancel in one place or the other.
func (a *arrivals) begin(request json.RawMessage, begun func()) (cancelled bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	begun()
	p := a.ids[string(request)]
	delete(a.ids, string(request))
	return p != nil && p.cancelled
}
