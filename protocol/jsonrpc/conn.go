package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"sync"
	"time"
)

// ErrClosed is the error of calls on a connection that either side closed. The
// cause, such as an *ExitError, is wrapped beside it.
var ErrClosed = errors.New("the connection is closed")

// closeGrace is how long Close waits for each thing that it waits for, and how
// long calls wait for responses after writing failed.
const closeGrace = 5 * time.Second

// A Conn is one side of a conversation in which both sides make requests. It is
// safe for concurrent use. The package comment has its promises.
type Conn struct {
	opts Options
	src  io.Reader
	dst  io.Writer
	in   *Reader
	out  *outbox

	stop      context.CancelCauseFunc // ends the contexts of all handlers
	inputDone chan struct{}           // closed when nothing more comes in
	handled   chan struct{}           // closed when, after that, all requests are answered
	outDone   chan struct{}           // closed when nothing more goes out
	tasks     chan func()             // requests for idle workers
	idle      chan struct{}           // holds one element per idle worker
	close     func() error            // closes once

	mu    sync.Mutex // held by update only
	state state
}

// A state is everything about a Conn that changes after Open. It is read and
// changed in update only.
type state struct {
	closed bool  // Close was called: incoming frames are dropped
	err    error // why calls fail; nil while calls can be made

	lastID    uint64
	calls     map[string]func(outcome) // calls that wait for their response, by id
	abandoned [256]string              // ids of the last abandoned calls, a ring
	abandons  int                      // how many calls were abandoned

	requests map[string]context.CancelCauseFunc // requests that are being handled, by idKey
	running  int                                // requests that are being handled or answered
	held     int                                // bytes of their frames
	nullIDs  int                                // how many requests had the id null

	inputEnded bool // nothing more comes in
	workers    int  // goroutines that handle requests
	allHandled bool // the channel handled is closed
}

// update runs f with the state of the connection. It is the only function that
// touches the state, so a condition over several of its fields is kept here and
// nowhere else: handled is closed as soon as the input has ended and no worker is
// left. f must not block.
func (c *Conn) update(f func(s *state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
	if s := &c.state; s.inputEnded && s.workers == 0 && !s.allHandled {
		s.allHandled = true
		close(c.handled)
	}
}

// Open returns a connection that reads from r and writes to w, one frame per line.
// It works until r ends or Close is called. Close closes w and r if they are an
// io.Closer. opts may be nil.
func Open(r io.Reader, w io.Writer, opts *Options) *Conn {
	c := &Conn{
		src: r, dst: w,
		inputDone: make(chan struct{}),
		handled:   make(chan struct{}),
		outDone:   make(chan struct{}),
		tasks:     make(chan func()),
		idle:      make(chan struct{}, maxIdle),
		state: state{
			calls:    make(map[string]func(outcome)),
			requests: make(map[string]context.CancelCauseFunc),
		},
	}

	if opts != nil {
		c.opts = *opts
	}
	if c.opts.MaxFrame <= 0 {
		c.opts.MaxFrame = DefaultMaxFrame
	}
	if c.opts.MaxRequests <= 0 {
		c.opts.MaxRequests = 1024
	}

	c.in = NewReader(r, c.opts.MaxFrame)
	var tap func(Frame)
	if c.opts.Tap != nil {
		tap = func(f Frame) { c.opts.Tap(Out, f) }
	}
	c.out = newOutbox(w, tap)
	c.close = sync.OnceValue(c.shut)

	// All other fields are set before the goroutines start.
	ctx, stop := context.WithCancelCause(context.Background())
	c.stop = stop
	go c.read(ctx)
	go c.write(ctx)
	return c
}

// write is the goroutine that writes.
func (c *Conn) write(ctx context.Context) {
	defer close(c.outDone)
	err := c.out.run()
	if err == nil {
		return
	}
	// Requests can no longer be answered. Calls, however, may have been answered
	// before the other side stopped reading.
	c.update(func(s *state) {
		for _, cancel := range s.requests {
			cancel(closedBy(err))
		}
	})
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-c.inputDone:
	case <-ctx.Done():
	case <-timer.C:
		c.failCalls(closedBy(err), true)
	}
}

// closedBy returns ErrClosed with its cause.
func closedBy(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: the other side ended it", ErrClosed)
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// Done is closed when nothing more comes in: the other side ended the stream,
// reading failed, or the connection was closed. All calls have failed by then, but
// requests may still be handled and answered; see Wait.
func (c *Conn) Done() <-chan struct{} { return c.inputDone }

// Err returns why calls fail, an ErrClosed. It is nil while calls can be made.
func (c *Conn) Err() (err error) {
	c.update(func(s *state) { err = s.err })
	return err
}

func (c *Conn) closed() (closed bool) {
	c.update(func(s *state) { closed = s.closed })
	return closed
}

// Wait returns when nothing more comes in, all requests were handled, and the
// responses are written. A program that serves one connection ends with it. The
// error says why reading or writing ended; it is nil if the other side ended the
// stream. After Wait nothing can be sent.
func (c *Conn) Wait() error {
	<-c.handled
	c.out.close()
	<-c.outDone
	if c.closed() {
		return ErrClosed
	}
	if err := c.in.err; !errors.Is(err, io.EOF) {
		return err
	}
	return c.out.failure()
}

// Close ends the connection. It ends the contexts of all handlers, fails all
// calls, writes the queued frames, closes the writer and then the reader, and waits
// for its goroutines and the handlers, at most 5 seconds for each step. If a step
// takes longer, Close leaves the goroutine behind and returns an error that says
// so. A handler must not call Close, but may start a goroutine that does. It is safe
// to call more than once.
func (c *Conn) Close() error { return c.close() }

func (c *Conn) shut() error {
	c.update(func(s *state) { s.closed = true })
	c.failCalls(ErrClosed, true)
	c.stop(ErrClosed)
	c.out.close()
	within(c.outDone, closeGrace)
	err := closeBoth(c.dst, c.src)
	for _, w := range []struct {
		done   chan struct{}
		reason string
	}{
		{c.inputDone, "a notification handler has not returned, or the reader cannot be closed"},
		{c.handled, "a request handler has not returned"},
		{c.outDone, "the writer cannot be closed"},
	} {
		if !within(w.done, closeGrace) {
			return errors.Join(err, errors.New("jsonrpc: close: "+w.reason))
		}
	}
	return err
}

// within reports whether done is closed in the given time.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// closeBoth closes the sides that are an io.Closer and returns the first error. A
// side that was closed before is not an error. If both sides are one value, it is
// closed once.
func closeBoth(dst io.Writer, src io.Reader) (first error) {
	sides := []any{dst, src}
	if reflect.ValueOf(dst).Comparable() && any(dst) == any(src) {
		sides = sides[:1]
	}
	for _, side := range sides {
		if closer, ok := side.(io.Closer); ok {
			if err := closer.Close(); first == nil && !errors.Is(err, fs.ErrClosed) {
				first = err
			}
		}
	}
	return first
}
