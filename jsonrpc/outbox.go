package jsonrpc

import (
	"context"
	"io"
	"sync"
	"time"
)

// maxQueued is how many bytes may wait to be written. Whoever has more to send
// waits; a frame that is larger goes when nothing else waits.
const maxQueued = 1 << 20

// An outbox writes frames one after the other, as many at once as have come
// together while it was writing. It exists because a write cannot be given up
// half way: those who send wait for room, with a context, and not for the write.
// What can be written without waiting, the sender writes itself, which saves a
// change of goroutines.
type outbox struct {
	dst  io.Writer
	try  func([]byte) int // writes without waiting; nil if that cannot be done
	tap  func(Frame)      // sees each frame just before it is written; may be nil
	wake chan struct{}    // holds something when there is something to do
	turn chan struct{}    // held by the one who is next to get room

	mu      sync.Mutex // guards what follows
	writing bool       // somebody is writing
	rest    []byte     // what is left of the frame that was written last
	queue   []byte
	ends    []int         // where the frames in queue end, if there is a tap
	waiting int           // how many wait for their turn or for room
	room    chan struct{} // closed when there may be room; nil if nobody waits for it
	closing bool          // nothing more is taken
	err     error         // why nothing more can be written
}

func newOutbox(dst io.Writer, tap func(Frame)) *outbox {
	return &outbox{dst: dst, try: tryWriter(dst), tap: tap, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
}

// put sends a frame, which ends with a line feed and is not the caller's any
// more. It waits for room until ctx ends; then the frame is not sent.
func (o *outbox) put(ctx context.Context, frame []byte) error {
	o.mu.Lock()
	switch {
	case o.waiting > 0:
	case o.idle():
		o.writing = true
		o.mu.Unlock()
		o.putDirectly(frame)
		return nil
	case o.fits(frame):
		defer o.mu.Unlock()
		return o.append(frame)
	}
	o.waiting++
	o.mu.Unlock()
	err := o.putLater(ctx, frame)
	o.mu.Lock()
	o.waiting--
	o.mu.Unlock()
	return err
}

// putDirectly writes what can be written of a frame now, and leaves the rest to
// run. The caller has set writing.
func (o *outbox) putDirectly(frame []byte) {
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
			defer o.mu.Unlock()
			return o.append(frame)
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

// offer sends a frame and waits for nothing: what cannot be written at once is
// queued, whether there is room or not.
func (o *outbox) offer(frame []byte) error {
	o.mu.Lock()
	if o.waiting == 0 && o.idle() {
		o.writing = true
		o.mu.Unlock()
		o.putDirectly(frame)
		return nil
	}
	defer o.mu.Unlock()
	return o.append(frame)
}

// idle reports whether a frame can be written by the one who sends it. The caller
// holds mu.
func (o *outbox) idle() bool {
	return o.try != nil && !o.writing && len(o.rest) == 0 && len(o.queue) == 0 && !o.closing && o.err == nil
}

// fits reports whether a frame need not wait. The caller holds mu.
func (o *outbox) fits(frame []byte) bool {
	return len(o.queue) == 0 || len(o.queue)+len(frame) <= maxQueued || o.closing || o.err != nil
}

// append queues a frame. The caller holds mu.
func (o *outbox) append(frame []byte) error {
	if o.err != nil {
		return o.err
	}
	if o.closing {
		return ErrClosed
	}
	o.queue = append(o.queue, frame...)
	if o.tap != nil {
		o.ends = append(o.ends, len(o.queue))
	}
	o.signal()
	return nil
}

// close lets run return when it has written what is queued.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	o.release()
	o.signal()
}

// failure returns why nothing more can be written, nil as long as it can.
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

// release wakes the one who waits for room. The caller holds mu.
func (o *outbox) release() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// run writes until the outbox is closed, or until writing fails, and then
// returns why.
func (o *outbox) run() error {
	var frames []byte
	var ends []int
	for range o.wake {
		o.mu.Lock()
		if o.writing { // who does will wake run again
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
			o.err, o.queue, o.ends = err, nil, nil
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
