package jsonrpc

import (
	"context"
	"io"
	"sync"
	"time"
)

// maxQueued is how many bytes may wait to be written. A sender with more waits; a
// larger frame is queued when nothing else is.
const maxQueued = 1 << 20

// An outbox writes frames in the order in which they are put. One goroutine, run,
// writes all frames that have gathered while it was writing before.
//
// A write cannot be given up half way. So a sender waits for room in the queue, with
// its context, and never for the write. Senders get room in the order in which they
// began to wait: turn is held by the first of them, and a new sender does not
// overtake while there are waiting ones.
//
// When the queue is empty and nothing is being written, the sender writes as much
// of the frame as goes without waiting, and leaves the rest to run. This saves a
// switch of goroutines per frame; the benchmark BenchmarkPrompts (prompts at half
// the speed of a bare loop, on an idle machine) needs it.
//
// The invariant is that at most one goroutine writes: the one that set writing.
type outbox struct {
	dst  io.Writer
	try  func([]byte) int // writes without waiting; nil if dst cannot do that
	tap  func(Frame)      // sees each frame just before it is written; may be nil
	wake chan struct{}    // holds an element when run has something to do
	turn chan struct{}    // holds an element while a sender is next to get room

	mu      sync.Mutex // guards the fields below
	writing bool       // a goroutine is writing
	rest    []byte     // the part of the last frame that the sender could not write
	queue   []byte
	ends    []int         // the ends of the frames in queue, if there is a tap
	waiting int           // senders that wait for their turn or for room
	room    chan struct{} // closed when there may be room; nil if no sender waits
	closing bool          // no more frames are taken
	err     error         // why no more frames can be written
}

func newOutbox(dst io.Writer, tap func(Frame)) *outbox {
	return &outbox{dst: dst, try: tryWriter(dst), tap: tap, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
}

// put sends a frame, which ends with a line feed and belongs to the outbox from now
// on. It waits for room until ctx ends; then the frame is not sent.
func (o *outbox) put(ctx context.Context, frame []byte) error {
	o.mu.Lock()
	if o.waiting == 0 && o.fits(frame) {
		return o.send(frame)
	}
	o.waiting++
	o.mu.Unlock()
	err := o.putLater(ctx, frame)
	o.mu.Lock()
	o.waiting--
	o.mu.Unlock()
	return err
}

// offer sends a frame without waiting for room: the queue may exceed its limit.
func (o *outbox) offer(frame []byte) error {
	o.mu.Lock()
	return o.send(frame)
}

// putLater queues a frame when there is room.
func (o *outbox) putLater(ctx context.Context, frame []byte) error {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		o.mu.Lock()
		if o.fits(frame) {
			return o.send(frame)
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fits reports whether a frame need not wait. The caller holds mu.
func (o *outbox) fits(frame []byte) bool {
	return len(o.queue) == 0 || len(o.queue)+len(frame) <= maxQueued || o.closing || o.err != nil
}

// send writes a frame if no other frame is before it, and queues it otherwise. The
// caller holds mu; send releases it.
func (o *outbox) send(frame []byte) error {
	switch {
	case o.err != nil || o.closing:
		defer o.mu.Unlock()
		if o.err != nil {
			return o.err
		}
		return ErrClosed
	case o.try == nil || o.writing || o.waiting > 0 || len(o.rest) > 0 || len(o.queue) > 0:
		defer o.mu.Unlock()
		o.queue = append(o.queue, frame...)
		if o.tap != nil {
			o.ends = append(o.ends, len(o.queue))
		}
		o.signal()
		return nil
	}

	// The frame is written without the lock: writing keeps other senders away meanwhile.
	o.writing = true
	o.mu.Unlock()
	if o.tap != nil {
		o.tap(Frame{Raw: frame[:len(frame)-1], Time: time.Now()})
	}
	rest := frame[o.try(frame):]

	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	o.rest = rest
	if len(rest) > 0 || len(o.queue) > 0 || o.closing {
		o.signal()
	}
	return nil
}

// close lets run return after it has written the queue.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	o.release()
	o.signal()
}

// failure returns why no more frames can be written, nil while they can.
func (o *outbox) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// release wakes the sender that waits for room. The caller holds mu.
func (o *outbox) release() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// run writes frames until the outbox is closed or writing fails. It returns the
// error of the write.
func (o *outbox) run() error {
	var frames []byte
	var ends []int
	for range o.wake {
		o.mu.Lock()
		if o.writing { // the sender that is writing wakes run again
			o.mu.Unlock()
			continue
		}
		o.writing = true
		closing, rest := o.closing, o.rest
		frames, o.queue = o.queue, frames[:0]
		ends, o.ends = o.ends, ends[:0]
		o.rest = nil
		o.release()
		o.mu.Unlock()

		// The tap sees each frame before it is written; it has seen rest already.
		err := o.write(rest)
		start := 0
		for _, end := range ends {
			o.tap(Frame{Raw: frames[start : end-1], Time: time.Now()})
			start = end
		}
		if err == nil {
			err = o.write(frames)
		}

		o.mu.Lock()
		o.writing = false
		if err != nil {
			o.err = err
			o.queue = nil
			o.ends = nil
			o.release()
		}
		o.mu.Unlock()

		if err != nil || closing {
			return err
		}
		if cap(frames) > 2*maxQueued {
			frames = nil
		}
	}
	return nil
}

func (o *outbox) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := o.dst.Write(b)
	if err == nil && n < len(b) {
		return io.ErrShortWrite
	}
	return err
}
