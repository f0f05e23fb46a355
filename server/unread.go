package server

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// Small answers are left out: the system's buffers take them without waiting.
	largeAnswer = 64 << 10    // bytes at once from which on an answer counts
	maxUnread   = 32 << 20    // bytes that callers may leave unread together
	stalled     = time.Second // without a read after which an answer may be given up
)

// errUnread ends a handler whose answer was given up. The caller does not see it:
// its connection is closed.
var errUnread = errors.New("server: the answer was dropped because its caller does not read it")

// An unread bounds the memory of answers whose callers do not read them. Each large
// answer that is under way counts with all of its bytes. While they are more than most,
// the answer whose caller has not read for the longest time is given up, if that is a
// second or more: a caller that reads, however slowly, keeps its answer.
//
// Memory is bounded by most plus the answers that still move. The search for the
// oldest answer is linear, which is enough: only answers of largeAnswer bytes or
// more are in it, so there are at most a few hundred before the bound is reached.
type unread struct {
	most int64

	mu    sync.Mutex // guards the fields below and those of each pendingAnswer
	all   map[*pendingAnswer]bool
	bytes int64
	armed bool // relieve runs again
}

// A pendingAnswer is a part of an answer that is being written.
type pendingAnswer struct {
	size  int64
	moved time.Time // when its caller last read some of it
	given bool      // up
	cut   func()    // makes the write that waits fail
}

// bound returns a handler whose answers count.
func (u *unread) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&countedWriter{w, u}, r)
	})
}

// A countedWriter is the writer of one request whose large writes count.
type countedWriter struct {
	http.ResponseWriter
	unread *unread
}

// Unwrap returns the writer inside, for an http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends the buffered bytes.
func (w *countedWriter) Flush() { http.NewResponseController(w.ResponseWriter).Flush() }

// The answer is written in parts, and each part that leaves is a sign that the
// caller reads. remove runs in any case, also after a panic of the writer below.
func (w *countedWriter) Write(b []byte) (n int, err error) {
	if len(b) < largeAnswer {
		return w.ResponseWriter.Write(b)
	}
	p := w.unread.add(int64(len(b)), func() {
		http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Unix(1, 0)) // fails on a connection that is closed
	})
	defer w.unread.remove(p)
	for len(b) > 0 && err == nil {
		if !w.unread.move(p) {
			return n, errUnread
		}
		var m int
		m, err = w.ResponseWriter.Write(b[:min(len(b), writePart)])
		n, b = n+m, b[m:]
	}
	return n, err
}

// add counts an answer.
func (u *unread) add(size int64, cut func()) *pendingAnswer {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := &pendingAnswer{size: size, moved: time.Now(), cut: cut}
	if u.all == nil {
		u.all = map[*pendingAnswer]bool{}
	}
	u.all[p] = true
	u.bytes += size
	u.relieve()
	return p
}

// move notes that the caller has read, and reports whether the answer goes on.
func (u *unread) move(p *pendingAnswer) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	p.moved = time.Now()
	return !p.given
}

// remove forgets an answer that was written or given up.
func (u *unread) remove(p *pendingAnswer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, p)
	u.bytes -= p.size
}

// relieve gives up answers while there are too many bytes, those that stalled first, and
// looks again later if that was not enough. It is called with mu held.
// Giving an answer up moves the deadline of its write into the past, and the write
// that waits fails; its bytes count as free from then on.
func (u *unread) relieve() {
	excess := u.bytes - u.most
	for p := range u.all {
		if p.given {
			excess -= p.size // its memory is about to be free
		}
	}

	for excess > 0 {
		var oldest *pendingAnswer
		for p := range u.all {
			if !p.given && (oldest == nil || p.moved.Before(oldest.moved)) {
				oldest = p
			}
		}
		if oldest == nil || time.Since(oldest.moved) < stalled {
			break
		}
		oldest.given = true
		oldest.cut()
		excess -= oldest.size
	}

	// An answer that still moves may stall later.
	if excess > 0 && !u.armed {
		u.armed = true
		time.AfterFunc(stalled, func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.armed = false
			u.relieve()
		})
	}
}
