package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// The methods that this package calls on other hubs. The last five are for hubs whose
// card says SyncBatches; the Syncer of such a hub answers them.
const (
	methodProjectSync  = "cacp/project/sync"
	methodProjectGet   = "cacp/project/get"
	methodProjectList  = "cacp/project/list"
	methodContractGet  = "cacp/contract/get"
	methodInviteRedeem = "cacp/invite/redeem"

	methodSyncProjects = "cacp/sync/projects"
	methodSyncSummary  = "cacp/sync/summary"
	methodSyncPackets  = "cacp/sync/packets"
	methodSyncCopies   = "cacp/sync/copies"
	methodSyncVersions = "cacp/sync/versions"
)

// A Refusal is a JSON-RPC error from a peer. The peer is up and rejects the call.
type Refusal struct {
	Code    int
	Reason  hub.Code // if the peer gave one
	Message string
	Retry   time.Duration // until the peer takes the request; 0 if it did not say
}

// Error returns the message of the peer, cut to a line.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the peer refused with %d: %s", r.Code, shorten.Line(r.Message, 300))
}

// missing reports whether the peer refused because it does not have the thing.
func (r *Refusal) missing() bool {
	return r.Reason == hub.CodeNotFound || strings.HasSuffix(strings.TrimSpace(r.Message), "not found")
}

// maxRetryAfter bounds the wait that a peer can ask for.
const maxRetryAfter = 10 * time.Minute

// A remote calls one peer.
type remote struct {
	client   *Client
	endpoint string
	self     coord.AID
	home     string // endpoint of this hub
	key      string // of this hub at the peer; may be empty
}

func (r remote) header() http.Header {
	h := http.Header{}
	h.Set("X-Agent-ID", string(r.self))
	h.Set("X-Source-Endpoint", r.home)
	if r.key != "" {
		h.Set("Authorization", "Bearer "+r.key)
	}
	return h
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type reply struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"` // other programs put any value there
	} `json:"error"`
}

// refusal returns the error in a reply, or nil.
func (r reply) refusal() *Refusal {
	if r.Error == nil {
		return nil
	}
	var data struct {
		Reason hub.Code
		Retry  float64 `json:"retry_after_s"`
	}
	json.Unmarshal(r.Error.Data, &data) // a reason is optional
	retry := time.Duration(min(max(data.Retry, 0), maxRetryAfter.Seconds()) * float64(time.Second))
	return &Refusal{r.Error.Code, data.Reason, r.Error.Message, retry}
}

// post sends a JSON-RPC body and returns the body of the answer.
func (r remote) post(ctx context.Context, body []byte) ([]byte, error) {
	const op = "peer.Call"
	a, err := r.client.do(ctx, call{method: http.MethodPost, url: r.endpoint, header: r.header(), body: body})
	if err != nil {
		return nil, err
	}
	switch {
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return nil, hub.Errorf(hub.CodeUnreachable, op, "%s refused the key of this hub: status %d", r.endpoint, a.Status).
			WithHint("exchange keys again: run \"parley peer invite\" on one hub and \"parley peer join\" on the other")
	case a.Status != http.StatusOK:
		return nil, hub.Errorf(hub.CodeUnreachable, op, "%s answered with status %d", r.endpoint, a.Status)
	}
	return bytes.TrimSpace(a.Body), nil
}

// roundTrip calls one method and returns the reply.
func (r remote) roundTrip(ctx context.Context, method string, params any) (reply, error) {
	var out reply
	body, err := encode(request{"2.0", 1, method, params})
	if err != nil {
		return out, err
	}
	raw, err := r.post(ctx, body)
	if err != nil {
		return out, err
	}
	if json.Unmarshal(raw, &out) != nil {
		return out, garbled(r.endpoint)
	}
	return out, nil
}

// call calls one method and reads the result into out.
func (r remote) call(ctx context.Context, method string, params, out any) error {
	answer, err := r.roundTrip(ctx, method, params)
	if err != nil {
		return err
	}
	if refusal := answer.refusal(); refusal != nil {
		return refusal
	}
	if json.Unmarshal(answer.Result, out) != nil {
		return garbled(r.endpoint)
	}
	return nil
}

// A syncCall is the call that sends a copy to a peer.
type syncCall struct {
	copy   federation.Copy
	method string
	params json.RawMessage
}

// pack returns the call that sends a copy.
func pack(c federation.Copy, self coord.AID) (syncCall, error) {
	raw, err := encode(struct {
		federation.Copy
		Source coord.AID `json:"source_agent"`
	}{c, self})
	return syncCall{c, "cacp/" + string(c.Change().Kind) + "/sync", raw}, err
}

// batch sends calls in one request and returns the outcome of each, in
// order. A refusal of one syncCall is its own status; a refusal of the request as
// a whole is an error.
func (r remote) batch(ctx context.Context, calls []syncCall) ([]federation.SyncResult, error) {
	requests := make([]request, len(calls))
	for i, p := range calls {
		requests[i] = request{"2.0", i, p.method, p.params}
	}
	body, err := encode(requests)
	if err != nil {
		return nil, err
	}

	raw, err := r.post(ctx, body)
	if err != nil {
		return nil, err
	}

	// A refusal of the whole request is one reply and not a list.
	var whole reply
	if json.Unmarshal(raw, &whole) == nil {
		if refusal := whole.refusal(); refusal != nil {
			return nil, refusal
		}
	}

	var replies []reply
	if json.Unmarshal(raw, &replies) != nil || len(replies) != len(calls) {
		return nil, garbled(r.endpoint)
	}

	// The replies may come in any order, each once.
	out := make([]federation.SyncResult, len(calls))
	seen := make([]bool, len(calls))
	for _, answer := range replies {
		var i int
		isExpected := json.Unmarshal(answer.ID, &i) == nil && i >= 0 && i < len(calls) && !seen[i]
		if !isExpected {
			return nil, garbled(r.endpoint)
		}
		seen[i] = true
		if out[i], err = synced(r.endpoint, answer); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// synced reads the outcome of one syncCall.
func synced(endpoint string, r reply) (federation.SyncResult, error) {
	var s federation.SyncResult
	if refusal := r.refusal(); refusal != nil {
		if refusal.Reason == hub.CodeRateLimited {
			return s, hub.Errorf(hub.CodeRateLimited, "peer.Send", "%s does not accept more changes for now: %s", endpoint, refusal.Message).WithRetry(refusal.Retry)
		}
		s = federation.SyncResult{Status: federation.SyncError, Reason: refusal.Error(), Code: refusal.Reason}
		if refusal.missing() {
			s.Code = hub.CodeNotFound
		}
		return s, nil
	}
	if json.Unmarshal(r.Result, &s) != nil {
		return s, garbled(endpoint)
	}
	switch s.Status {
	case federation.SyncCreated, federation.SyncUpdated, federation.SyncSkipped:
	case federation.SyncError:
		if s.Code == "" && strings.HasSuffix(s.Reason, "not found") {
			s.Code = hub.CodeNotFound
		}
		s.Reason = shorten.Bytes(s.Reason, 300)
	default:
		return s, garbled(endpoint)
	}
	return s, nil
}

// send makes one syncCall by itself.
func (r remote) send(ctx context.Context, c syncCall) (federation.SyncResult, error) {
	answer, err := r.roundTrip(ctx, c.method, c.params)
	if err != nil {
		return federation.SyncResult{}, err
	}
	return synced(r.endpoint, answer)
}

func garbled(endpoint string) error {
	return hub.Errorf(hub.CodeUnreachable, "peer.Call", "the answer of %s is malformed", endpoint)
}

// encode encodes v without escapes for HTML: content goes out as it came in.
func encode(v any) (json.RawMessage, error) {
	raw, err := strictjson.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("peer: encode: %w", err)
	}
	return raw, nil
}

// register sends the endpoint of this hub to an agent that does not look it up.
func (r remote) register(ctx context.Context, repo string) error {
	body, err := encode(map[string]any{"agentId": r.self, "endpoint": r.home, "repoName": repo})
	if err != nil {
		return err
	}
	a, err := r.client.do(ctx, call{method: http.MethodPost, url: r.endpoint + RegisterPath, header: r.header(), body: body})
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return hub.Errorf(hub.CodeUnreachable, "peer.Register", "%s did not register this hub: status %d", r.endpoint, a.Status)
	}
	return nil
}

// knows reports whether the agent has this hub among its peers and still calls it. An
// agent that does not tell is taken to.
func (r remote) knows(ctx context.Context) (bool, error) {
	a, err := r.client.do(ctx, call{method: http.MethodGet, url: r.endpoint + PeersPath, header: r.header()})
	if err != nil {
		return false, err
	}
	var v struct {
		Peers []struct {
			AID     coord.AID `json:"agentId"`
			Healthy *bool     `json:"isHealthy"`
		} `json:"peers"`
	}
	if a.Status != http.StatusOK || json.Unmarshal(a.Body, &v) != nil || v.Peers == nil {
		return true, nil
	}
	for _, p := range v.Peers {
		if p.AID == r.self {
			return p.Healthy == nil || *p.Healthy, nil
		}
	}
	return false, nil
}

// Redeem redeems an invite at the hub that issued it.
func (c *Client) Redeem(ctx context.Context, endpoint string, r federation.Redemption) (federation.Welcome, error) {
	endpoint, err := federation.ParseEndpoint(endpoint)
	if err != nil {
		return federation.Welcome{}, err
	}
	var w federation.Welcome
	err = remote{client: c, endpoint: endpoint, self: r.AID, home: r.Endpoint}.call(ctx, methodInviteRedeem, r, &w)
	return w, err
}
