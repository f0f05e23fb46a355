package peers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/federation"
	"github.com/parley-agents/parley/internal/vault"
)

const (
	defaultInviteLife = 24 * time.Hour
	maxInviteLife     = 30 * 24 * time.Hour
	maxInvites        = 1000 // of one project, used ones included
)

// A NewInvite describes an invite to make.
type NewInvite struct {
	Project     hub.ProjectID
	Repo        string
	Permissions []hub.Permission // default hub.Contributor
	Life        time.Duration    // default a day, at most 30
}

// Invite makes an invite for one repository of one project. The text is shown
// this once and can be redeemed once. Only the operator may.
func (s *Service) Invite(ctx context.Context, actor hub.Caller, n NewInvite) (hub.Invite, string, error) {
	const op = "peers.Invite"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Invite{}, "", err
	}
	if s.opts.Vault == nil {
		return hub.Invite{}, "", hub.Errorf(hub.CodeNotEnabled, op, "this hub has no key file, so it cannot keep the key of a guest")
	}
	permissions, err := hub.CheckPermissions(op, n.Permissions)
	if err != nil {
		return hub.Invite{}, "", err
	}
	switch {
	case n.Life == 0:
		n.Life = defaultInviteLife
	case n.Life < 0 || n.Life > maxInviteLife:
		return hub.Invite{}, "", hub.Errorf(hub.CodeInvalid, op, "an invite lives for at most %s", maxInviteLife)
	}
	now := s.opts.Clock()
	text := inviteText(n.Project)
	hash := hub.HashSecret(text)
	in := hub.Invite{
		ID: "invite-" + hash[:12], Hash: hash, Hint: text[len(text)-4:], Project: n.Project, Repo: n.Repo,
		Permissions: permissions, By: actor.ID, CreatedAt: hub.InstantAt(now), ExpiresAt: hub.InstantAt(now.Add(n.Life)),
	}
	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		p, err := tx.Project(n.Project)
		if err != nil {
			return err
		}
		if _, ok := p.RepoNamed(n.Repo); !ok {
			return hub.Errorf(hub.CodeNotFound, op, "project %s has no repository %.200q", n.Project, n.Repo).WithHint("parley project show %s lists them", n.Project)
		}
		made, err := tx.Invites(hub.InviteQuery{Project: n.Project, Limit: maxInvites})
		if err != nil {
			return err
		}
		if len(made) >= maxInvites {
			return hub.Errorf(hub.CodeRateLimited, op, "project %s has had %d invites", n.Project, len(made))
		}
		if err := tx.PutInvite(in); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(hub.At(now), hub.ActionInviteMade, in.ID, map[string]any{
			"project": n.Project, "repo": n.Repo, "permissions": permissions, "expires": in.ExpiresAt.String(),
		}))
		return err
	})
	if err != nil {
		return hub.Invite{}, "", fmt.Errorf("peers: invite to %s: %w", n.Project, err)
	}
	return in, text, nil
}

// inviteText makes the text of an invite, INV-<project>-<secret>-<check>: the
// beginning of the project's id, 128 random bits, and two digits that tell a
// typing error from a wrong invite.
func inviteText(project hub.ProjectID) string {
	var secret [16]byte
	rand.Read(secret[:]) // never fails: the runtime ends the program instead
	body := "INV-" + string(project[:min(5, len(project))]) + "-" + base64.RawURLEncoding.EncodeToString(secret[:])
	return body + "-" + inviteCheck(body)
}

func inviteCheck(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:1])
}

// checkInvite reports CodeInvalid for a text that cannot be an invite.
func checkInvite(op, text string) error {
	i := strings.LastIndexByte(text, '-')
	if len(text) <= 64 && strings.HasPrefix(text, "INV-") && i > 4 && inviteCheck(text[:i]) == text[i+1:] {
		return nil
	}
	return hub.Errorf(hub.CodeInvalid, op, "this is not an invite, or a part of it is missing").WithHint("copy all of it, from INV- to the last two digits")
}

// findInvite returns the first invite that matches a query.
func findInvite(r hub.Reader, op string, q hub.InviteQuery) (hub.Invite, error) {
	q.Limit = 1
	found, err := r.Invites(q)
	if err != nil {
		return hub.Invite{}, err
	}
	if len(found) == 0 {
		return hub.Invite{}, hub.Errorf(hub.CodeNotFound, op, "this hub gave out no such invite")
	}
	return found[0], nil
}

// RevokeInvite makes an invite useless. Only the operator may.
func (s *Service) RevokeInvite(ctx context.Context, actor hub.Caller, id string) (hub.Invite, error) {
	const op = "peers.RevokeInvite"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Invite{}, err
	}
	var in hub.Invite
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if in, err = findInvite(tx, op, hub.InviteQuery{ID: id}); err != nil {
			return err
		}
		if !in.RevokedAt.IsZero() {
			return nil
		}
		in.RevokedAt = hub.InstantAt(s.opts.Clock())
		if err := tx.PutInvite(in); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(s.opts.Clock.Now(), hub.ActionInviteRevoked, id, nil))
		return err
	})
	if err != nil {
		return hub.Invite{}, fmt.Errorf("peers: revoke invite %s: %w", id, err)
	}
	return in, nil
}

// Invites returns the invites of a project, or all, newest first. Only the
// operator may.
func (s *Service) Invites(ctx context.Context, actor hub.Caller, project hub.ProjectID) ([]hub.Invite, error) {
	if err := actor.OperatorOnly("peers.Invites"); err != nil {
		return nil, err
	}
	found, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Invite, error) {
		return r.Invites(hub.InviteQuery{Project: project, Limit: maxInvites})
	})
	if err != nil {
		return nil, fmt.Errorf("peers: list invites: %w", err)
	}
	return append([]hub.Invite{}, found...), nil // never null on the wire
}

// Redeem accepts an invite from the hub that got it, adds that hub as a peer, and
// exchanges keys: this hub stores the guest's key to send it, and makes a new key
// for the guest to send. A source with too many wrong invites must wait. A known
// peer can redeem only with its own key.
func (s *Service) Redeem(ctx context.Context, c hub.Caller, r federation.Redemption) (federation.Welcome, error) {
	const op = "peers.Redeem"
	now := s.opts.Clock()
	if wait := s.wrongInvites.wait(c.Source, now); wait > 0 {
		return federation.Welcome{}, hub.Errorf(hub.CodeRateLimited, op, "too many wrong invites came from this address").WithRetry(wait)
	}
	if r.Key == "" {
		return federation.Welcome{}, hub.Errorf(hub.CodeInvalid, op, "a guest brings a key for this hub to send")
	}
	secret := vault.NewSecret()
	p, err := s.keyedPeer(op, r.AID, r.Endpoint, r.Repo, r.Key, secret)
	if err != nil {
		return federation.Welcome{}, err
	}
	if err := checkInvite(op, r.Invite); err != nil {
		s.wrongInvites.failed(c.Source, now)
		return federation.Welcome{}, err
	}
	var in hub.Invite
	err = s.update(ctx, "redeem an invite", func(tx hub.Tx) (err error) {
		if in, err = findInvite(tx, op, hub.InviteQuery{Hash: hub.HashSecret(r.Invite)}); err != nil {
			return err
		}
		if err := usable(op, in, hub.InstantAt(now)); err != nil {
			return err
		}
		if was, err := tx.Peer(p.AID); err == nil && was.State == hub.PeerApproved && !isPeer(c, r.AID) {
			return hub.Errorf(hub.CodeConflict, op, "%s is a peer already", p.AID).WithHint("redeem the invite with that peer's key, or remove the peer first")
		} else if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		in.RedeemedAt, in.RedeemedBy = hub.InstantAt(now), p.AID
		if err := tx.PutInvite(in); err != nil {
			return err
		}
		if err := addToScope(tx, p.AID, in.Project); err != nil {
			return err
		}
		guest := hub.OutsideCaller(hub.CallerPeer, p.AID, p.Trust)
		if _, err := tx.Append(guest.Entry(hub.At(now), hub.ActionInviteRedeemed, in.ID, map[string]any{"project": in.Project, "repo": in.Repo})); err != nil {
			return err
		}
		return s.putPeer(tx, guest, hub.ActionPeerAdded, p)
	})
	if err != nil {
		s.wrongInvites.failed(c.Source, now)
		return federation.Welcome{}, err
	}
	return federation.Welcome{
		AID: s.opts.Self, Endpoint: s.opts.Home, Repo: s.opts.Repo, Project: in.Project, ForRepo: in.Repo, Permissions: in.Permissions, Key: secret,
	}, nil
}

// usable reports CodeConflict for an invite that cannot be redeemed any more.
func usable(op string, in hub.Invite, now hub.Instant) error {
	switch {
	case !in.RevokedAt.IsZero():
		return hub.Errorf(hub.CodeConflict, op, "the invite was revoked")
	case !in.RedeemedAt.IsZero():
		return hub.Errorf(hub.CodeConflict, op, "the invite was redeemed already").WithHint("each invite can be used once; ask for another")
	case !in.Live(now):
		return hub.Errorf(hub.CodeConflict, op, "the invite expired on %s", in.ExpiresAt)
	}
	return nil
}

// addToScope adds a project to those that a peer takes part in. A peer that takes
// part in all of them keeps doing so.
func addToScope(tx hub.Tx, aid hub.AID, project hub.ProjectID) error {
	ids, err := scopeOf(tx, aid)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		if p, err := tx.Peer(aid); err == nil && p.State == hub.PeerApproved {
			return nil
		} else if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
	}
	if slices.Contains(ids, project) {
		return nil
	}
	text, err := json.Marshal(append(ids, project))
	if err != nil {
		return err
	}
	return tx.PutMeta(scopeKey(aid), string(text))
}

// Join redeems an invite at another hub and stores that hub as a peer. redeem
// makes the call. Only the operator may.
func (s *Service) Join(ctx context.Context, actor hub.Caller, invite string, redeem func(context.Context, federation.Redemption) (federation.Welcome, error)) (federation.Welcome, error) {
	const op = "peers.Join"
	if err := actor.OperatorOnly(op); err != nil {
		return federation.Welcome{}, err
	}
	if err := checkInvite(op, invite); err != nil {
		return federation.Welcome{}, err
	}
	secret := vault.NewSecret()
	w, err := redeem(ctx, federation.Redemption{Invite: invite, AID: s.opts.Self, Endpoint: s.opts.Home, Repo: s.opts.Repo, Key: secret})
	if err != nil {
		return federation.Welcome{}, fmt.Errorf("peers: redeem the invite: %w", err)
	}
	if !w.Project.Valid() || w.Key == "" {
		return federation.Welcome{}, hub.Errorf(hub.CodeUnreachable, op, "the answer of %s to the invite has no project or no key", w.AID)
	}
	p, err := s.keyedPeer(op, w.AID, w.Endpoint, w.Repo, w.Key, secret)
	if err != nil {
		return federation.Welcome{}, err
	}
	err = s.update(ctx, "store the peer "+string(w.AID), func(tx hub.Tx) error {
		if err := addToScope(tx, p.AID, w.Project); err != nil {
			return err
		}
		return s.putPeer(tx, actor, hub.ActionPeerAdded, p)
	})
	if err != nil {
		return federation.Welcome{}, err
	}
	w.Key = "" // it is stored; the caller must not see it
	return w, nil
}

// wrongInvites counts wrong invites by the network that they came from. The zero
// value is ready.
type wrongInvites struct {
	mu    sync.Mutex
	wrong map[netip.Prefix]inviteCount
}

// An inviteCount counts wrong invites within inviteWindow from its start.
type inviteCount struct {
	start time.Time
	n     int
}

const (
	maxWrongInvites = 10 // within inviteWindow, from one network
	inviteWindow    = 10 * time.Minute
	maxNetworks     = 10_000
)

// network returns the network that counts as one source: an IPv4 address, or the
// /64 of an IPv6 address, whose owner has all of it.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // calls without an address count as one network
	return p
}

// wait returns the time until a source may try again.
func (t *wrongInvites) wait(from netip.Addr, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.wrong[network(from)]
	if c.n < maxWrongInvites {
		return 0
	}
	return max(0, c.start.Add(inviteWindow).Sub(now))
}

// failed counts a wrong invite.
func (t *wrongInvites) failed(from netip.Addr, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong == nil || len(t.wrong) >= maxNetworks {
		t.wrong = map[netip.Prefix]inviteCount{} // an invite has 128 random bits; forgetting is safe
	}
	c := t.wrong[network(from)]
	if now.Sub(c.start) > inviteWindow {
		c = inviteCount{start: now}
	}
	c.n++
	t.wrong[network(from)] = c
}
