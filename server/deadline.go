package server

import (
	"net"
	"time"
)

const (
	// writeTimeout is how long a part of an answer may wait for its reader.
	writeTimeout = 30 * time.Second

	// writePart is how many bytes have that long: a slow line is not a reader
	// that has stopped.
	writePart = 64 << 10
)

// A deadlineListener gives each connection a deadline for everything that is
// written to it, whatever handler writes: a caller that does not read its answer
// loses the connection, and the hub the answer.
type deadlineListener struct{ net.Listener }

func (l deadlineListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return deadlineConn{c}, nil
}

type deadlineConn struct{ net.Conn }

func (c deadlineConn) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return n, err
		}
		var m int
		m, err = c.Conn.Write(b[:min(len(b), writePart)])
		n, b = n+m, b[m:]
	}
	return n, err
}
