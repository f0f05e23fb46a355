package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
)

// openListener begins to listen on the address of the options.
// Connections are accepted by the system from here on and wait until Serve.
func (s *Server) openListener(context.Context) error {
	l, err := net.Listen("tcp", s.opts.Addr)
	if err != nil {
		return listenError(s.opts.Addr, err)
	}

	secure := s.tls != nil
	s.url = baseURL(l.Addr(), secure)
	s.listener = &boundedListener{Listener: l, most: maxConnections(), secure: secure, log: s.log}
	if secure {
		s.cert = s.tls.Certificates[0].Leaf
		s.listener = tls.NewListener(s.listener, s.tls)
	}
	return nil
}

// closeListener ends listening, and removes the address from the home.
func (s *Server) closeListener() error {
	s.listener.Close()                             // closed already if the server was serving
	os.Remove(filepath.Join(s.opts.Home, URLFile)) // the hub is not there any more
	return nil
}

// openSocket listens on a socket in the home, which only the owner of the home can
// reach. Where that is not possible, say because the path is too long, operators prove
// their key over the port.
func (s *Server) openSocket(context.Context) error {
	path := filepath.Join(s.opts.Home, SocketFile)
	os.Remove(path) // of a hub that was killed: this one holds the home's lock
	l, err := net.Listen("unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			l.Close()
		}
	}
	if err != nil {
		s.log.Info("no socket in the home, operators use the port", "err", err)
		return nil
	}
	s.socket = &boundedListener{Listener: l, most: socketConnections, log: s.log}
	return nil
}

// closeSocket ends listening in the home and removes the file.
func (s *Server) closeSocket() error {
	if s.socket != nil {
		s.socket.Close()
	}
	return nil
}

// checkBind refuses an address on which keys could be overheard.
// It returns the configuration of TLS, nil without a certificate. A hub on loopback
// may use TLS as well.
func checkBind(o Options) (*tls.Config, error) {
	const op = "server.New"
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "%q is not an address", o.Addr).WithHint("use HOST:PORT, for example %s", DefaultAddr)
	}

	local := isLoopback(host)
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, hub.Errorf(hub.CodeInvalid, op, "a certificate and its key must be given together").WithHint("give both --tls-cert and --tls-key")
	}

	// Beyond loopback, keys must not travel in the clear, and limits and authentication stay on.
	if !local && o.TLSCert == "" && o.NoTLSBecause == "" {
		return nil, hub.Errorf(hub.CodePolicy, op, "a hub that listens on %s must use TLS: otherwise others could read the keys", o.Addr).
			WithHint("use --tls-cert and --tls-key, listen on %s, or give a reason with --no-tls-because", DefaultAddr)
	}
	if !local && o.Limits.Unsafe {
		return nil, hub.Errorf(hub.CodePolicy, op, "--unsafe-limits is for loopback only").
			WithHint("listen on %s, or omit --unsafe-limits", DefaultAddr)
	}
	if !local && o.Coordination.Open {
		return nil, hub.Errorf(hub.CodePolicy, op, "--auth open is for loopback only").
			WithHint("listen on %s, or omit --auth open", DefaultAddr)
	}

	if o.TLSCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "cannot use the certificate: %v", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// checkIntake refuses an address for webhooks on which the token of a vendor could be overheard. It
// returns the configuration of TLS there: the one of the hub, beyond loopback.
func checkIntake(o Options, secure *tls.Config) (*tls.Config, error) {
	const op = "server.New"
	if o.InAddr == "" {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(o.InAddr)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "%q is not an address", o.InAddr).WithHint("use HOST:PORT, for example 127.0.0.1:7421")
	}
	if isLoopback(host) {
		return nil, nil // a proxy or a tunnel on the machine speaks TLS
	}
	if secure == nil && o.NoTLSBecause == "" {
		return nil, hub.Errorf(hub.CodePolicy, op, "a hub that listens for webhooks on %s must use TLS: otherwise others could read tokens and texts", o.InAddr).
			WithHint("use --tls-cert and --tls-key, listen on loopback behind a proxy, or give a reason with --no-tls-because")
	}
	return secure, nil
}

// Other names are not resolved: a resolver could change its answer later.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// listenError leaves out the outer text of the error, which repeats the address.
func listenError(addr string, err error) error {
	return hub.Errorf(hub.CodeConflict, "server.New", "cannot listen on %s: %v", addr, errors.Unwrap(err)).
		WithHint("another program, such as another hub, may use that port; choose a free port with --addr 127.0.0.1:0")
}

// An address that means all interfaces is no address to call; loopback stands for
// it.
func baseURL(addr net.Addr, secure bool) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
