package jsonrpc

import (
	"context"
	"sync"
)

// batch dispatches the messages of a batch. Their responses are sent together.
func (c *Conn) batch(ctx context.Context, raw []byte) {
	n := 0
	for range elements(raw) {
		n++
	}
	if n == 0 || n > MaxBatch {
		c.refuse(ctx, problemf(ProblemBatch, raw, "a batch must have 1 to %d messages, got %d", MaxBatch, n), message{}, nil)
		return
	}
	b := &batch{open: 1}
	for element := range elements(raw) {
		c.message(ctx, element, b)
	}
	c.finish(ctx, b)
}

// A batch collects the responses to messages that came together.
type batch struct {
	mu    sync.Mutex    // guards all fields
	open  int           // messages that are not finished, and one for the dispatch
	line  []byte        // the responses so far, each after a comma
	after []func(error) // functions to run when the line was sent
}

func (b *batch) add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
}

func (b *batch) append(r Response, after func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line = r.AppendTo(append(b.line, ','))
	if after != nil {
		b.after = append(b.after, after)
	}
}

// done counts one message as finished. After the last one it returns the line to
// send, nil if no message has a response.
func (b *batch) done() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open--; b.open > 0 || b.line == nil {
		return nil
	}
	b.line[0] = '['
	return append(b.line, "]\n"...)
}

// finish counts one message of a batch as finished, and sends the responses after
// the last.
func (c *Conn) finish(ctx context.Context, b *batch) {
	line := b.done()
	if line == nil {
		return
	}
	err := c.out.put(context.WithoutCancel(ctx), line)
	for _, after := range b.after { // complete: all messages are finished
		after(err)
	}
}
