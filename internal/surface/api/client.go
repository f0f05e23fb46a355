package api

import (
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
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/jsonrpc"
)

// A Client calls a hub over HTTP. Its methods report the hub's own errors, and
// CodeDegraded when the hub cannot be reached.
type Client struct {
	url     string
	key     string
	session string
	http    *http.Client
}

// NewClient returns a client for the hub at url that calls with the given key.
// session says which calls belong together and may be empty; hc may be nil.
func NewClient(url, key, session string, hc *http.Client) *Client {
	if hc == nil {
		hc = &http.Client{Timeout: mailroom.MaxWait + 30*time.Second} // a hub that hangs must not hang its callers
	}
	return &Client{url: strings.TrimSuffix(url, "/"), key: key, session: session, http: hc}
}

// Call performs a method with raw parameters and returns its raw result.
func (c *Client) Call(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
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
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *jsonrpc.Error  `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Result == nil && answer.Error == nil {
		return nil, hub.Errorf(hub.CodeDegraded, method, "%s answered with status %d, not as a hub does", c.url, res.StatusCode).
			WithHint("is this the address of a parley hub? see PARLEY_URL")
	}
	if answer.Error != nil {
		return nil, hubError(method, answer.Error)
	}
	return answer.Result, nil
}

// Do sends any request to the hub with the client's key. The caller closes the
// response's body.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "api.Client", "%q is not the address of a hub", c.url).WithHint("see PARLEY_URL")
	}
	req.Header.Set("Content-Type", contentType)
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
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

// ErrUnreachable is in the chain of errors for calls that did not get an
// answer: whether the hub acted on them is not known.
var ErrUnreachable = errors.New("hub unreachable")

func unreachable(url string, err error) error {
	// The cause may quote the address, never the key.
	return hub.Errorf(hub.CodeDegraded, "api.Client", "%w at %s: %v", ErrUnreachable, url, err).
		WithHint("start it with: parley serve (or make run); PARLEY_URL says where it is")
}

// Perform calls an operation and returns its result as its own type.
func (c *Client) Perform(ctx context.Context, o Operation, params []byte) (any, error) {
	raw, err := c.Call(ctx, o.Method, params)
	if err != nil {
		return nil, err
	}
	return o.result(raw)
}

// call performs a method with typed parameters and result.
func call[R any](ctx context.Context, c *Client, method string, params any) (R, error) {
	var out R
	raw, err := jsonv2.Marshal(params)
	if err != nil {
		return out, hub.Errorf(hub.CodeInvalid, method, "%v", err)
	}
	answer, err := c.Call(ctx, method, raw)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("api: %s: read the answer: %w", method, err)
	}
	return out, nil
}

// Send sends a message. Without an idempotency key, a call that got no answer
// must not simply be made again.
func (c *Client) Send(ctx context.Context, p SendParams) (mailroom.Receipt, error) {
	return call[mailroom.Receipt](ctx, c, "acp/send", p)
}

// Respond answers a message.
func (c *Client) Respond(ctx context.Context, p SendParams) (mailroom.Receipt, error) {
	return call[mailroom.Receipt](ctx, c, "acp/respond", p)
}

// Status tells how work stands.
func (c *Client) Status(ctx context.Context, p StatusParams) (mailroom.Receipt, error) {
	return call[mailroom.Receipt](ctx, c, "acp/status", p)
}

// Inbox fetches the caller's inbox.
func (c *Client) Inbox(ctx context.Context, p InboxParams) (mailroom.Inbox, error) {
	return call[mailroom.Inbox](ctx, c, "acp/inbox", p)
}

// Query searches messages.
func (c *Client) Query(ctx context.Context, p QueryParams) (mailroom.Listing, error) {
	return call[mailroom.Listing](ctx, c, "acp/query", p)
}

// Handoff does something with a handoff.
func (c *Client) Handoff(ctx context.Context, p HandoffParams) (HandoffAnswer, error) {
	return call[HandoffAnswer](ctx, c, "acp/handoff", p)
}

// Whoami returns who the hub thinks the caller is.
func (c *Client) Whoami(ctx context.Context) (Whoami, error) {
	return call[Whoami](ctx, c, "parley/whoami", None{})
}

// Trace returns one message from end to end.
func (c *Client) Trace(ctx context.Context, id hub.EnvelopeID) (mailroom.Trace, error) {
	return call[mailroom.Trace](ctx, c, "parley/trace", IDParams{ID: id})
}

// Agents returns everybody on the hub.
func (c *Client) Agents(ctx context.Context) (AgentList, error) {
	return call[AgentList](ctx, c, "parley/agent/list", None{})
}

// AddAgent adds an agent.
func (c *Client) AddAgent(ctx context.Context, p AgentParams) (AgentKey, error) {
	return call[AgentKey](ctx, c, "parley/agent/add", p)
}

// MintKey makes another key for an agent.
func (c *Client) MintKey(ctx context.Context, p AgentParams) (AgentKey, error) {
	return call[AgentKey](ctx, c, "parley/agent/key", p)
}

// RevokeKeys revokes keys of an agent, those with a label or all.
func (c *Client) RevokeKeys(ctx context.Context, p AgentParams) (Revoked, error) {
	return call[Revoked](ctx, c, "parley/agent/revoke", p)
}

// Pause keeps an agent from sending.
func (c *Client) Pause(ctx context.Context, id hub.AgentID) (AgentState, error) {
	return call[AgentState](ctx, c, "parley/agent/pause", AgentParams{ID: id})
}

// Resume lets a paused agent send again.
func (c *Client) Resume(ctx context.Context, id hub.AgentID) (AgentState, error) {
	return call[AgentState](ctx, c, "parley/agent/resume", AgentParams{ID: id})
}

// Reset lifts the suspension of an agent.
func (c *Client) Reset(ctx context.Context, id hub.AgentID) (AgentState, error) {
	return call[AgentState](ctx, c, "parley/agent/reset", AgentParams{ID: id})
}

// Held returns what waits for a human.
func (c *Client) Held(ctx context.Context) (Held, error) {
	return call[Held](ctx, c, "parley/held", None{})
}

// Approve lets a held message pass, or a handoff that needs a human be accepted.
func (c *Client) Approve(ctx context.Context, id hub.EnvelopeID) (mailroom.Verdict, error) {
	return call[mailroom.Verdict](ctx, c, "parley/approve", IDParams{ID: id})
}

// Deny makes a held message fail, or rejects a handoff that needs a human.
func (c *Client) Deny(ctx context.Context, id hub.EnvelopeID, reason string) (mailroom.Verdict, error) {
	return call[mailroom.Verdict](ctx, c, "parley/deny", IDParams{ID: id, Reason: reason})
}

// ReadError returns the failure that an answer other than JSON-RPC carries.
func ReadError(res *http.Response) error {
	var answer struct {
		Error *jsonrpc.Error `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&answer) != nil || answer.Error == nil {
		return hub.Errorf(hub.CodeDegraded, "api.Client", "the hub answered with status %d", res.StatusCode)
	}
	return hubError("http", answer.Error)
}

// As returns a client of the same hub that calls with another key and session.
func (c *Client) As(key, session string) *Client {
	return &Client{url: c.url, key: key, session: session, http: c.http}
}
