package server

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// writeTimeout is how long a part of an answer may wait for its reader.
	writeTimeout = 30 * time.Second

	// writePart is how many bytes have that long: a slow line is not a reader
	// that has stopped.
	writePart = 64 << 10
)

// A boundedListener bounds the resources that callers can hold. Each connection has
// a deadline for everything that is written to it, whatever handler writes: a
// caller that does not read its answer loses the connection, and the hub drops the
// answer. Connections beyond most are answered with status 503 and closed, so that
// the hub can still open files.
type boundedListener struct {
	net.Listener
	most   int64
	secure bool // TLS is spoken, so that a refusal cannot be written
	log    *slog.Logger

	open    atomic.Int64 // connections
	refused time.Time    // when a refusal was last logged; only Accept uses it
}

const (
	// A flood of connections must not become a flood of log lines, and must not
	// keep the operator from the socket in the home.
	refuseEvery       = time.Minute // between two log lines about refused connections
	socketConnections = 128         // of the operator's commands and windows on the machine, beside all others
)

// A connection counts until it is closed, whether by its handler or by the caller.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &deadlineConn{Conn: c, release: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		l.refuse(c)
	}
}

// refuse answers a connection that is too many, and closes it. It does not wait.
func (l *boundedListener) refuse(c net.Conn) {
	if time.Since(l.refused) > refuseEvery {
		l.refused = time.Now()
		l.log.Warn("too many connections, further ones are refused", "most", l.most)
	}
	if !l.secure {
		body := `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server error: the hub has too many connections",` +
			`"data":{"reason":"degraded","hint":"close unused connections and try again; the hub's limit on open files (ulimit -n) bounds them"}}}`
		c.SetWriteDeadline(time.Now().Add(time.Second))
		fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	}
	c.Close()
}

// A deadlineConn is a connection that counts until it is closed, and whose writes
// have a deadline each.
type deadlineConn struct {
	net.Conn
	release func() // may be called again
}

// Close may be called by the server and by a handler that took the connection over;
// the connection is counted down once.
func (c *deadlineConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// Each part gets the whole writeTimeout, so a caller must read at least writePart
// bytes in that time: 64 KiB in 30 seconds.
func (c *deadlineConn) Write(b []byte) (n int, err error) {
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
