// Package peers keeps the other hubs that a hub works with: the keys that they
// send and that this hub sends to them, the projects that they take part in, and
// the invites with which two hubs exchange keys. A key that must be sent is sealed
// under the vault's key; of every other key and of an invite the store holds a hash.
package peers

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/vault"
)

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Bus   hub.Bus      // gets a hint after every change; may be nil
	Vault *vault.Vault // without one there are no keys to send and no invites
	Self  coord.AID    // of this hub
	Home  string       // the address of this hub for others
	Repo  string       // the repository of this hub
	Open  bool         // every caller may register; for loopback only

	// Directory vouches for agents that register themselves; may be nil.
	Directory Directory

	// Guard reports an error for an endpoint that this hub must not call; may be nil.
	Guard func(endpoint string) error

	// Taken reports whether an AID is that of this hub or of one of its agents; may
	// be nil.
	Taken func(coord.AID) bool
}

// A Service keeps peers and invites in a store.
type Service struct {
	opts         Options
	store        hub.Store
	wrongInvites wrongInvites
}

// New returns a Service over store. opts may be nil.
func New(store hub.Store, opts *Options) *Service {
	s := &Service{store: store}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Clock == nil {
		s.opts.Clock = time.Now
	}
	return s
}

// A Directory knows agents that this hub does not know.
type Directory interface {
	// Vouch reports whether the directory knows the agent at the endpoint.
	Vouch(ctx context.Context, aid coord.AID, endpoint string) (bool, error)
}

const (
	maxPending = 100  // peers that wait for the operator
	maxPeers   = 1000 // peers at all
)

// checkAID reports CodeInvalid for a text that cannot name a peer. A plain name
// can: some agents have no other.
func (s *Service) checkAID(op string, aid coord.AID) error {
	bad := func(r rune) bool { return !plaintext.Visible(r) || unicode.IsSpace(r) }
	switch {
	case aid == "" || len(aid) > 512 || strings.ContainsFunc(string(aid), bad):
		return hub.Errorf(hub.CodeInvalid, op, "%.80q is not a valid agent id", aid).WithHint("use aid://domain/name@1.0.0")
	case aid == s.opts.Self:
		return hub.Errorf(hub.CodeConflict, op, "%s is this hub itself", aid)
	}
	return nil
}

// A NewPeer describes a peer to add.
type NewPeer struct {
	AID      coord.AID `json:"agentId"`
	Endpoint string    `json:"endpoint,omitempty"`
	Repo     string    `json:"repoName,omitempty"`
	Key      string    `json:"key,omitempty"`  // that this hub sends to it
	From     string    `json:"from,omitempty"` // address or network of a legacy peer, which sends no key; "" for others

	ActsFor []coord.AID `json:"actsFor,omitempty"` // agents outside of its domain that it may act for, when it is approved

	// Listed is the word of the exchange in which the operator found it; see federation.Identity.
	Listed string `json:"listed,omitempty"`
}

// AddPeer adds a peer that is approved at once. It returns the key that the
// peer must send, which is shown this once; a legacy peer has none. Only the
// operator may.
func (s *Service) AddPeer(ctx context.Context, actor hub.Caller, n NewPeer) (hub.Peer, string, error) {
	const op = "peers.AddPeer"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Peer{}, "", err
	}
	if n.Listed != "" && n.Listed != federation.ListedVerified && n.Listed != federation.ListedUnverified {
		return hub.Peer{}, "", hub.Errorf(hub.CodeInvalid, op, "listed must be %s or %s", federation.ListedVerified, federation.ListedUnverified)
	}
	p, err := s.newPeer(op, n.AID, n.Endpoint, n.Repo)
	if err != nil {
		return hub.Peer{}, "", err
	}

	// A legacy peer has no key: it is known by its network.
	secret := ""
	if n.From == "" {
		secret = vault.NewSecret()
		p.KeyHash = hub.HashSecret(secret)
	} else if p.Legacy, err = parseNetwork(op, n.From); err != nil {
		return hub.Peer{}, "", err
	}

	if n.Key != "" {
		if p.Sealed, err = s.sealKey(op, n.AID, n.Key); err != nil {
			return hub.Peer{}, "", err
		}
	}

	p.State, p.Access = hub.PeerApproved, access(p)
	err = s.update(ctx, "add peer "+string(n.AID), func(tx hub.Tx) error {
		was, err := tx.Peer(p.AID)
		if err == nil && was.State != hub.PeerRemoved {
			return hub.Errorf(hub.CodeConflict, op, "%s is already a peer", p.AID).WithHint("approve it with: parley peer approve %s, or remove it first", p.AID)
		}
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		if err := hub.WriteMeta(tx, federation.IdentityKey(p.AID), federation.Identity{Listed: n.Listed}); err != nil {
			return err
		}
		return s.putPeer(tx, actor, actions.PeerAdded, p)
	})
	if err != nil {
		return hub.Peer{}, "", err
	}
	return p, secret, nil
}

func (s *Service) newPeer(op string, aid coord.AID, endpoint, repo string) (hub.Peer, error) {
	if err := s.checkAID(op, aid); err != nil {
		return hub.Peer{}, err
	}
	endpoint, err := federation.ParseEndpoint(endpoint)
	if err != nil {
		return hub.Peer{}, err
	}
	if s.opts.Guard != nil {
		if err := s.opts.Guard(endpoint); err != nil {
			return hub.Peer{}, err
		}
	}
	if len(repo) > federation.MaxName || strings.ContainsFunc(repo, func(r rune) bool { return !plaintext.Visible(r) }) {
		return hub.Peer{}, hub.Errorf(hub.CodeInvalid, op, "a repository's name must be one line of at most %d bytes", federation.MaxName)
	}
	return hub.Peer{AID: aid, Endpoint: endpoint, Repo: repo, State: hub.PeerPending, Access: coord.AccessNone, AddedAt: coord.InstantAt(s.opts.Clock())}, nil
}

// keyedPeer returns an approved peer that has exchanged keys with this hub: send
// is the key that this hub sends, expect the key that the peer sends.
func (s *Service) keyedPeer(op string, aid coord.AID, endpoint, repo, send, expect string) (hub.Peer, error) {
	p, err := s.newPeer(op, aid, endpoint, repo)
	if err != nil {
		return hub.Peer{}, err
	}
	p.State, p.KeyHash = hub.PeerApproved, hub.HashSecret(expect)
	p.Access = access(p)
	p.Sealed, err = s.sealKey(op, aid, send)
	return p, err
}

// parseNetwork returns an address or a network in the form of a network.
func parseNetwork(op, s string) (string, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()).String(), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "%.80q is not an address or a network", s).WithHint("use an address such as 10.1.2.3 or a network such as 10.1.2.0/24")
	}
	return p.Masked().String(), nil
}

// access returns the access of an approved peer: with a key it may do everything,
// without one it may read. A legacy peer may only sync.
func access(p hub.Peer) coord.Access {
	switch {
	case p.KeyHash != "":
		return coord.AccessFull
	case p.Legacy != "":
		return coord.AccessNone
	}
	return coord.AccessRead
}

// RegisterPeer stores a peer that registers itself. A new peer must be confirmed
// by a key, by the operator or by the directory, and is pending until the operator
// approves it, unless the hub is open. A known peer may change its endpoint with
// its key.
func (s *Service) RegisterPeer(ctx context.Context, c hub.Caller, n NewPeer) (hub.Peer, error) {
	const op = "peers.RegisterPeer"
	self, err := s.newPeer(op, n.AID, n.Endpoint, n.Repo)
	if err != nil {
		return hub.Peer{}, err
	}
	x := registering{s: s, op: op, caller: c, self: self}
	x.trusted = isPeer(c, n.AID) || c.IsOperator() || s.opts.Open
	if err := x.confirm(ctx); err != nil {
		return hub.Peer{}, err
	}
	err = s.update(ctx, "register "+string(n.AID), x.store)
	return x.p, err
}

// A registering is one call of RegisterPeer: the peer as it describes itself, and the peer
// that the transaction read or stored.
type registering struct {
	s       *Service
	op      string
	caller  hub.Caller
	self    hub.Peer
	trusted bool // for its key or the operator's, or because the hub is open

	p hub.Peer
}

// confirm refuses a peer that neither proves who it is nor is confirmed by the directory. A
// legacy peer that is known has no key to prove it with.
func (x *registering) confirm(ctx context.Context) error {
	if x.trusted {
		return nil
	}
	if x.s.opts.Directory != nil {
		vouched, err := x.s.opts.Directory.Vouch(ctx, x.self.AID, x.self.Endpoint)
		if err != nil || vouched {
			return err
		}
	}
	if x.caller.Kind == hub.CallerLegacyPeer && x.caller.AID == x.self.AID {
		return nil
	}
	return hub.Errorf(hub.CodeUnauthenticated, x.op, "a peer must register with its key or after an invite").
		WithHint("run parley peer invite on this hub and parley peer join on the other")
}

// store adds the peer, or moves a known one.
func (x *registering) store(tx hub.Tx) error {
	x.p = x.self
	was, err := tx.Peer(x.p.AID)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return x.add(tx)
	}
	if err != nil {
		return err
	}
	return x.move(tx, was)
}

// add stores a new peer, which is approved at once if the hub is open.
func (x *registering) add(tx hub.Tx) error {
	if err := checkCapacity(tx, x.op); err != nil {
		return err
	}
	if x.s.opts.Open {
		x.p.State = hub.PeerApproved
	}
	return x.s.putPeer(tx, x.caller, actions.PeerRegistered, x.p)
}

// move changes the endpoint and the repository of a known peer. One that registers as it is
// stored is left alone.
func (x *registering) move(tx hub.Tx, was hub.Peer) error {
	repo := cmp.Or(x.self.Repo, was.Repo)
	switch {
	case was.State == hub.PeerRemoved && !x.s.opts.Open:
		return hub.Errorf(hub.CodeDenied, x.op, "%s was removed from this hub", x.self.AID).WithHint("its operator can add it again: parley peer approve %s", x.self.AID)
	case was.Endpoint == x.self.Endpoint && was.Repo == repo:
		x.p = was
		return nil
	case !x.trusted:
		return hub.Errorf(hub.CodeDenied, x.op, "%s is already known; to change its address or repository, it must use its key", x.self.AID)
	}

	if was.Endpoint != x.self.Endpoint {
		was.Seen = coord.Instant{} // it has not answered there
	}
	was.Endpoint = x.self.Endpoint
	was.Repo = repo
	x.p = was
	return x.s.putPeer(tx, x.caller, actions.PeerMoved, x.p)
}

// checkCapacity reports CodeRateLimited when too many peers are pending.
func checkCapacity(tx hub.Tx, op string) error {
	peers, err := tx.Peers()
	if err != nil {
		return err
	}
	pending := 0
	for _, p := range peers {
		if p.State == hub.PeerPending {
			pending++
		}
	}
	if pending >= maxPending || len(peers) >= maxPeers {
		return hub.Errorf(hub.CodeRateLimited, op, "%d peers already wait for the operator", pending).
			WithHint("the operator decides with: parley peer approve AID, or parley peer remove AID")
	}
	return nil
}

// ApprovePeer approves a peer, and lets it act for agents outside of its domain that
// are named. With a key it may do everything that its invites permit, without one it
// may read. Only the operator may.
func (s *Service) ApprovePeer(ctx context.Context, actor hub.Caller, aid coord.AID, actsFor ...coord.AID) (hub.Peer, error) {
	const op = "peers.ApprovePeer"
	if err := s.checkActsFor(op, actsFor); err != nil {
		return hub.Peer{}, err
	}
	if s.opts.Guard != nil { // the allowed networks may have changed since it registered
		p, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Peer, error) { return r.Peer(aid) })
		if err == nil && p.Endpoint != "" {
			if err := s.opts.Guard(p.Endpoint); err != nil {
				return hub.Peer{}, err
			}
		}
	}
	return s.changeState(ctx, op, actor, aid, actions.PeerApproved, func(p *hub.Peer) {
		p.State, p.Access = hub.PeerApproved, access(*p)
		p.ActsFor = union(p.ActsFor, actsFor)
	})
}

// maxActsFor is how many agents outside of its domain a peer may act for.
const maxActsFor = 100

// checkActsFor reports CodeInvalid for a list with a text that cannot name an agent.
func (s *Service) checkActsFor(op string, list []coord.AID) error {
	if len(list) > maxActsFor {
		return hub.Errorf(hub.CodeInvalid, op, "a peer can act for at most %d agents outside its domain", maxActsFor)
	}
	for _, aid := range list {
		if domain, _ := aid.Split(); domain == "" && s.checkAID(op, aid) != nil {
			return hub.Errorf(hub.CodeInvalid, op, "%.80q is not a valid agent id", aid).WithHint("use aid://domain/name@1.0.0")
		}
	}
	return nil
}

// union returns the values of both lists, each once, in a list of its own.
func union[T comparable](a, b []T) []T {
	a = slices.Clip(a)
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

// RemovePeer removes a peer, and deletes its key and the key that it gave. Only
// the operator may.
func (s *Service) RemovePeer(ctx context.Context, actor hub.Caller, aid coord.AID) (hub.Peer, error) {
	return s.changeState(ctx, "peers.RemovePeer", actor, aid, actions.PeerRemoved, func(p *hub.Peer) {
		p.State = hub.PeerRemoved
		p.Access = coord.AccessNone
		p.KeyHash = ""
		p.Sealed = ""
		p.Legacy = ""
		p.ActsFor = nil
	})
}

func (s *Service) changeState(ctx context.Context, op string, actor hub.Caller, aid coord.AID, action actions.Action, move func(*hub.Peer)) (hub.Peer, error) {
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Peer{}, err
	}
	var p hub.Peer
	err := s.update(ctx, string(action), func(tx hub.Tx) (err error) {
		if p, err = tx.Peer(aid); err != nil {
			return err
		}
		was := p
		move(&p)
		switch {
		case p.State == was.State && slices.Equal(p.ActsFor, was.ActsFor):
			return nil
		case p.State != was.State && !was.State.CanBecome(p.State):
			return hub.Errorf(hub.CodeConflict, op, "%s is %s", aid, was.State)
		}
		if p.State == hub.PeerRemoved {
			if err := hub.RevokeTokens(tx, actor, aid, s.opts.Clock.Now()); err != nil {
				return err
			}
			if err := hub.WriteMeta(tx, federation.IdentityKey(aid), federation.Identity{}); err != nil {
				return err
			}
		}
		return s.putPeer(tx, actor, action, p)
	})
	return p, err
}

func (s *Service) putPeer(tx hub.Tx, actor hub.Caller, action actions.Action, p hub.Peer) error {
	if err := tx.PutPeer(p); err != nil {
		return err
	}
	id, err := federation.ReadIdentity(tx, p)
	if err != nil {
		return err
	}
	facts := map[string]any{"endpoint": p.Endpoint, "state": p.State, "trust": federation.TrustIn(p, id)}
	if p.Legacy != "" {
		facts["from"] = p.Legacy
	}
	if len(p.ActsFor) > 0 {
		facts["acts_for"] = p.ActsFor
	}
	_, err = tx.Append(actor.Entry(s.opts.Clock.Now(), action, string(p.AID), facts))
	return err
}

// Note writes a journal row about something that the operator did with other hubs.
func (s *Service) Note(ctx context.Context, actor hub.Caller, action actions.Action, subject string, facts map[string]any) error {
	return s.update(ctx, "note", func(tx hub.Tx) error {
		_, err := tx.Append(actor.Entry(s.opts.Clock.Now(), action, subject, facts))
		return err
	})
}

// update runs a transaction that changes peers, and publishes hints. what names the attempt in an error.
func (s *Service) update(ctx context.Context, what string, change func(hub.Tx) error) error {
	if err := s.store.Update(ctx, hub.SurvivesPowerLoss, change); err != nil {
		return fmt.Errorf("peers: %s: %w", what, err)
	}
	if s.opts.Bus != nil {
		s.opts.Bus.Publish(hub.TopicPeers)
		s.opts.Bus.Publish(hub.TopicJournal)
	}
	return nil
}

// Home returns the address of this hub for others.
func (s *Service) Home() string { return s.opts.Home }

// Peers returns every peer, by AID. Only the operator may.
func (s *Service) Peers(ctx context.Context, actor hub.Caller) ([]hub.Peer, error) {
	if err := actor.OperatorOnly("peers.Peers"); err != nil {
		return nil, err
	}
	peers, err := hub.Read(ctx, s.store, hub.Reader.Peers)
	if err != nil {
		return nil, fmt.Errorf("peers: list peers: %w", err)
	}
	return peers, nil
}

// place is the context that a sealed key of a peer is bound to.
func place(aid coord.AID) string { return "peer " + string(aid) }

// sealKey encrypts the key that this hub sends to a peer.
func (s *Service) sealKey(op string, aid coord.AID, key string) (string, error) {
	switch {
	case s.opts.Vault == nil:
		return "", hub.Errorf(hub.CodeNotEnabled, op, "this hub has no key file to encrypt the peer's key with")
	case len(key) > 512 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", hub.Errorf(hub.CodeInvalid, op, "the peer's key cannot be sent in a header")
	}
	return s.opts.Vault.Seal(key, place(aid)), nil
}

// PeerKey returns the key that this hub sends to a peer, or "" if it gave none.
func (s *Service) PeerKey(p hub.Peer) (string, error) {
	if p.Sealed == "" {
		return "", nil
	}
	if s.opts.Vault == nil {
		return "", hub.Errorf(hub.CodeDegraded, "peers.PeerKey", "this hub has no key file to read the key for %s with", p.AID)
	}
	return s.opts.Vault.Open(p.Sealed, place(p.AID))
}

// InScope reports whether a peer may read a project. A caller that is no peer was
// admitted by other means: the hub is open.
func (s *Service) InScope(ctx context.Context, aid coord.AID, project coord.ProjectID) (bool, error) {
	p, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Peer, error) { return r.Peer(aid) })
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return false, fmt.Errorf("peers: scope of %s: %w", aid, err)
	}
	return p.Reads(project), nil
}

// isPeer reports whether c is the peer with the AID, and showed its key.
func isPeer(c hub.Caller, aid coord.AID) bool {
	return c.Kind == hub.CallerPeer && c.Access == coord.AccessFull && c.AID == aid
}
