package peer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Resolver asks DNS. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// ClientOptions changes how a Client works. The zero value works.
type ClientOptions struct {
	Guard    Guard
	Resolver Resolver       // default net.DefaultResolver
	Roots    *x509.CertPool // for certificates; default the system's
	// Dial connects to an address that the guard allows; default that of net.Dialer.
	Dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	Timeout   time.Duration // for a call from end to end; default 10 seconds
	MaxAnswer int64         // bytes; default 16 MiB
}

// A Client makes every call that leaves the hub. It follows no redirect, uses
// no proxy, keeps no cookie and reads no more than its limits allow.
type Client struct {
	http      *http.Client
	guard     Guard
	resolver  Resolver
	connect   func(ctx context.Context, network, addr string) (net.Conn, error)
	timeout   time.Duration
	maxAnswer int64
}

const (
	dialTimeout = 5 * time.Second
	maxDials    = 4 // addresses of one name that are tried
)

// NewClient returns a client. opts may be nil.
func NewClient(opts *ClientOptions) *Client {
	var o ClientOptions
	if opts != nil {
		o = *opts
	}

	c := &Client{
		guard: o.Guard, resolver: o.Resolver, connect: o.Dial,
		timeout: cmp.Or(o.Timeout, 10*time.Second), maxAnswer: cmp.Or(o.MaxAnswer, 16<<20),
	}
	if c.resolver == nil {
		c.resolver = net.DefaultResolver
	}

	if c.connect == nil {
		c.connect = new(net.Dialer).DialContext
	}

	// The guard has different rules for plain and for encrypted connections.
	dial := func(secure bool) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, _, addr string) (net.Conn, error) { return c.dial(ctx, addr, secure) }
	}
	transport := func(secure bool) *http.Transport {
		return &http.Transport{
			Proxy: nil, DialContext: dial(secure),
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
			TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:  true, // a small body must not become a large one
			MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
		}
	}

	c.http = &http.Client{
		Transport:     schemeTransports{plain: transport(false), secure: transport(true)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// schemeTransports has a transport for each scheme, so that the dialer knows whether
// TLS follows.
type schemeTransports struct{ plain, secure *http.Transport }

func (b schemeTransports) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return b.secure.RoundTrip(r)
	}
	return b.plain.RoundTrip(r)
}

func (b schemeTransports) CloseIdleConnections() {
	b.plain.CloseIdleConnections()
	b.secure.CloseIdleConnections()
}

// dial resolves the name once, checks the addresses, and connects to one of exactly
// those: a second answer of the resolver cannot lead elsewhere.
func (c *Client) dial(ctx context.Context, addr string, secure bool) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addrs, err := c.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var refused, failed error
	for _, a := range addrs[:min(len(addrs), maxDials)] {
		if err := c.guard.Check(a, secure); err != nil {
			refused = err
			continue
		}
		conn, err := c.connect(ctx, "tcp", net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, cmp.Or(failed, refused)
}

func (c *Client) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := c.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

// A call is one request that leaves the hub.
type call struct {
	method string
	url    string
	header http.Header
	body   []byte
}

// An Answer is the response to a call.
type Answer struct {
	Status int
	Body   []byte
}

// Post sends a document to an address that is no peer's, as the guard allows, and returns
// the status of the answer.
func (c *Client) Post(ctx context.Context, url string, header http.Header, body []byte) (int, error) {
	got, err := c.do(ctx, call{method: http.MethodPost, url: url, header: header, body: body})
	return got.Status, err
}

// Call calls an address of another hub, as the guard allows.
func (c *Client) Call(ctx context.Context, method, url string, body []byte) (int, []byte, error) {
	got, err := c.do(ctx, call{method: method, url: url, body: body})
	return got.Status, got.Body, err
}

// CheckEndpoint reports why the guard never lets an address be called; nil if it may be.
func (c *Client) CheckEndpoint(endpoint string) error { return c.guard.CheckEndpoint(endpoint) }

// do makes a call. Answers with a redirect, over the limit or from an address
// that is not allowed are errors; other statuses are returned.
func (c *Client) do(ctx context.Context, in call) (Answer, error) {
	const op = "peer.Call"
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, in.method, in.url, bytes.NewReader(in.body))
	if err != nil {
		return Answer{}, hub.Errorf(hub.CodeInvalid, op, "%q is not a URL", in.url)
	}

	if in.header != nil {
		req.Header = in.header
	}
	req.Header.Set("User-Agent", "parley")
	req.Header.Set("Accept", "application/json")
	if in.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	res, err := c.http.Do(req)
	if err != nil {
		return Answer{}, unreachable(op, req.URL, err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return Answer{}, hub.Errorf(hub.CodePolicy, op, "%s answered with a redirect, which is not followed", req.URL.Host).
			WithHint("register the address of the redirect, if it is the peer's")
	}

	// One byte over the limit shows that the answer is too long.
	body, err := io.ReadAll(io.LimitReader(res.Body, c.maxAnswer+1))
	if err != nil {
		return Answer{}, unreachable(op, req.URL, err)
	}
	if int64(len(body)) > c.maxAnswer {
		return Answer{}, hub.Errorf(hub.CodeTooLarge, op, "%s answered with more than %d bytes", req.URL.Host, c.maxAnswer)
	}
	return Answer{res.StatusCode, body}, nil
}

// unreachable wraps a failure of the network. An error of the guard stays as it is.
func unreachable(op string, u *url.URL, err error) error {
	var own *hub.Error
	if errors.As(err, &own) {
		return own
	}
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return hub.Errorf(hub.CodeUnreachable, op, "%s did not answer in time", u.Host)
	}
	return hub.Errorf(hub.CodeUnreachable, op, "cannot reach %s: %w", u.Host, err)
}
