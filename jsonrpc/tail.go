package jsonrpc

import (
	"bytes"
	"sync"
)

// A tail is a writer that keeps the last bytes.
type tail struct {
	limit int

	mu  sync.Mutex // guards buf
	buf []byte     // at most twice the limit
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	b = b[max(0, len(b)-t.limit):]
	if over := len(t.buf) + len(b) - 2*t.limit; over > 0 {
		keep := t.limit - len(b)
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-keep:]...)
	}
	t.buf = append(t.buf, b...)
	return n, nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf[max(0, len(t.buf)-t.limit):])
}
