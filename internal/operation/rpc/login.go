package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/handshake"
)

// NewOperator returns a client that calls as the operator who holds a key. If a hub
// answers at the socket, which lies in its home, the client calls there with the key.
// Otherwise it calls at url, proves the key by a handshake and never sends it. socket
// may be "".
func NewOperator(socket, url, key, session string) *Client {
	if socket != "" {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			t := http.DefaultTransport.(*http.Transport).Clone()
			t.Proxy = nil
			t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}
			return NewClient("http://localhost", key, session, &http.Client{Timeout: clientTimeout, Transport: t})
		}
	}
	c := NewClient(url, "", session, nil)
	c.login = &login{key: key}
	return c
}

// A login obtains tokens for an operator's key.
type login struct {
	key string

	mu    sync.Mutex
	token string
	until time.Time
}

// Token returns a token that is valid for some minutes at c's hub, for programs that
// make requests of their own. c is a client of NewOperator that does not use a socket.
func (c *Client) Token(ctx context.Context) (string, error) {
	l := c.login
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != "" && time.Now().Before(l.until) {
		return l.token, nil
	}
	if u, err := url.Parse(c.url); err != nil || (u.Scheme != "https" && !loopback(u.Hostname())) {
		return "", hub.Errorf(hub.CodePolicy, "rpc.Client", "the operator's key is not used at %s: without TLS others could read and change the requests", c.url).
			WithHint("start the hub with --tls-cert and --tls-key, and use an https address")
	}
	x := handshake.Begin(l.key)
	var challenge handshake.Challenge
	channel, err := c.post(ctx, handshake.ChallengePath, x.Opening, &challenge)
	if err != nil {
		return "", err
	}
	answer, err := x.Answer(channel, challenge)
	if err != nil {
		return "", err
	}
	var got handshake.Grant
	if _, err := c.post(ctx, handshake.TokenPath, answer, &got); err != nil {
		return "", err
	}
	l.token, l.until = got.Token, time.Now().Add(time.Duration(got.ExpiresS)*time.Second/2)
	return l.token, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// forget makes the next call obtain a new token in place of one that was refused.
func (l *login) forget(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token == token {
		l.token = ""
	}
}

// post makes one request of a handshake and returns the channel that it took.
func (c *Client) post(ctx context.Context, path string, in, out any) (handshake.Channel, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return "", err
	}

	// The channel is the connection that the request really took: its address, or its certificate.
	var channel handshake.Channel
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { channel = handshake.TCP(i.Conn.RemoteAddr()) },
	})

	// The requests of the handshake are made without a login.
	bare := *c
	bare.login = nil
	res, err := bare.Do(ctx, http.MethodPost, path, "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()

	if res.TLS != nil {
		channel = handshake.TLS(res.TLS.PeerCertificates[0])
	}
	if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed {
		return "", hub.Errorf(hub.CodeDegraded, "rpc.Client", "%s is not a Parley hub, or an older version; the operator's key was not sent", c.url).
			WithHint("restart the hub with this version, and check PARLEY_URL, its address")
	}
	if res.StatusCode != http.StatusOK {
		return "", ReadError(res)
	}

	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(out); err != nil {
		return "", hub.Errorf(hub.CodeDegraded, "rpc.Client", "%s is not a Parley hub; the operator's key was not sent", c.url).
			WithHint("check PARLEY_URL, the address of the hub")
	}
	return channel, nil
}
