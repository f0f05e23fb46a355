// Package gatewaytest is an OpenClaw gateway for tests: the real one, and a stand-in
// that answers with frames recorded from it and can be made to do what the real one
// does not. Only tests import it.
//
// internal/reach/gateway/gateway_test.go runs the same tests against both.
package gatewaytest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

//go:embed testdata/frames
var recorded embed.FS

// frame returns a recorded frame.
func frame(name string) map[string]any {
	raw, err := recorded.ReadFile("testdata/frames/" + name + ".json")
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(err)
	}
	return out
}

// The tokens of both gateways.
const (
	Token      = "token-of-the-gateway"
	HooksToken = "token-of-its-hooks"
)

// A Call is a request that the stand-in got.
type Call struct {
	Method string
	Params map[string]any
}

// A Gateway is a gateway that listens.
type Gateway struct{ URL string }

// A StandIn is a gateway made of recorded frames. Its fields may be changed with Set.
type StandIn struct {
	Gateway
	Protocol int      // 4 or 3; another refuses every client
	Scopes   []string // the most that are granted
	Without  []string // methods that it does not have
	Starting int      // connections that are refused because it starts
	Tick     int64    // milliseconds between two ticks, which it announces
	Silent   bool     // it sends no tick
	CutAt    string   // the method in whose answer the connection is cut, once
	CutEarly bool     // it is cut before the method is executed
	// Before runs before a method is executed; may be nil.
	Before func(method string)

	t        testing.TB
	mu       sync.Mutex // guards the fields above and below
	calls    []Call
	links    map[*websocket.Conn]bool
	sessions map[string][]string // transcripts
	runs     map[string]bool     // idempotency keys
	items    map[string]map[string]any
}

// NewStandIn starts a stand-in that ends with the test.
func NewStandIn(t testing.TB) *StandIn {
	t.Attr("stand-in", "gateway")
	s := &StandIn{
		Protocol: 4, Scopes: []string{"operator.read", "operator.write", "operator.admin"}, Tick: 30000, t: t,
		links: map[*websocket.Conn]bool{}, sessions: map[string][]string{}, runs: map[string]bool{}, items: map[string]map[string]any{},
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Cut()
		server.Close()
	})
	s.URL = "ws" + strings.TrimPrefix(server.URL, "http")
	return s
}

// Set changes the fields of s.
func (s *StandIn) Set(change func(*StandIn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Cut ends all connections.
func (s *StandIn) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.links {
		c.CloseNow()
	}
}

// Calls returns the requests of a method so far, or all but connect if it is "".
func (s *StandIn) Calls(method string) (out []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Method == method || (method == "" && c.Method != "connect") {
			out = append(out, c)
		}
	}
	return out
}

// ServeHTTP serves the socket and the hooks.
func (s *StandIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hooks/wake" {
		s.hook(w, r)
		return
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	s.mu.Lock()
	s.links[c] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.links, c)
		s.mu.Unlock()
	}()
	s.serve(r.Context(), c)
}

// A request is a frame of a client. It has no other members.
type request struct {
	Type   string          `json:"type"`
	ID     string          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// strict decodes a closed object.
func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func (s *StandIn) serve(ctx context.Context, c *websocket.Conn) {
	send := func(f map[string]any) error {
		raw, err := json.Marshal(f)
		if err != nil {
			return err
		}
		return c.Write(ctx, websocket.MessageText, raw)
	}

	// The gateway speaks first: the client signs its challenge.
	challenge := frame("challenge")
	if send(challenge) != nil {
		return
	}

	var granted []string
	for first := true; ; first = false {
		_, raw, err := c.Read(ctx)
		if err != nil {
			return
		}
		var req request
		if err := strict(raw, &req); err != nil || req.Type != "req" || req.ID == "" {
			s.t.Errorf("the client sent a frame that the gateway refuses: %s", raw)
			return
		}

		// The first request is connect; it decides which scopes the later ones have.
		var answer map[string]any
		if first {
			answer, granted = s.connect(req, challenge["payload"].(map[string]any))
		} else {
			answer = s.answer(req, granted)
		}

		if answer == nil { // cut in the middle of a frame
			if w, err := c.Writer(ctx, websocket.MessageText); err == nil {
				w.Write([]byte(`{"type":"res","id":"`))
			}
			c.CloseNow()
			return
		}

		answer["id"] = req.ID
		s.mu.Lock()
		silent := s.Silent
		s.mu.Unlock()
		if send(answer) != nil || (!silent && send(frame("tick")) != nil) {
			return
		}
		if answer["ok"] != true && first {
			c.Close(websocket.StatusPolicyViolation, "refused")
			return
		}
	}
}

// connect checks the first request of a client.
func (s *StandIn) connect(req request, challenge map[string]any) (answer map[string]any, granted []string) {
	var p struct {
		Min    int `json:"minProtocol"`
		Max    int `json:"maxProtocol"`
		Client struct {
			ID, Version, Platform, Mode string
			DisplayName                 string `json:"displayName"`
		} `json:"client"`
		Role   string   `json:"role"`
		Scopes []string `json:"scopes"`
		Caps   []string `json:"caps"`
		Auth   struct {
			Token string `json:"token"`
		} `json:"auth"`
		Device struct {
			ID        string `json:"id"`
			PublicKey string `json:"publicKey"`
			Signature string `json:"signature"`
			SignedAt  int64  `json:"signedAt"`
			Nonce     string `json:"nonce"`
		} `json:"device"`
	}

	if err := strict(req.Params, &p); err != nil || req.Method != "connect" || p.Client.ID != "gateway-client" || p.Client.Mode != "backend" || p.Role != "operator" {
		s.t.Errorf("the gateway refuses this connect: %s (%v)", req.Params, err)
	}
	s.record(req)
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.Starting > 0 {
		s.Starting--
		return frame("starting"), nil
	}
	if s.Protocol < p.Min || s.Protocol > p.Max {
		answer = frame("protocol-mismatch")
		answer["error"].(map[string]any)["details"].(map[string]any)["expectedProtocol"] = s.Protocol
		return answer, nil
	}
	if p.Auth.Token != Token {
		return frame("token-mismatch"), nil
	}

	// The device signs the challenge with a key, and the hash of that key is its id.
	public, _ := base64.RawURLEncoding.DecodeString(p.Device.PublicKey)
	signature, _ := base64.RawURLEncoding.DecodeString(p.Device.Signature)
	sum := sha256.Sum256(public)
	text := fmt.Sprintf("v2|%s|%s|%s|%s|%s|%d|%s|%s", hex.EncodeToString(sum[:]), p.Client.ID, p.Client.Mode, p.Role, strings.Join(p.Scopes, ","), int64(challenge["ts"].(float64)), Token, challenge["nonce"])
	if len(public) != ed25519.PublicKeySize || p.Device.ID != hex.EncodeToString(sum[:]) || p.Device.Nonce != challenge["nonce"] || !ed25519.Verify(public, []byte(text), signature) {
		s.t.Errorf("the device is not signed as the gateway wants: %s", req.Params)
	}

	// The hello names the scopes that are granted and the methods that the gateway has.
	answer = frame("hello")
	payload := answer["payload"].(map[string]any)
	payload["protocol"] = s.Protocol
	for _, scope := range p.Scopes {
		if slices.Contains(s.Scopes, scope) {
			granted = append(granted, scope)
		}
	}
	payload["auth"].(map[string]any)["scopes"] = granted
	payload["policy"].(map[string]any)["tickIntervalMs"] = s.Tick

	var methods []any
	for _, m := range append(payload["features"].(map[string]any)["methods"].([]any), "workq.claim", "workq.release", "workq.query", "workq.status") {
		if !slices.Contains(s.Without, m.(string)) {
			methods = append(methods, m)
		}
	}
	payload["features"].(map[string]any)["methods"] = methods
	return answer, granted
}

func (s *StandIn) record(req request) map[string]any {
	params := map[string]any{}
	json.Unmarshal(req.Params, &params)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{req.Method, params})
	return params
}

// answer executes a method. It returns nil if the connection is to be cut.
func (s *StandIn) answer(req request, granted []string) map[string]any {
	params := s.record(req)
	s.mu.Lock()
	before := s.Before
	cut := s.CutAt == req.Method
	early := s.CutEarly
	if cut {
		s.CutAt = ""
	}
	s.mu.Unlock()
	if cut && early {
		return nil
	}
	if before != nil {
		before(req.Method)
	}
	out := s.execute(req.Method, params, granted)
	if cut {
		return nil
	}
	return out
}

func ok(payload map[string]any) map[string]any {
	return map[string]any{"type": "res", "ok": true, "payload": payload}
}

func (s *StandIn) execute(method string, params map[string]any, granted []string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.Without, method) {
		return frame("unknown-method")
	}
	if admin := method == "chat.inject" || strings.HasPrefix(method, "workq."); admin && !slices.Contains(granted, "operator.admin") {
		return frame("missing-scope")
	}

	key, _ := params["sessionKey"].(string)
	switch text, _ := params["message"].(string); method {
	case "chat.send":
		id := params["idempotencyKey"].(string)
		if s.runs[id] {
			return ok(map[string]any{"runId": id, "status": "in_flight"})
		}
		s.runs[id] = true
		s.sessions[key] = append(s.sessions[key], text)
		return ok(map[string]any{"runId": id, "status": "started"})
	case "sessions.create":
		s.sessions[params["key"].(string)] = []string{}
		return ok(map[string]any{"ok": true, "runStarted": false})
	case "sessions.delete":
		delete(s.sessions, params["key"].(string))
		return ok(map[string]any{"ok": true, "deleted": true})
	case "chat.inject":
		if s.sessions[key] == nil {
			return frame("session-not-found")
		}
		s.sessions[key] = append(s.sessions[key], text)
		return ok(map[string]any{"ok": true, "messageId": "40d15021"})
	case "chat.history":
		var messages []any
		for _, m := range s.sessions[key] {
			messages = append(messages, map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": m}}})
		}
		return ok(map[string]any{"sessionKey": key, "messages": messages, "sessionInfo": map[string]any{"key": key, "hasActiveRun": false}})
	case "wake":
		if s.Protocol == 3 && len(params) != 2 {
			s.t.Errorf("a gateway of protocol 3 refuses %v", params)
		}
		return ok(map[string]any{"ok": true})
	case "send":
		if params["channel"] == "nothing" {
			return frame("unsupported-channel")
		}
		return ok(map[string]any{"runId": params["idempotencyKey"], "messageId": "1", "channel": params["channel"]})
	}

	// The queue is a plugin of the gateway, whose errors come as the payload of a refusal.
	if name, isQueue := strings.CutPrefix(method, "workq."); isQueue && slices.Contains([]string{"claim", "release", "query", "status"}, name) {
		out, err := s.queue(name, params)
		if err != nil {
			refusal := frame("plugin-error")
			refusal["payload"] = map[string]any{"error": err.Error()}
			return refusal
		}
		return ok(out)
	}
	return frame("unknown-method")
}

// queue executes a method of the queue as the plugin of the tests does.
func (s *StandIn) queue(method string, p map[string]any) (map[string]any, error) {
	ref, _ := p["issue_ref"].(string)
	item := s.items[ref]
	open := item != nil && item["status"] != "dropped" && item["status"] != "done"

	if method == "query" {
		found := []any{}
		if item != nil && (open || p["active_only"] == false) {
			found = append(found, item)
		}
		return map[string]any{"items": found, "total": len(found)}, nil
	}

	if ref == "" || p["agent_id"] == nil {
		return nil, fmt.Errorf("issue_ref is required")
	}

	// Only the agent that claimed an item may release it or change its status.
	mine := open && item["agentId"] == p["agent_id"]
	switch {
	case method == "claim" && mine:
		return map[string]any{"status": "already_yours", "item": item}, nil
	case method == "claim" && item != nil && item["status"] != "dropped":
		return map[string]any{"status": "conflict", "issueRef": ref, "claimedBy": item["agentId"], "currentStatus": item["status"]}, nil
	case method == "claim":
		item = map[string]any{"issueRef": ref, "agentId": p["agent_id"], "status": "claimed", "title": p["title"], "branch": p["branch"], "claimedSessionKey": p["session_key"]}
		s.items[ref] = item
		return map[string]any{"status": "claimed", "item": item}, nil
	case !mine:
		return nil, fmt.Errorf("not your work item: %s", ref)
	case method == "release":
		item["status"] = "dropped"
		return map[string]any{"status": "dropped", "issueRef": ref}, nil
	}

	if p["status"] == "blocked" && p["reason"] == nil {
		return nil, fmt.Errorf("reason is required when setting status=blocked")
	}
	item["status"], item["blockedReason"] = p["status"], p["reason"]
	return map[string]any{"status": "updated", "issueRef": ref, "to": p["status"]}, nil
}

// hook serves POST /hooks/wake.
func (s *StandIn) hook(w http.ResponseWriter, r *http.Request) {
	var p map[string]any
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		s.t.Errorf("hooks/wake: %v", err)
	}
	w.Header().Set("Content-Type", "application/json")
	switch text, _ := p["text"].(string); {
	case r.Header.Get("Authorization") != "Bearer "+HooksToken:
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	case text == "":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"ok":false,"error":"text required"}`)
	default:
		s.mu.Lock()
		s.calls = append(s.calls, Call{"hooks/wake", p})
		s.mu.Unlock()
		fmt.Fprint(w, `{"ok":true,"mode":"now","eventOutcome":"queued"}`)
	}
}
