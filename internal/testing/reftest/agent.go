// Package reftest is an agent that behaves as the reference implementation of the
// protocol does, with its habits and its bugs, as they were measured. Tests run hubs
// against it.
//
// It keeps everything in memory. It reads no header, requires no key, stamps accepted
// objects with its own clock, replaces whole objects, announces a change to its peers
// while the caller waits, and drops a peer for ever after three failures.
//
// With PARLEY_REFERENCE set to a checkout of the reference implementation, each agent
// is the original, behind a proxy that records and gates its calls.
package reftest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"
)

// An Agent is a reference agent that listens on loopback.
type Agent struct {
	ID, Repo, Role, Language string

	original *original // nil for the double
	server   *httptest.Server
	client   *http.Client

	mu       sync.Mutex // guards what follows
	projects map[string]*project
	order    []string
	peers    map[string]*remote
	skew     time.Duration
	last     time.Time
	gate     func(http.ResponseWriter, *http.Request) bool
	calls    []Call
}

// A Call is a request that the agent got.
type Call struct {
	Method string
	Params json.RawMessage
	Header http.Header
}

// remote is a peer as the agent knows it.
type remote struct {
	id, endpoint, repo string
	healthy            bool
	failures           int
}

// New starts an agent. Whoever gets one must Close it. It panics when the original
// cannot be started.
func New(id, repo, role, language string) *Agent {
	a := &Agent{ID: id, Repo: repo, Role: role, Language: language, client: &http.Client{Timeout: 10 * time.Second}}
	a.forget()
	if dir := os.Getenv("PARLEY_REFERENCE"); dir != "" {
		var err error
		if a.original, err = startOriginal(dir, a); err != nil {
			panic(err)
		}
	}
	a.server = httptest.NewServer(http.HandlerFunc(a.serve))
	a.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return a
}

// URL returns where the agent listens.
func (a *Agent) URL() string { return a.server.URL }

// Close stops the agent.
func (a *Agent) Close() {
	a.server.CloseClientConnections()
	a.server.Close()
	if a.original != nil {
		a.original.close()
	}
	a.client.CloseIdleConnections()
}

// Restart forgets everything, as an agent without a file to persist to does.
func (a *Agent) Restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.original != nil {
		a.original.kill()
		if err := a.original.start(); err != nil {
			panic(err)
		}
	}
	a.forget()
}

func (a *Agent) forget() {
	a.projects = map[string]*project{}
	a.order = nil
	a.peers = map[string]*remote{}
}

// Skew sets how far the agent's clock is ahead of the true time. The original has the
// true time.
func (a *Agent) Skew(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.skew = d
}

// Gate lets a test answer requests in place of the agent: those for which gate
// returns true. nil ends that.
func (a *Agent) Gate(gate func(http.ResponseWriter, *http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gate = gate
}

// Calls returns the requests to the agent since the last time, oldest first.
func (a *Agent) Calls() []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.calls
	a.calls = nil
	return out
}

// now is the agent's clock: without a zone, and with microseconds.
func (a *Agent) now() moment {
	t := time.Now().Add(a.skew).UTC().Truncate(time.Microsecond)
	if !t.After(a.last) { // a faster machine than the reference was measured on
		t = a.last.Add(time.Microsecond)
	}
	a.last = t
	return moment{t: t}
}

// Register makes the agent tell a peer of its changes.
func (a *Agent) Register(id, endpoint, repo string) {
	if a.original != nil {
		a.original.register(id, endpoint, repo)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if id != a.ID {
		a.peers[id] = &remote{id: id, endpoint: strings.TrimRight(endpoint, "/"), repo: repo, healthy: true}
	}
}

// Healthy reports whether the agent still tells a peer of its changes.
func (a *Agent) Healthy(id string) bool {
	if a.original != nil {
		return a.original.healthy(id)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.peers[id]
	return ok && p.healthy
}

func (a *Agent) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	gate := a.gate
	a.mu.Unlock()
	if gate != nil && gate(w, r) {
		return
	}

	// The original agent gets all requests but calls as they are.
	if a.original != nil && (r.Method != http.MethodPost || r.URL.Path != "/") {
		a.original.proxy.ServeHTTP(w, r)
		return
	}

	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}

	switch r.Method + " " + r.URL.Path {
	case "POST /":
		status, answer := a.rpc(r.Header, body)
		reply(w, status, answer)
	case "POST /peers/register":
		var in struct {
			AgentID  *string `json:"agentId"`
			Endpoint *string `json:"endpoint"`
			RepoName string  `json:"repoName"`
		}
		if json.Unmarshal(body, &in) != nil || in.AgentID == nil || in.Endpoint == nil {
			reply(w, http.StatusInternalServerError, nil)
			return
		}
		a.Register(*in.AgentID, *in.Endpoint, in.RepoName)
		a.mu.Lock()
		p, n := a.peers[*in.AgentID], len(a.peers)
		a.mu.Unlock()
		if p != nil {
			a.call(p, "cacp/peer/announce", map[string]any{"agentId": a.ID, "endpoint": a.URL(), "repoName": a.Repo})
		}
		reply(w, http.StatusOK, map[string]any{"status": "registered", "peerCount": n})
	case "GET /peers":
		a.mu.Lock()
		peers := []map[string]any{}
		for _, p := range a.peers {
			peers = append(peers, map[string]any{"agentId": p.id, "endpoint": p.endpoint, "repoName": p.repo, "isHealthy": p.healthy})
		}
		a.mu.Unlock()
		reply(w, http.StatusOK, map[string]any{"peers": peers})
	case "GET /health":
		a.mu.Lock()
		n := len(a.peers)
		a.mu.Unlock()
		reply(w, http.StatusOK, map[string]any{"status": "healthy", "agentId": a.ID, "repo": a.Repo, "peerCount": n})
	case "GET /.well-known/agent.json":
		reply(w, http.StatusOK, map[string]any{
			"name": "CACP Agent (" + a.Repo + ")", "version": "2.0.0", "url": a.URL(),
			"protocols": map[string]string{"a2a": "0.3", "cacp": "2.0"}, "capabilities": []string{a.Language, a.Role},
			"extensions": map[string]any{"cacp": map[string]any{
				"repo": a.Repo, "role": a.Role, "language": a.Language, "agentId": a.ID, "supportedContractTypes": contractTypes,
			}},
		})
	default:
		reply(w, http.StatusNotFound, map[string]any{"detail": "Not Found"})
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) // a caller that is gone needs no answer
}

// rpc answers one request. A batch, or anything that is no object, makes the
// agent fail.
func (a *Agent) rpc(h http.Header, body []byte) (int, any) {
	if a.original != nil {
		return a.pass(h, body)
	}

	var any0 any
	if err := json.Unmarshal(body, &any0); err != nil {
		return http.StatusOK, response{Error: &rpcError{-32700, "Parse error: " + err.Error()}}
	}
	req, ok := any0.(map[string]any)
	if !ok {
		return http.StatusInternalServerError, nil
	}

	method, _ := req["method"].(string)
	res := response{ID: req["id"]}
	switch {
	case req["jsonrpc"] != "2.0":
		res.Error = &rpcError{-32600, "Invalid Request: jsonrpc must be '2.0'"}
		return http.StatusOK, res
	case method == "":
		res.Error = &rpcError{-32600, "Invalid Request: method is required"}
		return http.StatusOK, res
	}

	// Every valid request is recorded, also one for an unknown method.
	params, given := req["params"]
	if !given {
		params = map[string]any{}
	}
	raw, _ := json.Marshal(params) // was JSON a moment ago
	a.mu.Lock()
	a.calls = append(a.calls, Call{method, raw, h.Clone()})
	a.mu.Unlock()

	handle, ok := methods[method]
	if !ok {
		res.Error = &rpcError{-32601, "Method not found: " + method}
		return http.StatusOK, res
	}
	p, ok := params.(map[string]any)
	if !ok {
		res.Error = &rpcError{-32000, "Server error: params"}
		return http.StatusOK, res
	}

	// A change is announced to the peers once the lock is released.
	a.mu.Lock()
	result, announced, err := handle(a, dict(p))
	a.mu.Unlock()
	if err != nil {
		res.Error = err
		return http.StatusOK, res
	}
	res.Result = result
	if announced != nil {
		a.broadcast(*announced)
	}
	return http.StatusOK, res
}

// pass records a request and has the original answer it.
func (a *Agent) pass(h http.Header, body []byte) (int, any) {
	var req struct {
		Method string
		Params json.RawMessage
	}
	if json.Unmarshal(body, &req) == nil && req.Method != "" {
		a.mu.Lock()
		a.calls = append(a.calls, Call{req.Method, req.Params, h.Clone()})
		a.mu.Unlock()
	}
	status, raw, err := a.original.ask(http.MethodPost, "/", body)
	if err != nil {
		return http.StatusBadGateway, nil
	}
	var res response
	if json.Unmarshal(raw, &res) != nil {
		return status, nil
	}
	return status, res
}

// Do calls one of the agent's methods as its own user does, over HTTP, and
// reads the result into out, which may be nil.
func (a *Agent) Do(method string, params, out any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "user", "method": method, "params": params})
	if err != nil {
		return err
	}
	status, answer := a.rpc(http.Header{}, body)
	if status != http.StatusOK {
		return &rpcError{-32000, http.StatusText(status)}
	}
	res := answer.(response)
	if res.Error != nil {
		return res.Error
	}
	raw, err := json.Marshal(res.Result)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

type response struct {
	Result any       `json:"result,omitempty"`
	Error  *rpcError `json:"error,omitempty"`
	ID     any       `json:"id"`
}

// MarshalJSON adds the version.
func (r response) MarshalJSON() ([]byte, error) {
	m := map[string]any{"jsonrpc": "2.0", "id": r.ID}
	if r.Error != nil {
		m["error"] = r.Error
	} else {
		m["result"] = r.Result
	}
	return json.Marshal(m)
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// An announcement is a call that every healthy peer gets after a change.
type announcement struct {
	method string
	params map[string]any
}

// broadcast calls every healthy peer, at the same time, and waits.
func (a *Agent) broadcast(n announcement) {
	n.params["source_agent"] = a.ID
	a.mu.Lock()
	var healthy []*remote
	for _, p := range a.peers {
		if p.healthy {
			healthy = append(healthy, p)
		}
	}
	raw, err := json.Marshal(n.params) // a copy: the objects may change afterwards
	a.mu.Unlock()
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	for _, p := range healthy {
		wg.Go(func() { a.call(p, n.method, json.RawMessage(raw)) })
	}
	wg.Wait()
}

// call calls a peer. Only an HTTP status other than success counts as a failure.
func (a *Agent) call(p *remote, method string, params any) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params, "id": a.ID + "-1"})
	if err != nil {
		return
	}
	ok := a.post(p.endpoint, body)
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		p.healthy, p.failures = true, 0
	} else if p.failures++; p.failures >= 3 {
		p.healthy = false
	}
}

func (a *Agent) post(endpoint string, body []byte) bool {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, endpoint, bytes.NewReader(body)) // the client has a timeout
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Agent-ID", a.ID)
	req.Header.Set("X-Source-Endpoint", a.URL())
	res, err := a.client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode >= 200 && res.StatusCode < 300 && json.NewDecoder(res.Body).Decode(new(any)) == nil
}
