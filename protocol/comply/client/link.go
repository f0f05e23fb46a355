package client

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// A link is the runner's end of a relay: one process that a client started as its agent.
type link struct {
	conn net.Conn
	who  hello

	sending sync.Mutex // guards writes to conn

	input *io.PipeReader // what the client writes to the agent
	ended chan struct{}  // closed when the input of the agent has ended
	end   time.Time      // when it ended; read after ended is closed
	gone  chan struct{}  // closed when the process has ended
	noise chan struct{}  // a value for each noise that was written
}

// newLink reads the greeting of a relay and starts to read from it. It returns nil for a
// connection that is none of a relay.
func newLink(conn net.Conn) *link {
	parts := bufio.NewReaderSize(conn, 256<<10)
	first, err := readPart(parts)
	l := &link{conn: conn, ended: make(chan struct{}), gone: make(chan struct{}), noise: make(chan struct{}, 1)}
	if err != nil || first.kind != partHello || json.Unmarshal(first.data, &l.who) != nil {
		conn.Close()
		return nil
	}
	input, write := io.Pipe()
	l.input = input
	go l.read(parts, write)
	return l
}

// read reads the parts of the relay until it is gone.
func (l *link) read(parts io.Reader, write *io.PipeWriter) {
	defer close(l.gone)
	defer write.Close()
	var once sync.Once
	end := func() {
		l.end = time.Now()
		close(l.ended)
	}
	for {
		p, err := readPart(parts)
		if err != nil {
			return
		}
		switch p.kind {
		case partInput:
			write.Write(p.data) // the reader may have given up
		case partEnd:
			write.Close()
			once.Do(end)
		case partWritten:
			select {
			case l.noise <- struct{}{}:
			default:
			}
		}
	}
}

// send gives the relay an order. A relay that is gone ignores it.
func (l *link) send(kind byte, data []byte) {
	l.sending.Lock()
	defer l.sending.Unlock()
	writePart(l.conn, kind, data)
}

// exit ends the process of the agent with a code.
func (l *link) exit(code int) { l.send(partExit, []byte(strconv.Itoa(code))) }

// close ends the connection, and with it the process.
func (l *link) close() {
	l.conn.Close()
	l.input.Close()
}

// sawEnd reports whether the input of the agent had ended at a time.
func (l *link) sawEnd(by time.Time) bool { return closed(l.ended) && l.end.Before(by) }

// closed reports whether a channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
