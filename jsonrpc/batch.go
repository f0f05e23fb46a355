package jsonrpc

import (
	"context"
	"sync"
)

// batch handles messages that came together. Their answers go out together.
func (c *Conn) batch(ctx context.Context, raw []byte) {
	n := 0
	for range elements(raw) {
		n++
	}
	if n == 0 || n > MaxBatch {
		c.refuse(ctx, problemf(ProblemBatch, raw, "a batch has at least 1 and at most %d messages, not %d", MaxBatch, n), message{}, nil)
		return
	}
	b := &batch{open: 1}
	for element := range elements(raw) {
		c.message(ctx, element, b)
	}
	c.finish(ctx, b)
}

// A batch gathers the answers to messages that came together.
type batch struct {
	mu   sync.Mutex // guards what follows
	open int        // how many messages are not done
	line []byte     // the answers so far
}

func (b *batch) add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
}

func (b *batch) append(r Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line = r.AppendTo(append(b.line, ','))
}

// done returns the line to send if all messages are done and one has an answer.
func (b *batch) done() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open--; b.open > 0 || b.line == nil {
		return nil
	}
	b.line[0] = '['
	return append(b.line, "]\n"...)
}

// finish counts one message of a batch as done, and sends the answers after the
// last.
func (c *Conn) finish(ctx context.Context, b *batch) {
	if line := b.done(); line != nil {
		c.out.put(context.WithoutCancel(ctx), line)
	}
}
