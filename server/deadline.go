package server

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/internal/surface/intake"
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
// answer. Connections beyond most, or beyond the share of a network, are answered with
// status 503 and closed, so that the hub can still open files.
type boundedListener struct {
	net.Listener
	most   int64
	share  int64 // of most, the connections of one network at a time; 0 for all
	secure bool  // TLS is spoken, so that a refusal cannot be written
	log    *slog.Logger

	open    atomic.Int64 // connections
	refused time.Time    // when a refusal was last logged; only Accept uses it

	mu   sync.Mutex       // guards from
	from map[string]int64 // open connections by network, if each has a share
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
		if release, ok := l.admit(c); ok {
			return &deadlineConn{Conn: c, release: sync.OnceFunc(release)}, nil
		}
		l.refuse(c)
	}
}

// admit counts a connection, unless it is too many. release counts it down.
func (l *boundedListener) admit(c net.Conn) (release func(), ok bool) {
	network := ""
	if l.share > 0 {
		network = intake.Network(c.RemoteAddr().String())
	}
	if !l.addFrom(network, 1) {
		return nil, false
	}
	release = func() {
		l.open.Add(-1)
		l.addFrom(network, -1)
	}
	if l.open.Add(1) > l.most {
		release()
		return nil, false
	}
	return release, true
}

// addFrom changes the number of open connections of a network. It reports false, and changes
// nothing, if one more is beyond its share.
func (l *boundedListener) addFrom(network string, n int64) bool {
	if l.share == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > 0 && l.from[network] >= l.share {
		return false
	}
	if l.from == nil {
		l.from = map[string]int64{}
	}
	l.from[network] += n
	if l.from[network] == 0 {
		delete(l.from, network)
	}
	return true
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
