// Package tail keeps the end of a stream of bytes.
package tail

import (
	"bytes"
	"sync"
)

// A Buffer is a writer that keeps the last bytes. It is safe for concurrent use.
type Buffer struct {
	limit int

	mu      sync.Mutex // guards the fields below
	data    []byte     // at most twice the limit, so that a write copies on average twice its bytes
	dropped bool       // more than limit bytes were written
}

// NewBuffer returns a Buffer that keeps limit bytes.
func NewBuffer(limit int) *Buffer { return &Buffer{limit: limit} }

// Write appends p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	b.dropped = b.dropped || len(b.data)+n > b.limit
	p = p[max(0, n-b.limit):]
	if len(b.data)+len(p) > 2*b.limit {
		keep := b.limit - len(p)
		b.data = append(b.data[:0], b.data[len(b.data)-keep:]...)
	}
	b.data = append(b.data, p...)
	return n, nil
}

// Bytes returns a copy of the last bytes, and whether bytes before them were dropped.
func (b *Buffer) Bytes() (last []byte, dropped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.data[max(0, len(b.data)-b.limit):]), b.dropped
}
