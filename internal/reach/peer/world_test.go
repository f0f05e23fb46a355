package peer_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/federation"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/vault"
)

// A node is a hub as far as coordination goes: a real store, the real services
// and a real syncer, over real HTTP.
type node struct {
	t         testing.TB
	aid       hub.AID
	repo      string
	store     *sqlite.Store
	hints     *bus.Local
	contracts *contract.Service
	peers     *peers.Service
	callers   *callers.Service
	syncer    *peer.Syncer
	server    *httptest.Server
	stop      func()

	mu   sync.Mutex
	gate func(http.ResponseWriter, *http.Request) bool // answers in place of the node
	took []string                                      // methods of what came in, in order
}

var operator = hub.Caller{ID: hub.Operator}

// quick makes a syncer try again at once.
func quick() *peer.Options {
	return &peer.Options{Retry: time.Millisecond, MaxRetry: 20 * time.Millisecond, Poll: 20 * time.Millisecond, Compare: time.Hour}
}

func newNode(t testing.TB, name string, opts *peer.Options) *node {
	t.Helper()
	return newNodeWith(t, name, opts, peer.ClientOptions{Guard: loopback, Timeout: 5 * time.Second})
}

func newNodeWith(t testing.TB, name string, opts *peer.Options, out peer.ClientOptions) *node {
	t.Helper()
	return newNodeIn(t, name, t.TempDir(), opts, out)
}

func newNodeIn(t testing.TB, name, home string, opts *peer.Options, out peer.ClientOptions) *node {
	t.Helper()
	n := &node{t: t, aid: hub.AID("aid://" + name + ".example/" + name + "@1.0.0"), repo: name + "-repo", hints: new(bus.Local), stop: func() {}}
	var err error
	if n.store, err = sqlite.Open(home, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.store.Close() })
	secrets, err := vault.Open(home + "/secrets.key")
	if err != nil {
		t.Fatal(err)
	}
	n.server = httptest.NewServer(http.HandlerFunc(n.serve))
	t.Cleanup(n.server.Close)
	n.peers = peers.New(n.store, &peers.Options{Bus: n.hints, Vault: secrets, Self: n.aid, Home: n.server.URL, Repo: n.repo})
	n.callers = callers.New(n.store, keys.New(n.store, &keys.Options{Self: n.aid}), n.peers, &callers.Options{Vault: secrets, Self: n.aid})
	n.contracts = contract.New(n.store, &contract.Options{Bus: n.hints, Self: n.aid, Repo: n.repo, Endpoint: n.server.URL})
	client := peer.NewClient(&out)
	t.Cleanup(client.Close)
	if opts == nil {
		opts = quick()
	}
	opts.Bus, opts.Repo = n.hints, n.repo
	n.syncer = peer.NewSyncer(n.store, n.contracts, client, n.peers, n.peers, n.aid, n.server.URL, opts)
	return n
}

// start lets the syncer run until the test ends or stop is called.
func (n *node) start() *node {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.syncer.Run(ctx)
	}()
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	n.t.Cleanup(n.stop)
	return n
}

func (n *node) setGate(gate func(http.ResponseWriter, *http.Request) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gate = gate
}

// serve is the least that a hub answers to its peers.
func (n *node) serve(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	gate := n.gate
	n.mu.Unlock()
	if gate != nil && gate(w, r) {
		return
	}
	self := peer.Self{AID: string(n.aid), URL: n.server.URL, Repo: n.repo}
	switch r.URL.Path {
	case peer.HealthPath:
		json.NewEncoder(w).Encode(map[string]string{"status": "healthy", "agentId": string(n.aid)})
	case peer.CardPath:
		json.NewEncoder(w).Encode(self.Card())
	case "/":
		n.rpc(w, r)
	default:
		http.NotFound(w, r)
	}
}

type rpcRequest struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

func (n *node) rpc(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	source, _ := netip.ParseAddrPort(r.RemoteAddr)
	visitor, err := n.callers.Identify(r.Context(), callers.Credentials{
		Bearer: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), AgentID: hub.AID(r.Header.Get("X-Agent-ID")), Source: source.Addr(),
	})
	var requests []rpcRequest
	batch := strings.HasPrefix(strings.TrimSpace(string(body)), "[")
	if !batch {
		requests = make([]rpcRequest, 1)
		json.Unmarshal(body, &requests[0])
	} else {
		json.Unmarshal(body, &requests)
	}
	if err != nil && requests[0].Method != "cacp/invite/redeem" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var out []any
	for len(requests) > 0 {
		copies := 0
		for copies < len(requests) && strings.HasSuffix(requests[copies].Method, "/sync") {
			copies++
		}
		if copies > 0 {
			out = append(out, n.take(r.Context(), visitor, requests[:copies])...)
			requests = requests[copies:]
			continue
		}
		out = append(out, n.answer(r.Context(), visitor, requests[0]))
		requests = requests[1:]
	}
	if batch {
		json.NewEncoder(w).Encode(out)
		return
	}
	json.NewEncoder(w).Encode(out[0])
}

func respond(id json.RawMessage, result any, err error) any {
	if err == nil {
		return map[string]any{"jsonrpc": "2.0", "id": id, "result": result}
	}
	return map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": -32602, "message": err.Error(), "data": map[string]any{"reason": hub.CodeOf(err)}}}
}

// take merges copies that came together.
func (n *node) take(ctx context.Context, v hub.Caller, requests []rpcRequest) []any {
	answers := make([]any, len(requests))
	var copies []federation.Copy
	var at []int
	for i, req := range requests {
		n.mu.Lock()
		n.took = append(n.took, req.Method)
		n.mu.Unlock()
		var in struct {
			federation.Copy
			Project json.RawMessage `json:"project"`
			Source  hub.AID         `json:"source_agent"`
		}
		err := json.Unmarshal(req.Params, &in)
		c := in.Copy
		if err == nil && in.Project != nil {
			var whole federation.ProjectCopy
			if whole, err = federation.DecodeProject(in.Project); err == nil {
				c = federation.Copy{Project: whole.ID, Head: &whole.Project}
				for _, x := range whole.Contracts {
					copies, at = append(copies, federation.Copy{Project: whole.ID, Contract: &x}), append(at, -1)
				}
			}
		}
		if err == nil {
			err = n.callers.Admit(ctx, v, req.Method, hub.PermitSync, c.Project)
		}
		if err == nil {
			err = n.callers.Source(v, in.Source)
		}
		if err != nil {
			answers[i] = respond(req.ID, nil, err)
			continue
		}
		copies, at = append(copies, c), append(at, i)
	}
	results, err := n.syncer.Receive(ctx, v.AID, v.Native, copies)
	for k, i := range at {
		if i < 0 {
			continue
		}
		if err != nil {
			answers[i] = respond(requests[i].ID, nil, err)
			continue
		}
		answers[i] = respond(requests[i].ID, results[k], nil)
	}
	return answers
}

func (n *node) answer(ctx context.Context, v hub.Caller, req rpcRequest) any {
	if req.Method == "cacp/invite/redeem" {
		var in federation.Redemption
		if err := json.Unmarshal(req.Params, &in); err != nil {
			return respond(req.ID, nil, err)
		}
		w, err := n.peers.Redeem(ctx, v, in)
		return respond(req.ID, w, err)
	}
	if req.Method == "cacp/peer/announce" {
		return respond(req.ID, map[string]any{"status": "acknowledged"}, nil)
	}
	if err := n.callers.Admit(ctx, v, req.Method, hub.PermitCompare, ""); err != nil {
		return respond(req.ID, nil, err)
	}
	result, ok, err := n.syncer.Answer(ctx, v.AID, req.Method, req.Params)
	if !ok {
		err = errors.New("there is no such method")
	}
	return respond(req.ID, result, err)
}

// befriend makes two nodes peers of each other, with keys.
func befriend(a, b *node) {
	a.t.Helper()
	_, forB, err := a.peers.AddPeer(a.t.Context(), operator, peers.NewPeer{AID: b.aid, Endpoint: b.server.URL, Repo: b.repo})
	if err != nil {
		a.t.Fatal(err)
	}
	_, forA, err := b.peers.AddPeer(a.t.Context(), operator, peers.NewPeer{AID: a.aid, Endpoint: a.server.URL, Repo: a.repo, Key: forB})
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.peers.SetPeerKey(a.t.Context(), operator, b.aid, forA); err != nil {
		a.t.Fatal(err)
	}
}

func (n *node) caller() hub.Caller { return operator }

// project makes a project of which the node has its own repository.
func (n *node) project(others ...*node) hub.ProjectID {
	n.t.Helper()
	repos := []hub.Repo{{Name: n.repo, Role: "backend", Language: "go"}}
	for _, o := range others {
		repos = append(repos, hub.Repo{Name: o.repo, Role: "frontend", Language: "typescript"})
	}
	p, err := n.contracts.CreateProject(n.t.Context(), n.caller(), contract.NewProject{Name: "login", Objective: "log in", Repos: repos})
	if err != nil {
		n.t.Fatal(err)
	}
	return p.ID
}

func (n *node) propose(project hub.ProjectID, name string) hub.ContractID {
	n.t.Helper()
	r, err := n.contracts.Propose(n.t.Context(), n.caller(), contract.Proposal{
		Project: project, Type: hub.ContractAPI, Name: name, Content: json.RawMessage(`{"method":"GET","path":"/` + name + `"}`),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Contract.ID
}

func (n *node) share(project hub.ProjectID, text string) {
	n.t.Helper()
	raw, err := json.Marshal(map[string]string{"snippet": text})
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.contracts.Share(n.t.Context(), n.caller(), contract.NewPacket{Project: project, Type: hub.ContextCode, Content: raw}); err != nil {
		n.t.Fatal(err)
	}
}

// dump returns everything in a project, as one text.
func (n *node) dump(project hub.ProjectID) string {
	var b strings.Builder
	if err := n.contracts.WriteProject(n.t.Context(), n.caller(), project, &b, contract.WriteOptions{}); err != nil {
		return err.Error()
	}
	return b.String()
}

// eventually waits until ok, looking after every change of the nodes.
func eventually(t testing.TB, what string, nodes []*node, ok func() bool) {
	t.Helper()
	hints := make(chan struct{}, 1)
	for _, n := range nodes {
		c, cancel := n.hints.Subscribe(hub.TopicChanges, hub.TopicJournal, hub.TopicPeers)
		defer cancel()
		go func() {
			for {
				select {
				case <-c:
					select {
					case hints <- struct{}{}:
					default:
					}
				case <-t.Context().Done():
					return
				}
			}
		}()
	}
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-hints:
		case <-tick.C:
		case <-deadline:
			for _, n := range nodes {
				st, err := n.syncer.Standings(t.Context())
				t.Logf("%s: %+v %v", n.aid, st, err)
			}
			t.Fatalf("never: %s", what)
		}
	}
}
