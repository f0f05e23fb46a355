package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
)

// A part is one message between the relay and the runner: a kind, a length of four bytes,
// and that many bytes.
type part struct {
	kind byte
	data []byte
}

// The kinds of parts. The first four are sent by the relay.
const (
	partHello   byte = 'h' // first of all: a hello as JSON
	partInput   byte = 'i' // bytes of standard input
	partEnd     byte = 'e' // standard input has ended
	partWritten byte = 'w' // the noise has been written

	partOutput byte = 'o' // bytes for standard output
	partStderr byte = 's' // bytes for standard error
	partNoise  byte = 'n' // a decimal number: so many bytes of text for standard error
	partClose  byte = 'c' // close standard output
	partHold   byte = 'k' // ignore signals that ask the process to end
	partExit   byte = 'x' // a decimal number: exit with this code
)

// maxPart limits the length of a part.
const maxPart = 1 << 20

// A hello says which process the relay is.
type hello struct {
	PID int    `json:"pid"`
	Dir string `json:"dir"` // its working folder
}

// writePart writes a part. Longer data is split, which streams of bytes allow.
func writePart(w io.Writer, kind byte, data []byte) error {
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), maxPart)
		head := make([]byte, 5, 5+n)
		head[0] = kind
		binary.BigEndian.PutUint32(head[1:], uint32(n))
		if _, err := w.Write(append(head, data[:n]...)); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// readPart reads a part.
func readPart(r io.Reader) (part, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return part{}, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxPart {
		return part{}, fmt.Errorf("a part has %d bytes", n)
	}
	p := part{kind: head[0], data: make([]byte, n)}
	_, err := io.ReadFull(r, p.data)
	return p, err
}

// Relay is the program that a client starts as its agent. It connects the standard streams to
// the socket at address and does what the runner behind it asks for. It returns the exit
// code of the process: that which the runner chose, or 1 if the runner is gone.
func Relay(ctx context.Context, address string, in io.Reader, out io.WriteCloser, stderr io.Writer) (int, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", address)
	if err != nil {
		return 1, fmt.Errorf("the compliance test is over: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	r := &relay{conn: conn, out: out, stderr: stderr}
	r.more = sync.NewCond(&r.mu)
	dir, _ := os.Getwd() // "" if the folder is gone
	greeting, err := json.Marshal(hello{PID: os.Getpid(), Dir: dir})
	if err != nil {
		return 1, err
	}
	if err := r.send(partHello, greeting); err != nil {
		return 1, err
	}

	// Both goroutines end with the process: a read of standard input cannot be interrupted.
	go r.copyInput(in)
	go r.write()
	return r.obey()
}

// A relay is a running relay.
type relay struct {
	conn   net.Conn
	out    io.WriteCloser
	stderr io.Writer

	sending sync.Mutex // guards writes to conn

	mu    sync.Mutex // guards queue
	more  *sync.Cond
	queue []part // output that waits to be written; not bounded, so that an exit overtakes it
}

func (r *relay) send(kind byte, data []byte) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	return writePart(r.conn, kind, data)
}

// copyInput sends standard input to the runner.
func (r *relay) copyInput(in io.Reader) {
	buf := make([]byte, 256<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && r.send(partInput, buf[:n]) != nil {
			return
		}
		if err != nil {
			r.send(partEnd, nil) // the runner may be gone
			return
		}
	}
}

// obey reads the orders of the runner until one of them is to exit. Output is handed to
// another goroutine: a client that does not read must not keep the process alive.
func (r *relay) obey() (int, error) {
	orders := bufio.NewReaderSize(r.conn, 256<<10)
	for {
		p, err := readPart(orders)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return 1, nil
		}
		if err != nil {
			return 1, err
		}
		switch p.kind {
		case partExit:
			code, err := strconv.Atoi(string(p.data))
			r.flush()
			return code, err
		case partHold:
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		default:
			r.mu.Lock()
			r.queue = append(r.queue, p)
			r.mu.Unlock()
			r.more.Signal()
		}
	}
}

// flush waits until nothing waits to be written, or nothing more comes from the runner.
func (r *relay) flush() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.mu.Lock()
		defer r.mu.Unlock()
		for len(r.queue) > 0 {
			r.more.Wait()
		}
	}()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		io.Copy(io.Discard, r.conn)
	}()
	select {
	case <-done:
	case <-gone:
	}
}

// write writes the output in its order. A part stays in the queue until it is written.
func (r *relay) write() {
	for {
		r.mu.Lock()
		for len(r.queue) == 0 {
			r.more.Wait()
		}
		p := r.queue[0]
		r.mu.Unlock()

		r.put(p)

		r.mu.Lock()
		r.queue = r.queue[1:]
		r.mu.Unlock()
		r.more.Broadcast()
	}
}

// put writes one part. The client may have closed the stream; it then reads nothing.
func (r *relay) put(p part) {
	switch p.kind {
	case partOutput:
		r.out.Write(p.data)
	case partStderr:
		r.stderr.Write(p.data)
	case partClose:
		r.out.Close()
	case partNoise:
		n, _ := strconv.Atoi(string(p.data)) // the runner writes numbers
		for text := noise(64 << 10); n > 0; n -= len(text) {
			r.stderr.Write(text[:min(n, len(text))])
		}
		r.send(partWritten, nil)
	}
}

// noise returns lines of text with n bytes in all.
func noise(n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(i%26)
		if i%100 == 99 {
			text[i] = '\n'
		}
	}
	return text
}
