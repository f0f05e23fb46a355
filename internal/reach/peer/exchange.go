package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// An Exchange is a directory of agents. Exchanges differ in their answers, so every
// known form is read. There is no default one: a hub contacts only a configured
// exchange.
type Exchange struct {
	client *Client
	base   string
}

// NewExchange returns the exchange at a base URL.
func NewExchange(c *Client, base string) (*Exchange, error) {
	if base == "" {
		return nil, hub.Errorf(hub.CodeNotEnabled, "peer.NewExchange", "no exchange is configured").
			WithHint("name one: parley peer find --exchange URL")
	}
	base, err := federation.ParseEndpoint(base)
	if err != nil {
		return nil, err
	}
	return &Exchange{c, base}, nil
}

// A Search is a query for agents.
type Search struct {
	Query   string        `json:"query"`
	Filters SearchFilters `json:"filters"`
	Limit   int           `json:"limit"` // default 10, at most 100
}

// SearchFilters restricts a search. An empty member restricts nothing.
type SearchFilters struct {
	Protocols []string `json:"protocols,omitempty"`
}

// Search returns agents that match, best first. Entries that cannot be read are
// left out.
func (e *Exchange) Search(ctx context.Context, s Search) ([]federation.Discovery, error) {
	const op = "peer.Search"
	if s.Limit <= 0 {
		s.Limit = 10
	}
	s.Limit = min(s.Limit, 100)
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("peer: search: %w", err)
	}
	a, err := e.client.do(ctx, call{method: http.MethodPost, url: e.base + "/v1/search/", body: body})
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, e.refusal(op, a)
	}
	return decodeListings(op, a.Body, s.Limit)
}

// decodeListings reads a list of agents, bare or with an envelope around it.
func decodeListings(op string, body []byte, limit int) ([]federation.Discovery, error) {
	var raw []json.RawMessage
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' {
		if json.Unmarshal(body, &raw) != nil {
			return nil, nonsense(op)
		}
	} else {
		var envelope struct{ Results, Agents []json.RawMessage }
		if json.Unmarshal(body, &envelope) != nil {
			return nil, nonsense(op)
		}
		raw = append(envelope.Results, envelope.Agents...)
	}
	out := []federation.Discovery{}
	for _, r := range raw {
		var l listing
		if json.Unmarshal(r, &l) != nil {
			continue
		}
		if f, ok := l.found(); ok && len(out) < limit {
			out = append(out, f)
		}
	}
	return out, nil
}

// Agent returns one agent. It reports CodeNotFound when the exchange does not
// know it, and CodeTampering when it answers with another.
func (e *Exchange) Agent(ctx context.Context, aid string) (federation.Discovery, error) {
	const op = "peer.Agent"
	if _, err := ParseAID(aid); err != nil {
		return federation.Discovery{}, hub.Errorf(hub.CodeInvalid, op, "%w", err)
	}
	a, err := e.client.do(ctx, call{method: http.MethodGet, url: e.base + "/v1/agents/" + url.QueryEscape(aid)})
	if err != nil {
		return federation.Discovery{}, err
	}
	switch a.Status {
	case http.StatusOK:
	case http.StatusNotFound:
		return federation.Discovery{}, hub.Errorf(hub.CodeNotFound, op, "no agent with id %s in the exchange", aid)
	default:
		return federation.Discovery{}, e.refusal(op, a)
	}
	var l listing
	if json.Unmarshal(a.Body, &l) != nil {
		return federation.Discovery{}, nonsense(op)
	}
	f, ok := l.found()
	if !ok {
		return federation.Discovery{}, nonsense(op)
	}
	if f.AID != aid {
		return federation.Discovery{}, hub.Errorf(hub.CodeTampering, op, "the exchange answered a request for %s with %.100q", aid, f.AID)
	}
	return f, nil
}

// Register registers this hub at the exchange. An exchange that has the hub already,
// at the same endpoint, is a success.
func (e *Exchange) Register(ctx context.Context, m Manifest) (federation.Registration, error) {
	const op = "peer.Register"
	body, err := json.Marshal(map[string]any{"manifest": m})
	if err != nil {
		return federation.Registration{}, fmt.Errorf("peer: register: %w", err)
	}
	a, err := e.client.do(ctx, call{method: http.MethodPost, url: e.base + "/v1/register/", body: body})
	if err != nil {
		return federation.Registration{}, err
	}
	switch {
	case a.Status == http.StatusConflict:
		return e.registered(ctx, op, m)
	case a.Status < 200 || a.Status > 299:
		return federation.Registration{}, e.refusal(op, a)
	}
	var v struct {
		Success  *bool
		Verified bool
		Message  string
	}
	if json.Unmarshal(a.Body, &v) != nil {
		return federation.Registration{}, nonsense(op)
	}
	if v.Success != nil && !*v.Success {
		return federation.Registration{}, hub.Errorf(hub.CodeInvalid, op, "the exchange did not register %s: %s", m.AID, shorten.Bytes(v.Message, 300))
	}
	return federation.Registration{AID: m.AID, Verified: v.Verified}, nil
}

// registered compares the exchange's entry for this hub with the manifest.
func (e *Exchange) registered(ctx context.Context, op string, m Manifest) (federation.Registration, error) {
	f, err := e.Agent(ctx, m.AID)
	if err != nil {
		return federation.Registration{}, err
	}
	for _, p := range m.Invocation.Protocols {
		if p.Endpoint == f.Endpoint {
			return federation.Registration{AID: m.AID, Verified: f.Verified, Existed: true}, nil
		}
	}
	return federation.Registration{}, hub.Errorf(hub.CodeConflict, op, "the exchange already has %s at %q", m.AID, f.Endpoint).
		WithHint("if that is an older address of this hub, ask the exchange to change it, or register another version of the agent id")
}

func nonsense(op string) error {
	return hub.Errorf(hub.CodeUnreachable, op, "the answer of the exchange is malformed")
}

// refusal returns the error of an exchange with its own text.
func (e *Exchange) refusal(op string, a Answer) error {
	var v struct {
		Detail         json.RawMessage
		Error, Message string
	}
	json.Unmarshal(a.Body, &v) // an answer that is not JSON has no text
	words := nonEmpty(v.Error, v.Message)
	var text string
	var list []struct {
		Loc []any
		Msg string
	}
	if json.Unmarshal(v.Detail, &text) == nil {
		words = append(words, text)
	} else if json.Unmarshal(v.Detail, &list) == nil {
		for _, d := range list {
			words = append(words, strings.Trim(fmt.Sprint(d.Loc...), " ")+": "+d.Msg)
		}
	}
	code := hub.CodeUnreachable
	switch {
	case a.Status == http.StatusTooManyRequests:
		code = hub.CodeRateLimited
	case a.Status >= 400 && a.Status < 500:
		code = hub.CodeInvalid
	}
	return hub.Errorf(code, op, "the exchange answered with status %d: %s", a.Status, shorten.Bytes(strings.Join(words, "; "), 500))
}

// Discover returns agents that speak coordination, for a role and languages; both may
// be empty.
func (e *Exchange) Discover(ctx context.Context, role string, languages []string, limit int) ([]federation.Discovery, error) {
	words := append(nonEmpty("cacp protocol coding", role), languages...)
	found, err := e.Search(ctx, Search{Query: strings.Join(words, " "), Filters: SearchFilters{Protocols: []string{"cacp"}}, Limit: limit})
	if err != nil {
		return nil, err
	}
	out := []federation.Discovery{}
	for _, f := range found {
		if f.Version != "" {
			out = append(out, f)
		}
	}
	return out, nil
}

// Vouch reports whether the exchange verified the agent, at that endpoint.
func (e *Exchange) Vouch(ctx context.Context, aid coord.AID, endpoint string) (bool, error) {
	f, err := e.Agent(ctx, string(aid))
	switch hub.CodeOf(err) {
	case "":
		return f.Verified && f.Endpoint == endpoint, nil
	case hub.CodeNotFound, hub.CodeInvalid, hub.CodeTampering:
		return false, nil
	}
	return false, err
}
