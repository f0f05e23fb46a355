package access

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/federation"
)

// A Directory looks up agents that are not known to this hub.
type Directory interface {
	// Vouch reports whether the directory knows the agent at the endpoint.
	Vouch(ctx context.Context, aid hub.AID, endpoint string) (bool, error)
}

const (
	maxPending = 100  // peers that wait for the operator
	maxPeers   = 1000 // peers at all
)

// AID returns how an agent of this hub is called elsewhere, or "".
func (a *Access) AID(id hub.AgentID) hub.AID { return a.aidOf(id) }

// Local returns the agent of this hub that is called so elsewhere, if there
// is one. The hub itself is its operator.
func (a *Access) Local(aid hub.AID) (hub.AgentID, bool) {
	if aid == "" {
		return "", false
	}
	if aid == a.self {
		return hub.Operator, true
	}
	id, ok := a.agentOf(aid)
	if !ok {
		return "", false
	}
	a.mu.RLock()
	absent, epoch := a.absent[id], a.epoch
	a.mu.RUnlock()
	if absent {
		return "", false
	}
	_, _, err := a.Lookup(context.Background(), id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		a.mu.Lock()
		if a.epoch == epoch && len(a.absent) < maxKnown {
			a.absent[id] = true
		}
		a.mu.Unlock()
	}
	return id, err == nil
}

// Home returns where others reach this hub.
func (a *Access) Home() string { return a.home }

// aidOf returns how an agent of this hub is called elsewhere, or "".
func (a *Access) aidOf(id hub.AgentID) hub.AID {
	if aid, ok := a.aids[id]; ok {
		return aid
	}
	domain, _, ok := strings.Cut(strings.TrimPrefix(string(a.self), "aid://"), "/")
	switch {
	case id == hub.Operator || !ok || !strings.HasPrefix(string(a.self), "aid://"):
		return a.self
	case strings.ContainsAny(string(id), "._"):
		return "" // other hubs know no such names
	}
	return hub.AID("aid://" + domain + "/" + string(id) + "@1.0.0")
}

// agentOf returns the agent of this hub that would be called so elsewhere.
func (a *Access) agentOf(aid hub.AID) (hub.AgentID, bool) {
	for id, given := range a.aids {
		if given == aid {
			return id, true
		}
	}
	name, _, _ := strings.Cut(string(aid)[strings.LastIndex(string(aid), "/")+1:], "@")
	id := hub.AgentID(name)
	return id, id.Valid() && a.aidOf(id) == aid && aid != a.self
}

// checkAID reports CodeInvalid for a text that cannot name a peer. Plain names are
// allowed: some agents have no better.
func (a *Access) checkAID(op string, aid hub.AID) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }
	switch {
	case aid == "" || len(aid) > 512 || strings.ContainsFunc(string(aid), bad):
		return hub.Errorf(hub.CodeInvalid, op, "%.80q is not an agent id", aid).WithHint("use aid://domain/name@1.0.0")
	case aid == a.self:
		return hub.Errorf(hub.CodeConflict, op, "%s is this hub itself", aid)
	}
	return nil
}

// A NewPeer says which peer to add.
type NewPeer struct {
	AID      hub.AID
	Endpoint string
	Repo     string
	Key      string // that it wants from us; may be empty
	From     string // address or network of a legacy peer, which sends no key; "" for others
}

// AddPeer adds a peer that is approved at once. It returns the key that the
// peer must send, which is shown this once; a legacy peer has none. Only the
// operator may.
func (a *Access) AddPeer(ctx context.Context, actor hub.Caller, n NewPeer) (hub.Peer, string, error) {
	const op = "access.AddPeer"
	if err := operatorOnly(op, actor); err != nil {
		return hub.Peer{}, "", err
	}
	p, err := a.newPeer(op, n.AID, n.Endpoint, n.Repo)
	if err != nil {
		return hub.Peer{}, "", err
	}
	secret := ""
	if n.From != "" {
		from, err := parseNetwork(op, n.From)
		if err != nil {
			return hub.Peer{}, "", err
		}
		p.Legacy = from.String()
	} else {
		secret = newSecret()
		p.KeyHash = hub.HashSecret(secret)
	}
	if n.Key != "" {
		if p.Sealed, err = a.sealKey(op, n.AID, n.Key); err != nil {
			return hub.Peer{}, "", err
		}
	}
	p.State, p.Trust = hub.PeerApproved, trust(p)
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		was, err := tx.Peer(p.AID)
		if err == nil && was.State != hub.PeerRemoved {
			return hub.Errorf(hub.CodeConflict, op, "%s is a peer already", p.AID).WithHint("approve it with: parley peer approve %s, or remove it first", p.AID)
		}
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		return a.putPeer(tx, actor, hub.ActionPeerAdded, p)
	})
	if err != nil {
		return hub.Peer{}, "", fmt.Errorf("access: add peer %s: %w", n.AID, err)
	}
	a.peersMoved()
	return p, secret, nil
}

func (a *Access) newPeer(op string, aid hub.AID, endpoint, repo string) (hub.Peer, error) {
	if err := a.checkAID(op, aid); err != nil {
		return hub.Peer{}, err
	}
	endpoint, err := federation.ParseEndpoint(endpoint)
	if err != nil {
		return hub.Peer{}, err
	}
	if len(repo) > federation.MaxName || strings.ContainsFunc(repo, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return hub.Peer{}, hub.Errorf(hub.CodeInvalid, op, "a repository's name is one line of at most %d bytes", federation.MaxName)
	}
	return hub.Peer{AID: aid, Endpoint: endpoint, Repo: repo, State: hub.PeerPending, Trust: hub.TrustUnknown, AddedAt: hub.InstantAt(a.clock())}, nil
}

func parseNetwork(op, s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		addr = addr.Unmap()
		return addr.Prefix(addr.BitLen())
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, hub.Errorf(hub.CodeInvalid, op, "%.80q is not an address or a network", s).WithHint("use for example 10.1.2.3 or 10.1.2.0/24")
	}
	return p.Masked(), nil
}

// trust returns how much an approved peer is trusted: with a key fully, without
// one as far as reading goes. Legacy peers have their own rule.
func trust(p hub.Peer) hub.TrustLevel {
	switch {
	case p.KeyHash != "":
		return hub.TrustVerified
	case p.Legacy != "":
		return hub.TrustUnknown
	}
	return hub.TrustKnown
}

// SetPeerKey keeps the key that a peer wants from us. Only the operator may.
func (a *Access) SetPeerKey(ctx context.Context, actor hub.Caller, aid hub.AID, key string) error {
	const op = "access.SetPeerKey"
	if err := operatorOnly(op, actor); err != nil {
		return err
	}
	sealed, err := a.sealKey(op, aid, key)
	if err != nil {
		return err
	}
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		p, err := tx.Peer(aid)
		if err != nil {
			return err
		}
		if p.State == hub.PeerRemoved {
			return hub.Errorf(hub.CodeConflict, op, "%s was removed", aid)
		}
		p.Sealed = sealed
		return a.putPeer(tx, actor, hub.ActionPeerKeySet, p)
	})
	if err != nil {
		return fmt.Errorf("access: keep the key for %s: %w", aid, err)
	}
	a.peersMoved()
	return nil
}

// RegisterPeer is how a peer makes itself known. A new one waits for the
// operator, unless the hub is open; only one that a key, the operator or the
// directory stands behind is noted at all. One that is known may say where it
// is now if it shows its key.
func (a *Access) RegisterPeer(ctx context.Context, c hub.Caller, n NewPeer) (hub.Peer, error) {
	const op = "access.RegisterPeer"
	p, err := a.newPeer(op, n.AID, n.Endpoint, n.Repo)
	if err != nil {
		return hub.Peer{}, err
	}
	proved := isPeer(c, n.AID)
	if !a.open && !proved && !c.IsOperator() {
		vouched := false
		if a.directory != nil {
			if vouched, err = a.directory.Vouch(ctx, p.AID, p.Endpoint); err != nil {
				return hub.Peer{}, err
			}
		}
		if !vouched && !(c.Kind == hub.CallerLegacyPeer && c.AID == n.AID) {
			return hub.Peer{}, hub.Errorf(hub.CodeUnauthenticated, op, "a peer registers with its key, or after an invite").
				WithHint("parley peer invite on this side, parley peer join on the other")
		}
	}
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		was, err := tx.Peer(p.AID)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound:
			if err := a.room(tx, op); err != nil {
				return err
			}
			if a.open {
				p.State, p.Trust = hub.PeerApproved, hub.TrustVerified
			}
			return a.putPeer(tx, c, hub.ActionPeerRegistered, p)
		case err != nil:
			return err
		case was.Endpoint == p.Endpoint && was.Repo == cmp.Or(p.Repo, was.Repo):
			p = was
			return nil
		case !proved && !c.IsOperator() && !a.open:
			return hub.Errorf(hub.CodeDenied, op, "%s is known already, and only its key can say that it moved", p.AID)
		}
		was.Endpoint, was.Repo = p.Endpoint, cmp.Or(p.Repo, was.Repo)
		p = was
		return a.putPeer(tx, c, hub.ActionPeerMoved, p)
	})
	if err != nil {
		return hub.Peer{}, fmt.Errorf("access: register %s: %w", n.AID, err)
	}
	a.peersMoved()
	return p, nil
}

// room reports CodeRateLimited when too many peers wait for the operator.
func (a *Access) room(tx hub.Tx, op string) error {
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
		return hub.Errorf(hub.CodeRateLimited, op, "%d peers wait for the operator already", pending).
			WithHint("the operator decides with: parley peer approve AID, or parley peer remove AID")
	}
	return nil
}

// ApprovePeer lets a peer in. One that has a key may do everything, one without
// may read. Only the operator may.
func (a *Access) ApprovePeer(ctx context.Context, actor hub.Caller, aid hub.AID) (hub.Peer, error) {
	return a.movePeer(ctx, "access.ApprovePeer", actor, aid, hub.ActionPeerApproved, func(p *hub.Peer) {
		p.State, p.Trust = hub.PeerApproved, trust(*p)
	})
}

// RemovePeer shuts a peer out: its key is forgotten, and so is the one that it
// gave. Only the operator may.
func (a *Access) RemovePeer(ctx context.Context, actor hub.Caller, aid hub.AID) (hub.Peer, error) {
	return a.movePeer(ctx, "access.RemovePeer", actor, aid, hub.ActionPeerRemoved, func(p *hub.Peer) {
		p.State, p.Trust, p.KeyHash, p.Sealed, p.Legacy = hub.PeerRemoved, hub.TrustUnknown, "", "", ""
	})
}

func (a *Access) movePeer(ctx context.Context, op string, actor hub.Caller, aid hub.AID, action hub.Action, move func(*hub.Peer)) (hub.Peer, error) {
	if err := operatorOnly(op, actor); err != nil {
		return hub.Peer{}, err
	}
	var p hub.Peer
	err := a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if p, err = tx.Peer(aid); err != nil {
			return err
		}
		was := p.State
		move(&p)
		if p.State == was {
			return nil
		}
		if !was.CanBecome(p.State) {
			return hub.Errorf(hub.CodeConflict, op, "%s is %s", aid, was)
		}
		if p.State == hub.PeerRemoved {
			if err := tx.PutMeta(scopeKey(aid), ""); err != nil {
				return err
			}
		}
		return a.putPeer(tx, actor, action, p)
	})
	if err != nil {
		return hub.Peer{}, fmt.Errorf("access: %s: %w", action, err)
	}
	a.peersMoved()
	return p, nil
}

func (a *Access) putPeer(tx hub.Tx, actor hub.Caller, action hub.Action, p hub.Peer) error {
	if err := tx.PutPeer(p); err != nil {
		return err
	}
	facts := map[string]any{"endpoint": p.Endpoint, "state": p.State, "trust": p.Trust}
	if p.Legacy != "" {
		facts["from"] = p.Legacy
	}
	_, err := tx.Append(entry(a.clock.Now(), actor, action, string(p.AID), facts))
	return err
}

// peersMoved publishes a hint about changed peers.
func (a *Access) peersMoved() {
	a.mu.Lock()
	clear(a.scopes)
	a.epoch++
	a.mu.Unlock()
	if a.bus != nil {
		a.bus.Publish(hub.TopicPeers)
		a.bus.Publish(hub.TopicJournal)
	}
}

// Peers returns every peer, by AID. Only the operator may.
func (a *Access) Peers(ctx context.Context, actor hub.Caller) ([]hub.Peer, error) {
	if err := operatorOnly("access.Peers", actor); err != nil {
		return nil, err
	}
	peers := []hub.Peer{}
	err := a.store.View(ctx, func(r hub.Reader) error {
		got, err := r.Peers()
		peers = append(peers[:0], got...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("access: list peers: %w", err)
	}
	return peers, nil
}

// place binds a sealed key to the peer that it is for.
func place(aid hub.AID) string { return "peer " + string(aid) }

// sealKey encrypts the key that a peer wants from us.
func (a *Access) sealKey(op string, aid hub.AID, key string) (string, error) {
	switch {
	case a.vault == nil:
		return "", hub.Errorf(hub.CodeNotEnabled, op, "this hub has no key file to guard the peer's key with")
	case len(key) > 512 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", hub.Errorf(hub.CodeInvalid, op, "the peer's key cannot be sent in a header")
	}
	return a.vault.Seal(key, place(aid)), nil
}

// PeerKey returns the key that we send to a peer, or "" if it gave none.
func (a *Access) PeerKey(p hub.Peer) (string, error) {
	if p.Sealed == "" {
		return "", nil
	}
	if a.vault == nil {
		return "", hub.Errorf(hub.CodeDegraded, "access.PeerKey", "this hub has no key file to read the key for %s with", p.AID)
	}
	return a.vault.Open(p.Sealed, place(p.AID))
}

// scopeKey names the place where the projects are kept that a peer takes part
// in: for a peer that came with invites those of the invites, for others all.
func scopeKey(aid hub.AID) string { return "peer.scope/" + string(aid) }

func scopeOf(r hub.Reader, aid hub.AID) ([]hub.ProjectID, error) {
	text, err := r.Meta(scopeKey(aid))
	if hub.CodeOf(err) == hub.CodeNotFound || err == nil && text == "" {
		return nil, nil
	}
	var ids []hub.ProjectID
	if err == nil {
		err = json.Unmarshal([]byte(text), &ids)
	}
	return ids, err
}

// InScope reports whether a peer takes part in a project.
func (a *Access) InScope(ctx context.Context, aid hub.AID, project hub.ProjectID) (bool, error) {
	a.mu.RLock()
	ids, ok := a.scopes[aid]
	epoch := a.epoch
	a.mu.RUnlock()
	if !ok {
		err := a.store.View(ctx, func(r hub.Reader) (err error) {
			ids, err = scopeOf(r, aid)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("access: scope of %s: %w", aid, err)
		}
		a.mu.Lock()
		if a.epoch == epoch {
			if len(a.scopes) >= maxPeers {
				clear(a.scopes)
			}
			a.scopes[aid] = ids
		}
		a.mu.Unlock()
	}
	return len(ids) == 0 || slices.Contains(ids, project), nil
}
