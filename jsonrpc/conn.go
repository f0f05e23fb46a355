package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is why calls fail on a connection that was closed from either side.
// The cause, such as an *ExitError, is wrapped beside it.
var ErrClosed = errors.New("the connection is closed")

// maxIdle is how many goroutines stay for the next request. They are faster
// than new ones, whose stacks have yet to grow.
const maxIdle = 4

// A Conn is one side of a conversation in which both sides make requests. It
// is safe for concurrent use. Read the package comment for what it promises.
type Conn struct {
	opts Options
	src  io.Reader
	dst  io.Writer
	in   *Reader
	out  *outbox

	stop      context.CancelCauseFunc // ends the contexts of all handlers
	reader    uint64                  // the goroutine that reads; set before busy first is
	busy      atomic.Bool             // that goroutine runs a function from opts
	closed    atomic.Bool             // what comes in is dropped
	inputDone chan struct{}           // closed when nothing more comes in
	handled   chan struct{}           // closed when, then, all requests are answered
	tasks     chan func()             // requests for goroutines that are idle
	idle      chan struct{}           // holds something for each of them
	outDone   chan struct{}           // closed when nothing more goes out
	close     func() error            // closes once

	mu       sync.Mutex // guards what follows
	lastID   uint64
	calls    map[string]func(answer) // those that wait, by id
	late     [256]string             // the last calls that were given up
	lateNext int
	requests map[string]context.CancelCauseFunc // those that are handled, by idKey
	running  int                                // how many are handled or being answered
	held     int                                // how many bytes they have
	nullIDs  int                                // how many requests had null for an id
	workers  int                                // how many goroutines there are for requests
	ended    bool                               // nothing more comes in
	err      error                              // why calls fail; nil as long as they can be made
}

// Open returns a connection that reads from r and writes to w, one frame a line.
// It works until r ends or Close is called. Close closes w and r if they are an
// io.Closer each. opts may be nil.
func Open(r io.Reader, w io.Writer, opts *Options) *Conn {
	c := &Conn{
		src: r, dst: w,
		inputDone: make(chan struct{}),
		handled:   make(chan struct{}),
		tasks:     make(chan func()),
		idle:      make(chan struct{}, maxIdle),
		outDone:   make(chan struct{}),
		calls:     make(map[string]func(answer)),
		requests:  make(map[string]context.CancelCauseFunc),
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
	if c.opts.Grace <= 0 {
		c.opts.Grace = 5 * time.Second
	}
	if c.opts.Logger == nil {
		c.opts.Logger = slog.New(slog.DiscardHandler)
	}
	c.in = NewReader(r, c.opts.MaxFrame)
	var tap func(Frame)
	if c.opts.Tap != nil {
		tap = func(f Frame) { c.opts.Tap(Out, f) }
	}
	c.out = newOutbox(w, tap)
	c.close = sync.OnceValue(c.shut)

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
	// Nobody can be told the result of a request. Calls, however, may have been
	// answered before the other side stopped to listen.
	c.cancelRequests(closedBy(err))
	timer := time.NewTimer(c.opts.Grace)
	defer timer.Stop()
	select {
	case <-c.inputDone:
	case <-ctx.Done():
	case <-timer.C:
		c.end(closedBy(err))
	}
}

// end makes all calls fail, now and later. The first reason stays.
func (c *Conn) end(reason error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = reason
	}
	reason = c.err
	c.mu.Unlock()
	c.failCalls(reason)
}

// closedBy returns ErrClosed with its cause.
func closedBy(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: the other side ended it", ErrClosed)
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// Done is closed when nothing more comes in: the other side has ended, reading
// has failed, or the connection was closed. All calls have failed by then, but
// requests may still be handled and answered; see Wait.
func (c *Conn) Done() <-chan struct{} { return c.inputDone }

// Err returns why calls fail, an ErrClosed. It is nil as long as calls can be
// made.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Wait returns when nothing more comes in, all requests that came in have been
// handled, and the answers are written. It is how a program ends that serves one
// connection. The error says why reading or writing ended, and is nil if the
// other side just ended it. After Wait nothing can be sent.
func (c *Conn) Wait() error {
	<-c.handled
	c.out.close()
	<-c.outDone
	if c.closed.Load() {
		return ErrClosed
	}
	if err := c.in.err; !errors.Is(err, io.EOF) {
		return err
	}
	return c.out.failure()
}

// Close ends the connection. It ends the contexts of all handlers, lets calls
// fail, writes what was sent, closes the writer and then the reader, and waits
// for its goroutines and the handlers. What it waits for longer than the grace
// that was set, it leaves behind and says so. Handlers must not call it, but
// may start a goroutine that does. It is safe to call more than once.
func (c *Conn) Close() error { return c.close() }

func (c *Conn) shut() error {
	c.closed.Store(true)
	c.end(ErrClosed)
	c.stop(ErrClosed)
	c.out.close()
	c.within(c.outDone)
	err := closeBoth(c.dst, c.src)
	for _, w := range []struct {
		done chan struct{}
		what string
	}{
		{c.inputDone, "a notification handler has not returned, or the reader cannot be closed"},
		{c.handled, "a request handler has not returned"},
		{c.outDone, "the writer cannot be closed"},
	} {
		if !c.within(w.done) {
			return errors.Join(err, errors.New("jsonrpc: close: "+w.what))
		}
	}
	return err
}

// within reports whether done is closed before the grace is over.
func (c *Conn) within(done <-chan struct{}) bool {
	timer := time.NewTimer(c.opts.Grace)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// closeBoth closes the sides that can be closed and are not, and returns the
// first error. One that is both is closed once.
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
