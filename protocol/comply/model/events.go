package model

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// events writes server-sent events, and flushes each.
type events struct {
	w   http.ResponseWriter
	to  *http.ResponseController
	err error // of the first write that failed
}

// newEvents sends the header. From here on a failure can only be sent as an event.
func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return &events{w: w, to: http.NewResponseController(w)}
}

// raw sends text as it is. After a failed write it does nothing: the agent has gone, and
// the sender notices by err.
func (e *events) raw(text string) {
	if e.err != nil {
		return
	}
	if _, e.err = fmt.Fprint(e.w, text); e.err == nil {
		e.err = e.to.Flush()
	}
}

// data sends an event without a name.
func (e *events) data(v any) { e.raw("data: " + string(encoded(v)) + "\n\n") }

// event sends an event with a name.
func (e *events) event(name string, v any) {
	e.raw("event: " + name + "\ndata: " + string(encoded(v)) + "\n\n")
}

// pause waits, or returns the error of ctx if it ends before, because the agent has gone.
// Delays are the only use of time in this package.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
