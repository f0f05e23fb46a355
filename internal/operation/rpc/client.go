package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// clientTimeout bounds a call, so that a hub that hangs does not hang its
// callers. It is longer than an inbox can be waited for.
const clientTimeout = 330 * time.Second

// A Client calls a hub over HTTP. Its methods report the hub's own errors, and
// CodeDegraded when the hub cannot be reached.
type Client struct {
	url     string
	key     string
	session string
	login   *login // in place of key for an operator who calls over a port
	http    *http.Client
}

// NewClient returns a client for the hub at url that calls with the given key.
// session says which calls belong together and may be empty; hc may be nil.
func NewClient(url, key, session string, hc *http.Client) *Client {
	if hc == nil {
		hc = &http.Client{Timeout: clientTimeout}
	}
	return &Client{url: strings.TrimSuffix(url, "/"), key: key, session: session, http: hc}
}

// As returns a client of the same hub that calls with another key and session.
func (c *Client) As(key, session string) *Client {
	return &Client{url: c.url, key: key, session: session, http: c.http}
}

// patient returns a client that waits as long as its context.
func (c *Client) patient() *Client {
	p, hc := *c, *c.http
	hc.Timeout = 0
	p.http = &hc
	return &p
}

// Call calls an operation at the client's hub. A call that changes something and
// got no answer must not simply be made again, unless its parameters carry an
// idempotency key.
func Call[S, P, R any](ctx context.Context, c *Client, o Operation[S, P, R], params P) (R, error) {
	var out R
	raw, err := jsonv2.Marshal(params)
	if err != nil {
		return out, hub.Errorf(hub.CodeInvalid, o.Method, "%v", err)
	}
	if o.Patient {
		c = c.patient()
	}
	answer, err := c.Raw(ctx, o.Method, raw)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("rpc: %s: cannot read the answer: %w", o.Method, err)
	}
	return out, nil
}

// Perform calls a method and returns its result as its own type.
func (c *Client) Perform(ctx context.Context, m *Method, params []byte) (any, error) {
	raw, err := c.Raw(ctx, m.Method, params)
	if err != nil {
		return nil, err
	}
	return m.read(raw)
}

// Raw calls a method with parameters as JSON and returns its result as JSON.
func (c *Client) Raw(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	if len(params) == 0 {
		params = []byte("{}")
	}

	name, err := json.Marshal(method)
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, len(params)+64)
	body = append(append(append(body, `{"jsonrpc":"2.0","id":1,"method":`...), name...), `,"params":`...)
	body = append(append(body, params...), '}')

	res, err := c.Do(ctx, http.MethodPost, "/", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, unreachable(c.url, err)
	}

	// A hub answers with a result or an error; anything else is another program.
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *jsonrpc.Error  `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || (answer.Result == nil && answer.Error == nil) {
		return nil, hub.Errorf(hub.CodeDegraded, method, "%s is not a Parley hub: it answered with status %d", c.url, res.StatusCode).
			WithHint("check PARLEY_URL, the address of the hub")
	}

	if answer.Error != nil {
		return nil, hubError(method, answer.Error)
	}
	return answer.Result, nil
}

// Do sends any request to the hub with the client's key. The caller closes the
// response's body.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	if c.login == nil {
		return c.do(ctx, method, path, contentType, body, c.key)
	}
	token, err := c.Token(ctx)
	if err != nil {
		return nil, err
	}
	res, err := c.do(ctx, method, path, contentType, body, token)
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		return res, err
	}
	// The hub restarted meanwhile: its tokens died with it. Nothing was performed.
	c.login.forget(token)
	again, ok := body.(io.Seeker)
	if body != nil && !ok {
		return res, nil
	}
	res.Body.Close()
	if ok {
		if _, err := again.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	if token, err = c.Token(ctx); err != nil {
		return nil, err
	}
	return c.do(ctx, method, path, contentType, body, token)
}

// do sends one request with a bearer.
func (c *Client) do(ctx context.Context, method, path, contentType string, body io.Reader, bearer string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "rpc.Client", "%q is not a valid hub address", c.url).WithHint("check PARLEY_URL")
	}
	req.Header.Set("Content-Type", contentType)
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	if c.session != "" {
		req.Header.Set(SessionHeader, c.session)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, unreachable(c.url, err)
	}
	return res, nil
}

// ErrUnreachable is in the chain of errors for calls that did not get an answer:
// the hub may or may not have performed them.
var ErrUnreachable = errors.New("hub unreachable")

// StartHint says how a hub comes to answer.
const StartHint = "start it with: parley serve (or make run); PARLEY_URL is its address"

func unreachable(url string, err error) error {
	// The cause may quote the address, never the key.
	return hub.Errorf(hub.CodeDegraded, "rpc.Client", "%w at %s: %v", ErrUnreachable, url, err).
		WithHint(StartHint)
}

// ReadError returns the error in the answer of a page.
func ReadError(res *http.Response) error {
	var answer struct {
		Error *jsonrpc.Error `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&answer) != nil || answer.Error == nil {
		return hub.Errorf(hub.CodeDegraded, "rpc.Client", "the hub answered with status %d", res.StatusCode)
	}
	return hubError("http", answer.Error)
}

// Follow calls fn with each journal entry after seq that the caller may see, as
// it happens, until ctx ends or fn reports an error. It returns the number of
// the last entry when the stream breaks off.
func (c *Client) Follow(ctx context.Context, seq int64, fn func(hub.Entry) error) (int64, error) {
	res, err := c.patient().Do(ctx, http.MethodGet, fmt.Sprintf("/events?after=%d", seq), "text/plain", nil)
	if err != nil {
		return seq, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return seq, ReadError(res)
	}

	// An entry is one data line; ids, comments and blank lines are skipped.
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e hub.Entry
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return seq, fmt.Errorf("rpc: events: %w", err)
		}
		if err := fn(e); err != nil {
			return seq, err
		}
		seq = e.Seq
	}

	if ctx.Err() != nil {
		return seq, ctx.Err()
	}
	return seq, unreachable(c.url, fmt.Errorf("the event stream ended: %v", lines.Err()))
}
