package sandbox

import (
	"bytes"
	"sync"
	"unicode/utf8"
)

// A tail is a writer that keeps the last bytes. It is safe for concurrent use.
type tail struct {
	limit int

	mu      sync.Mutex // guards the fields below
	ring    []byte     // grows up to limit; then start is its oldest byte
	start   int
	dropped bool // whether bytes were lost
}

func newTail(limit int) *tail { return &tail{limit: limit} }

// Write keeps the end of p. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if over := len(p) - t.limit; over > 0 {
		p, t.dropped = p[over:], true
	}
	room := min(t.limit-len(t.ring), len(p))
	t.ring = append(t.ring, p[:room]...)
	for p = p[room:]; len(p) > 0; t.dropped = true {
		copied := copy(t.ring[t.start:], p)
		t.start = (t.start + copied) % t.limit
		p = p[copied:]
	}
	return n, nil
}

// Text returns the kept bytes as valid UTF-8, at most limit bytes, and whether bytes
// before them were dropped. It begins with a whole character. Unless the output is
// complete, the part of a character at the end is left out until its rest comes.
func (t *tail) Text(complete bool) (text string, truncated bool) {
	t.mu.Lock()
	b := make([]byte, 0, len(t.ring))
	b = append(append(b, t.ring[t.start:]...), t.ring[:t.start]...)
	truncated = t.dropped
	t.mu.Unlock()

	if truncated {
		b = b[partBefore(b):]
	}
	if !complete {
		b = b[:len(b)-partAfter(b)]
	}
	b = bytes.ToValidUTF8(b, []byte(string(utf8.RuneError)))
	if over := len(b) - t.limit; over > 0 { // an invalid byte became three
		b, truncated = b[over:], true
		b = b[partBefore(b):]
	}
	return string(b), truncated
}

// partBefore returns the number of bytes at the start of b that belong to a character
// before it.
func partBefore(b []byte) int {
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}

// partAfter returns the number of bytes at the end of b that begin a character which
// is not complete.
func partAfter(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
