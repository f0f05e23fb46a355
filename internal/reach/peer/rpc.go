package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// The methods that this package calls on other hubs. The last four are asked
// of hubs that say SyncBatches on their card, and answered by Syncer.Answer.
const (
	methodProjectSync  = "cacp/project/sync"
	methodRepoSync     = "cacp/repo/sync"
	methodContractSync = "cacp/contract/sync"
	methodContextSync  = "cacp/context/sync"
	methodProjectGet   = "cacp/project/get"
	methodProjectList  = "cacp/project/list"
	methodContractGet  = "cacp/contract/get"
	methodInviteRedeem = "cacp/invite/redeem"

	MethodSyncProjects = "cacp/sync/projects"
	MethodSyncSummary  = "cacp/sync/summary"
	MethodSyncPackets  = "cacp/sync/packets"
	MethodSyncCopies   = "cacp/sync/copies"
)

// A Refusal is a JSON-RPC error that a peer answered with. The peer is well;
// it does not want this.
type Refusal struct {
	Code    int
	Reason  hub.Code // if the peer gave one
	Message string
}

// Error returns what the peer said, cut to a line.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the peer refused with %d: %s", r.Code, cut(strings.Join(strings.Fields(r.Message), " "), 300))
}

// missing reports whether the refusal means that something is not there.
func (r *Refusal) missing() bool {
	return r.Reason == hub.CodeNotFound || strings.HasSuffix(strings.TrimSpace(r.Message), "not found")
}

// A line is how one peer is called.
type line struct {
	client   *Client
	endpoint string
	self     hub.AID
	home     string // where this hub is reached
	key      string // that the peer knows us by; may be empty
}

func (l line) header() http.Header {
	h := http.Header{}
	h.Set("X-Agent-ID", string(l.self))
	h.Set("X-Source-Endpoint", l.home)
	if l.key != "" {
		h.Set("Authorization", "Bearer "+l.key)
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
		Data    json.RawMessage `json:"data"` // other programs put there what they like
	} `json:"error"`
}

// refusal returns the error that a peer answered with, or nil.
func (r reply) refusal() *Refusal {
	if r.Error == nil {
		return nil
	}
	var data struct{ Reason hub.Code }
	json.Unmarshal(r.Error.Data, &data) // a reason is welcome, not required
	return &Refusal{r.Error.Code, data.Reason, r.Error.Message}
}

// post sends what a peer should read as JSON-RPC and returns what came back.
func (l line) post(ctx context.Context, body []byte) ([]byte, error) {
	const op = "peer.Call"
	a, err := l.client.do(ctx, call{method: http.MethodPost, url: l.endpoint, header: l.header(), body: body})
	if err != nil {
		return nil, err
	}
	switch {
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return nil, hub.Errorf(hub.CodeUnreachable, op, "%s does not let this hub in: status %d", l.endpoint, a.Status).
			WithHint("exchange keys again: parley peer invite on the one side, parley peer join on the other")
	case a.Status != http.StatusOK:
		return nil, hub.Errorf(hub.CodeUnreachable, op, "%s answered with status %d", l.endpoint, a.Status)
	}
	return bytes.TrimSpace(a.Body), nil
}

// call asks one thing and reads the result into out.
func (l line) call(ctx context.Context, method string, params, out any) error {
	body, err := encode(request{"2.0", 1, method, params})
	if err != nil {
		return err
	}
	raw, err := l.post(ctx, body)
	if err != nil {
		return err
	}
	var r reply
	if json.Unmarshal(raw, &r) != nil {
		return garbled(l.endpoint)
	}
	if refusal := r.refusal(); refusal != nil {
		return refusal
	}
	if json.Unmarshal(r.Result, out) != nil {
		return garbled(l.endpoint)
	}
	return nil
}

// A parcel is a copy on its way: the method that delivers it and its
// parameters.
type parcel struct {
	copy   hub.Copy
	method string
	params json.RawMessage
}

// pack makes a parcel of a copy.
func pack(c hub.Copy, self hub.AID) (parcel, error) {
	p := parcel{copy: c}
	switch {
	case c.Head != nil:
		p.method = methodProjectSync
	case c.Repo != nil:
		p.method = methodRepoSync
	case c.Contract != nil:
		p.method = methodContractSync
	default:
		p.method = methodContextSync
	}
	raw, err := encode(struct {
		hub.Copy
		Source hub.AID `json:"source_agent"`
	}{c, self})
	p.params = raw
	return p, err
}

// batch sends parcels in one request and returns what became of each, in
// order. A refusal of one parcel is its own status; a refusal of the request as
// a whole is an error.
func (l line) batch(ctx context.Context, parcels []parcel) ([]hub.Synced, error) {
	requests := make([]request, len(parcels))
	for i, p := range parcels {
		requests[i] = request{"2.0", i, p.method, p.params}
	}
	body, err := encode(requests)
	if err != nil {
		return nil, err
	}
	raw, err := l.post(ctx, body)
	if err != nil {
		return nil, err
	}
	var whole reply
	if json.Unmarshal(raw, &whole) == nil {
		if refusal := whole.refusal(); refusal != nil {
			return nil, refusal
		}
	}
	var replies []reply
	if json.Unmarshal(raw, &replies) != nil || len(replies) != len(parcels) {
		return nil, garbled(l.endpoint)
	}
	out := make([]hub.Synced, len(parcels))
	seen := make([]bool, len(parcels))
	for _, r := range replies {
		var i int
		if json.Unmarshal(r.ID, &i) != nil || i < 0 || i >= len(parcels) || seen[i] {
			return nil, garbled(l.endpoint)
		}
		seen[i] = true
		if out[i], err = synced(l.endpoint, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// synced reads what became of one parcel.
func synced(endpoint string, r reply) (hub.Synced, error) {
	var s hub.Synced
	if refusal := r.refusal(); refusal != nil {
		s = hub.Synced{Status: hub.SyncError, Reason: refusal.Error(), Code: refusal.Reason}
		if refusal.missing() {
			s.Code = hub.CodeNotFound
		}
		return s, nil
	}
	if json.Unmarshal(r.Result, &s) != nil {
		return s, garbled(endpoint)
	}
	switch s.Status {
	case hub.SyncCreated, hub.SyncUpdated, hub.SyncSkipped:
	case hub.SyncError:
		if s.Code == "" && strings.HasSuffix(s.Reason, "not found") {
			s.Code = hub.CodeNotFound
		}
		s.Reason = cut(s.Reason, 300)
	default:
		return s, garbled(endpoint)
	}
	return s, nil
}

// send delivers one parcel by itself.
func (l line) send(ctx context.Context, p parcel) (hub.Synced, error) {
	body, err := encode(request{"2.0", 1, p.method, p.params})
	if err != nil {
		return hub.Synced{}, err
	}
	raw, err := l.post(ctx, body)
	if err != nil {
		return hub.Synced{}, err
	}
	var r reply
	if json.Unmarshal(raw, &r) != nil {
		return hub.Synced{}, garbled(l.endpoint)
	}
	return synced(l.endpoint, r)
}

func garbled(endpoint string) error {
	return hub.Errorf(hub.CodeUnreachable, "peer.Call", "the answer of %s makes no sense", endpoint)
}

// encode is json.Marshal without escapes for HTML: content goes out as it came
// in.
func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("peer: encode: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// register tells a peer where this hub is, as agents that never ask need it.
func (l line) register(ctx context.Context, repo string) error {
	body, err := encode(map[string]any{"agentId": l.self, "endpoint": l.home, "repoName": repo})
	if err != nil {
		return err
	}
	a, err := l.client.do(ctx, call{method: http.MethodPost, url: l.endpoint + RegisterPath, header: l.header(), body: body})
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return hub.Errorf(hub.CodeUnreachable, "peer.Register", "%s did not register this hub: status %d", l.endpoint, a.Status)
	}
	return nil
}

// Redeem hands an invite in at the hub that gave it out.
func (c *Client) Redeem(ctx context.Context, endpoint string, r hub.Redemption) (hub.Welcome, error) {
	endpoint, err := hub.ParseEndpoint(endpoint)
	if err != nil {
		return hub.Welcome{}, err
	}
	var w hub.Welcome
	err = line{client: c, endpoint: endpoint, self: r.AID, home: r.Endpoint}.call(ctx, methodInviteRedeem, r, &w)
	return w, err
}
