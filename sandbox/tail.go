package sandbox

import (
	"bytes"
	"sync"
	"unicode/utf8"
)

// A tail keeps the last bytes that were written to it. It is safe for
// concurrent use.
type tail struct {
	limit int

	mu      sync.Mutex // guards what follows
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

// Text returns what was kept, as valid UTF-8 of no more than the limit's
// bytes, and whether something is missing before it. It begins with a whole
// character. Unless more cannot come, a character that has only begun at the
// end is left out until the rest of it is there.
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
	if over := len(b) - t.limit; over > 0 { // a bad byte became three
		b, truncated = b[over:], true
		b = b[partBefore(b):]
	}
	return string(b), truncated
}

// partBefore returns how many bytes at the start of b end a character that
// began before it.
func partBefore(b []byte) int {
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}

// partAfter returns how many bytes at the end of b begin a character that
// goes on after it.
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
