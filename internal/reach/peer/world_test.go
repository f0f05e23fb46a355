package peer_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A node is a hub as far as coordination goes: a real store, the real services
// and a real syncer, over real HTTP.
type node struct {
	t         testing.TB
	aid       coord.AID
	repo      string
	store     *sqlite.Store
	vault     *vault.Vault
	hints     *bus.Local
	contracts *contract.Service
	peers     *peers.Service
	callers   *callers.Service
	syncer    *peer.Syncer
	door      *rpc.Door
	server    *httptest.Server
	stop      func()

	mu   sync.Mutex
	gate func(http.ResponseWriter, *http.Request) bool // answers in place of the node
}

var operator = hub.Caller{ID: hub.Operator}

// quick makes a syncer try again at once.
func quick() *peer.Options {
	return &peer.Options{Retry: time.Millisecond, MaxRetry: 20 * time.Millisecond, Poll: 20 * time.Millisecond, Compare: time.Hour, Probe: 20 * time.Millisecond}
}

// quickRate is what a node takes of a peer in a minute. A test that makes more than
// contract.DefaultLimits allows would wait for the next minute.
var quickRate = contract.Rate{Projects: 1000, Things: 100_000, Bytes: 1 << 30}

func newNode(t testing.TB, name string, opts *peer.Options) *node {
	t.Helper()
	return newNodeWith(t, name, opts, peer.ClientOptions{Guard: loopback, Timeout: 5 * time.Second})
}

func newNodeWith(t testing.TB, name string, opts *peer.Options, out peer.ClientOptions) *node {
	t.Helper()
	home := t.TempDir()
	storetest.Prepare(t, home)
	return newNodeIn(t, name, home, opts, out)
}

func newNodeIn(t testing.TB, name, home string, opts *peer.Options, out peer.ClientOptions) *node {
	t.Helper()
	if opts == nil {
		opts = quick()
	}
	n := &node{t: t, aid: coord.AID("aid://" + name + ".example/" + name + "@1.0.0"), repo: name + "-repo", hints: new(bus.Local), stop: func() {}}
	var err error
	if n.store, err = sqlite.Open(home, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.store.Close() })
	if n.vault, err = vault.Open(home + "/secrets.key"); err != nil {
		t.Fatal(err)
	}
	n.server = httptest.NewServer(http.HandlerFunc(n.serve))
	t.Cleanup(n.server.Close)
	n.peers = peers.New(n.store, &peers.Options{Bus: n.hints, Vault: n.vault, Self: n.aid, Home: n.server.URL, Repo: n.repo})
	n.callers = callers.New(n.store, keys.New(n.store, &keys.Options{Self: n.aid}), &callers.Options{Vault: n.vault, Self: n.aid})
	n.contracts = contract.New(n.store, &contract.Options{Bus: n.hints, Self: n.aid, Repo: n.repo, Endpoint: n.server.URL, Page: opts.Page, Limits: contract.Limits{Rate: quickRate}})
	client := peer.NewClient(&out)
	t.Cleanup(client.Close)
	opts.Bus, opts.Repo = n.hints, n.repo
	n.syncer = peer.NewSyncer(n.store, n.contracts, client, n.peers, n.peers, n.aid, n.server.URL, opts)
	n.door = rpc.NewDoor(rpc.NewDispatcher(rpc.Recorder{Refused: func(context.Context, hub.AgentID, string, hub.Code) {}},
		coordination.Operations.Bind(&coordination.Services{Contracts: n.contracts, Peers: n.peers, Callers: n.callers, Network: network{n.syncer}, Bus: n.hints, Self: n.aid, Repo: n.repo})),
		n.callers, false)
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
		n.door.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// A network is the syncer, and refuses the calls that these tests do not make.
type network struct{ *peer.Syncer }

var errUnused = errors.New("no test calls this")

func (network) Redeem(context.Context, string, federation.Redemption) (w federation.Welcome, err error) {
	return w, errUnused
}

func (network) Discover(context.Context, coordination.Search) ([]federation.Discovery, error) {
	return nil, errUnused
}

func (network) Enlist(context.Context, string) (r federation.Registration, err error) {
	return r, errUnused
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
	a.setKey(b.aid, forA)
}

// setKey stores the key that the node sends to a peer.
func (n *node) setKey(to coord.AID, key string) {
	n.t.Helper()
	err := n.store.Update(n.t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		p, err := tx.Peer(to)
		if err != nil {
			return err
		}
		p.Sealed = n.vault.Seal(key, "peer "+string(to))
		return tx.PutPeer(p)
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) caller() hub.Caller { return operator }

// project makes a project of which the node has its own repository.
func (n *node) project(others ...*node) coord.ProjectID {
	n.t.Helper()
	repos := []coord.Repo{{Name: n.repo, Role: "backend", Language: "go"}}
	for _, o := range others {
		repos = append(repos, coord.Repo{Name: o.repo, Role: "frontend", Language: "typescript"})
	}
	p, err := n.contracts.CreateProject(n.t.Context(), n.caller(), contract.NewProject{Name: "login", Objective: "log in", Repos: repos, Policy: coord.AgreeAny})
	if err != nil {
		n.t.Fatal(err)
	}
	return p.ID
}

func (n *node) propose(project coord.ProjectID, name string) coord.ContractID {
	n.t.Helper()
	r, err := n.contracts.Propose(n.t.Context(), n.caller(), contract.Proposal{
		InProject: contract.In(project), Type: coord.ContractAPI, Name: name, Content: json.RawMessage(`{"method":"GET","path":"/` + name + `"}`),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Contract.ID
}

func (n *node) share(project coord.ProjectID, text string) {
	n.t.Helper()
	raw, err := json.Marshal(map[string]string{"snippet": text})
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.contracts.Share(n.t.Context(), n.caller(), contract.NewPacket{InProject: contract.In(project), Type: coord.ContextCode, Content: raw}); err != nil {
		n.t.Fatal(err)
	}
}

// dump returns everything in a project, as one text.
func (n *node) dump(project coord.ProjectID) string {
	var b strings.Builder
	if err := n.contracts.WriteProject(n.t.Context(), n.caller(), project, &b, nil); err != nil {
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
	deadline := time.After(patience.For(5 * time.Minute)) // the race detector makes large histories slow
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
