package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// Contracts keeps projects. Package contract implements it.
type Contracts interface {
	// Changes returns the log of changes after a number.
	Changes(ctx context.Context, after int64, limit int) ([]hub.Change, error)
	// Copies returns the present state of changed things, each once, in the order
	// of its last change. Things of which all changes came from the peer "to" are
	// left out.
	Copies(ctx context.Context, to coord.AID, changes []hub.Change) ([]federation.Copy, error)
	// Receive merges copies that a peer sent; the peer has a rate.
	Receive(ctx context.Context, from coord.AID, native bool, copies []federation.Copy) ([]federation.SyncResult, error)
	// Sync merges copies that this hub fetched from a peer.
	Sync(ctx context.Context, from coord.AID, native bool, copies []federation.Copy) ([]federation.SyncResult, error)
	// Summary returns the sums of a project, a part of its contracts at a time.
	Summary(ctx context.Context, id coord.ProjectID, after coord.ContractID) (federation.Summary, error)
}

// Secrets returns the keys of this hub at its peers.
type Secrets interface {
	// PeerKey returns the key for a peer, or "" if none was exchanged.
	PeerKey(p hub.Peer) (string, error)
}

// A Scope decides whether a peer is part of a project.
type Scope interface {
	InScope(ctx context.Context, peer coord.AID, project coord.ProjectID) (bool, error)
}

// Options changes how a Syncer works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Bus   hub.Bus      // whose hints start work at once; may be nil
	Log   *slog.Logger // default silent
	Repo  string       // of this hub, for agents that register it

	Page       int           // things per page of a comparison; default 200 to 5,000
	Batch      int           // changes per read; default 500
	BatchBytes int           // of one request; default 512 KiB
	Fails      int           // failures in a row after which a peer counts as down; default 3
	Retry      time.Duration // after the first failure; doubles each time; default 1 second
	MaxRetry   time.Duration // default 5 minutes
	Compare    time.Duration // between two full comparisons; default 10 minutes
	Comparing  int           // full comparisons at a time; default 2, and 1 where that leaves no processor to callers
	GiveUp     time.Duration // age at which a change that a peer does not take becomes a dead letter; default 7 days
	Linger     time.Duration // between two sends while changes keep coming; default 20 milliseconds
	Poll       time.Duration // between two checks without a hint; default 5 seconds
	Probe      time.Duration // between two checks that a reference agent knows this hub, and the longest wait for one that is down; default 15 seconds
}

// A Syncer keeps the hub's approved peers in step with it. It is safe for
// concurrent use.
type Syncer struct {
	store     hub.Store
	contracts Contracts
	client    *Client
	secrets   Secrets
	scope     Scope
	self      coord.AID
	home      string // endpoint of this hub
	opts      Options
	clock     hub.Clock
	log       *slog.Logger

	// comparing holds a token for each full comparison that runs: they read everything,
	// and more than Options.Comparing of them would leave callers without readers.
	comparing chan struct{}

	mu      sync.Mutex // guards workers
	workers map[coord.AID]*worker
}

// NewSyncer returns a syncer for the hub with the given id, which others reach
// at home. opts may be nil.
func NewSyncer(store hub.Store, contracts Contracts, client *Client, secrets Secrets, scope Scope, self coord.AID, home string, opts *Options) *Syncer {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Batch = cmp.Or(o.Batch, 500)
	o.BatchBytes = cmp.Or(o.BatchBytes, 512<<10)
	o.Fails = cmp.Or(o.Fails, 3)
	o.Retry = cmp.Or(o.Retry, time.Second)
	o.MaxRetry = cmp.Or(o.MaxRetry, 5*time.Minute)
	o.Compare = cmp.Or(o.Compare, 10*time.Minute)
	o.Comparing = cmp.Or(o.Comparing, max(1, min(2, runtime.GOMAXPROCS(0)-1)))
	o.GiveUp = cmp.Or(o.GiveUp, 7*24*time.Hour)
	o.Linger = cmp.Or(o.Linger, 20*time.Millisecond)
	o.Poll = cmp.Or(o.Poll, 5*time.Second)
	o.Probe = cmp.Or(o.Probe, 15*time.Second)
	s := &Syncer{
		store: store, contracts: contracts, client: client, secrets: secrets, scope: scope, self: self, home: home,
		opts: o, clock: o.Clock, log: o.Log, workers: map[coord.AID]*worker{}, comparing: make(chan struct{}, o.Comparing),
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Run keeps peers in step until ctx ends, and returns when its workers have.
func (s *Syncer) Run(ctx context.Context) {
	var changes, peers <-chan struct{}
	if s.opts.Bus != nil {
		var done, also func()
		changes, done = s.opts.Bus.Subscribe(hub.TopicChanges)
		defer done()
		peers, also = s.opts.Bus.Subscribe(hub.TopicPeers)
		defer also()
	}

	tick := time.NewTicker(s.opts.Poll)
	defer tick.Stop()
	defer s.stop()

	// A change wakes the workers. A change of the peers, or the tick, updates them.
	for {
		if err := s.updateWorkers(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the peers could not be read", "err", err)
		}
		for reload := false; !reload; {
			select {
			case <-ctx.Done():
				return
			case <-changes:
				s.wake()
			case <-peers:
				reload = true
			case <-tick.C:
				reload = true
			}
		}
	}
}

// wake wakes every worker: there may be changes.
func (s *Syncer) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workers {
		signal(w.wake)
	}
}

// updateWorkers starts a worker for each approved peer, stops the others, and wakes
// all.
func (s *Syncer) updateWorkers(ctx context.Context) error {
	peers, err := hub.Read(ctx, s.store, hub.Reader.Peers)
	if err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[coord.AID]bool{}
	for _, p := range peers {
		if p.State != hub.PeerApproved || p.Endpoint == "" || p.AID == s.self {
			continue
		}
		wanted[p.AID] = true
		w, ok := s.workers[p.AID]
		if ok && w.endpoint != p.Endpoint {
			w.cancel() // the peer moved: start again at its new endpoint
			<-w.done
			ok = false
		}
		if !ok {
			w = s.begin(ctx, p)
		}
		signal(w.wake)
	}

	for id, w := range s.workers {
		if !wanted[id] {
			w.cancel()
			<-w.done
			delete(s.workers, id)
		}
	}
	return nil
}

// begin starts the worker of a peer. s.mu is held.
func (s *Syncer) begin(ctx context.Context, p hub.Peer) *worker {
	ctx, cancel := context.WithCancel(hub.InBackground(ctx))
	w := &worker{
		Syncer: s, store: s.store, aid: p.AID, endpoint: p.Endpoint, cancel: cancel,
		wake: make(chan struct{}, 1), now: make(chan struct{}, 1), done: make(chan struct{}), pending: map[coord.ProjectID]bool{}, batch: s.opts.Batch, native: p.Native,
	}
	s.workers[p.AID] = w
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w
}

func (s *Syncer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.workers {
		w.cancel()
		<-w.done
		delete(s.workers, id)
	}
}

// Compare makes the worker of a peer compare everything soon. It reports CodeNotFound
// when the peer is not approved.
func (s *Syncer) Compare(peer coord.AID) error {
	s.mu.Lock()
	w, ok := s.workers[peer]
	s.mu.Unlock()
	if !ok {
		return hub.Errorf(hub.CodeNotFound, "peer.Compare", "%s is not an approved peer", peer).WithHint("run \"parley peer list\" to list the peers")
	}
	w.compareAllLater()
	return nil
}

// Receive merges copies that a peer sent. When an agent that is not native sent an
// older state than this hub has, its worker compares the project soon: the clock of
// such an agent may be behind, and it does not send again.
func (s *Syncer) Receive(ctx context.Context, from coord.AID, native bool, copies []federation.Copy) ([]federation.SyncResult, error) {
	results, err := s.contracts.Receive(ctx, from, native, copies)
	if err != nil || native {
		return results, err
	}
	s.mu.Lock()
	w, ok := s.workers[from]
	s.mu.Unlock()
	for i, r := range results {
		if ok && r.Behind {
			w.compareLater(copies[i].Project)
		}
	}
	return results, nil
}

// Standings returns the lag of every peer, by AID.
func (s *Syncer) Standings(ctx context.Context) ([]federation.PeerStatus, error) {
	out := []federation.PeerStatus{}
	err := s.store.View(ctx, func(r hub.Reader) error {
		out = out[:0]
		peers, err := r.Peers()
		if err != nil {
			return err
		}
		_, newest, err := r.ChangeSpan()
		if err != nil {
			return err
		}

		for _, p := range peers {
			id, err := federation.ReadIdentity(r, p)
			if err != nil {
				return err
			}
			st := federation.PeerStatus{Peer: p, Trust: federation.TrustIn(p, id), Identity: id, Healthy: p.Health == hub.HealthUp}
			box, err := r.Outbox(p.AID)
			if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
				return err
			}
			if p.State == hub.PeerApproved {
				st.Lag = newest - box.Sent
				st.CatchUp = box.CatchUp || err != nil
				st.Tries = box.Tries
				st.NextTry = box.NextTry
			}

			// A dead letter that came from the peer was refused by this hub, any other by the peer.
			dead, err := federation.LiveDeadLetters(r, p.AID)
			if err != nil {
				return err
			}
			for _, d := range dead {
				if d.Change.Origin == p.AID {
					st.Refused++
				} else {
					st.DeadLetters++
				}
			}
			out = append(out, st)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("peer: standings: %w", err)
	}
	return out, nil
}

// backoff returns the time to wait after n failures in a row: twice as long each
// time, up to a limit, with jitter.
func (s *Syncer) backoff(n int) time.Duration {
	d := s.opts.Retry << min(max(n-1, 0), 20)
	if d <= 0 || d > s.opts.MaxRetry {
		d = s.opts.MaxRetry
	}
	return d/2 + rand.N(d/2+1)
}

// refused returns the Refusal in err, if there is one.
func refused(err error) (*Refusal, bool) {
	var r *Refusal
	ok := errors.As(err, &r)
	return r, ok
}

// Pending returns the peers that wait for the operator.
func (s *Syncer) Pending(ctx context.Context) ([]federation.PeerStatus, error) {
	all, err := s.Standings(ctx)
	return slices.DeleteFunc(all, func(p federation.PeerStatus) bool { return p.State != hub.PeerPending }), err
}
