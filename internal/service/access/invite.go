package access

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
)

// How long an invite lives, and how many may be open at a time.
const (
	defaultInviteLife = 24 * time.Hour
	maxInviteLife     = 30 * 24 * time.Hour
	maxInvites        = 1000 // of one project, used ones included
)

// A NewInvite says which invite to make.
type NewInvite struct {
	Project     hub.ProjectID
	Repo        string
	Permissions []Permission  // default Contributor
	Life        time.Duration // default a day, at most 30
}

// Invite makes an invite for one repository of one project. The text is shown
// this once and can be redeemed once. Only the operator may.
func (a *Access) Invite(ctx context.Context, actor hub.Caller, n NewInvite) (hub.Invite, string, error) {
	const op = "access.Invite"
	if err := operatorOnly(op, actor); err != nil {
		return hub.Invite{}, "", err
	}
	if a.vault == nil {
		return hub.Invite{}, "", hub.Errorf(hub.CodeNotEnabled, op, "this hub has no key file, so it cannot keep a guest's key")
	}
	permissions, err := checkPermissions(op, n.Permissions)
	if err != nil {
		return hub.Invite{}, "", err
	}
	switch {
	case n.Life == 0:
		n.Life = defaultInviteLife
	case n.Life < 0 || n.Life > maxInviteLife:
		return hub.Invite{}, "", hub.Errorf(hub.CodeInvalid, op, "an invite lives for at most %s", maxInviteLife)
	}
	now := a.clock()
	text := inviteText(n.Project)
	in := hub.Invite{
		ID: "invite-" + tokenID()[:12], Hash: hub.HashSecret(text), Hint: text[len(text)-4:], Project: n.Project, Repo: n.Repo,
		Permissions: permissions, By: actor.ID, CreatedAt: hub.InstantAt(now), ExpiresAt: hub.InstantAt(now.Add(n.Life)),
	}
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
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
		if err := tx.AddInvite(in); err != nil {
			return err
		}
		_, err = tx.Append(entry(hub.At(now), actor, hub.ActionInviteMade, in.ID, map[string]any{
			"project": n.Project, "repo": n.Repo, "permissions": permissions, "expires": in.ExpiresAt.String(),
		}))
		return err
	})
	if err != nil {
		return hub.Invite{}, "", fmt.Errorf("access: invite to %s: %w", n.Project, err)
	}
	return in, text, nil
}

// inviteText makes the text of an invite, INV-<project>-<secret>-<check>: the
// beginning of the project's id, 128 random bits, and two digits that tell a
// slip of the pen from a wrong invite.
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

// whole reports whether text can be an invite at all.
func whole(text string) bool {
	i := strings.LastIndexByte(text, '-')
	return len(text) <= 64 && strings.HasPrefix(text, "INV-") && i > 4 && inviteCheck(text[:i]) == text[i+1:]
}

// findInvite returns the invite that matches.
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
func (a *Access) RevokeInvite(ctx context.Context, actor hub.Caller, id string) (hub.Invite, error) {
	const op = "access.RevokeInvite"
	if err := operatorOnly(op, actor); err != nil {
		return hub.Invite{}, err
	}
	var in hub.Invite
	err := a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if in, err = findInvite(tx, op, hub.InviteQuery{ID: id}); err != nil {
			return err
		}
		if !in.RevokedAt.IsZero() {
			return nil
		}
		in.RevokedAt = hub.InstantAt(a.clock())
		if err := tx.PutInvite(in); err != nil {
			return err
		}
		_, err = tx.Append(entry(a.clock.Now(), actor, hub.ActionInviteRevoked, id, nil))
		return err
	})
	if err != nil {
		return hub.Invite{}, fmt.Errorf("access: revoke invite %s: %w", id, err)
	}
	return in, nil
}

// Invites returns the invites of a project, or all, newest first. Only the
// operator may.
func (a *Access) Invites(ctx context.Context, actor hub.Caller, project hub.ProjectID) ([]hub.Invite, error) {
	if err := operatorOnly("access.Invites", actor); err != nil {
		return nil, err
	}
	out := []hub.Invite{}
	err := a.store.View(ctx, func(r hub.Reader) error {
		got, err := r.Invites(hub.InviteQuery{Project: project, Limit: maxInvites})
		out = append(out[:0], got...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("access: list invites: %w", err)
	}
	return out, nil
}

// Redeem accepts an invite from the hub that was given it, adds that hub as a
// peer, and exchanges keys: the guest's is kept to be sent, a new one is made
// for the guest to send. A source that guesses too often must wait. A peer that
// is known already can redeem only with its own key.
func (a *Access) Redeem(ctx context.Context, c hub.Caller, r federation.Redemption) (federation.Welcome, error) {
	const op = "access.Redeem"
	source := c.Source
	now := a.clock()
	if wait := a.attempts.wait(source, now); wait > 0 {
		return federation.Welcome{}, hub.Errorf(hub.CodeRateLimited, op, "too many invites that are none came from there").WithRetry(wait)
	}
	p, err := a.newPeer(op, r.AID, r.Endpoint, r.Repo)
	if err != nil {
		return federation.Welcome{}, err
	}
	if p.Sealed, err = a.sealKey(op, r.AID, r.Key); err != nil {
		return federation.Welcome{}, err
	}
	if r.Key == "" {
		return federation.Welcome{}, hub.Errorf(hub.CodeInvalid, op, "a guest brings a key for this hub to send")
	}
	if !whole(r.Invite) {
		a.attempts.failed(source, now)
		return federation.Welcome{}, hub.Errorf(hub.CodeInvalid, op, "this is not an invite, or a part of it is missing").WithHint("copy all of it, from INV- to the last two digits")
	}
	secret := newSecret()
	p.State, p.KeyHash = hub.PeerApproved, hub.HashSecret(secret)
	p.Trust = trust(p)
	var in hub.Invite
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
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
		if err := widen(tx, p.AID, in.Project); err != nil {
			return err
		}
		guest := outside(hub.CallerPeer, p.AID, p.Trust)
		if _, err := tx.Append(entry(hub.At(now), guest, hub.ActionInviteRedeemed, in.ID, map[string]any{"project": in.Project, "repo": in.Repo})); err != nil {
			return err
		}
		return a.putPeer(tx, guest, hub.ActionPeerAdded, p)
	})
	if err != nil {
		a.attempts.failed(source, now)
		return federation.Welcome{}, fmt.Errorf("access: redeem an invite: %w", err)
	}
	a.peersMoved()
	return federation.Welcome{
		AID: a.self, Endpoint: a.home, Repo: a.repo, Project: in.Project, ForRepo: in.Repo, Permissions: in.Permissions, Key: secret,
	}, nil
}

// usable says why an invite cannot be redeemed.
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

// widen adds a project to those that a peer takes part in. A peer that takes
// part in all of them keeps doing so.
func widen(tx hub.Tx, aid hub.AID, project hub.ProjectID) error {
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

// Join redeems an invite at another hub and keeps that hub as a peer. redeem
// makes the call. Only the operator may.
func (a *Access) Join(ctx context.Context, actor hub.Caller, invite string, redeem func(context.Context, federation.Redemption) (federation.Welcome, error)) (federation.Welcome, error) {
	const op = "access.Join"
	if err := operatorOnly(op, actor); err != nil {
		return federation.Welcome{}, err
	}
	if !whole(invite) {
		return federation.Welcome{}, hub.Errorf(hub.CodeInvalid, op, "this is not an invite, or a part of it is missing").WithHint("copy all of it, from INV- to the last two digits")
	}
	secret := newSecret()
	w, err := redeem(ctx, federation.Redemption{Invite: invite, AID: a.self, Endpoint: a.home, Repo: a.repo, Key: secret})
	if err != nil {
		return federation.Welcome{}, fmt.Errorf("access: redeem the invite: %w", err)
	}
	p, err := a.newPeer(op, w.AID, w.Endpoint, w.Repo)
	if err != nil {
		return federation.Welcome{}, err
	}
	if !w.Project.Valid() || w.Key == "" {
		return federation.Welcome{}, hub.Errorf(hub.CodeUnreachable, op, "the welcome of %s makes no sense", w.AID)
	}
	if p.Sealed, err = a.sealKey(op, p.AID, w.Key); err != nil {
		return federation.Welcome{}, err
	}
	p.State, p.KeyHash = hub.PeerApproved, hub.HashSecret(secret)
	p.Trust = trust(p)
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		if err := widen(tx, p.AID, w.Project); err != nil {
			return err
		}
		return a.putPeer(tx, actor, hub.ActionPeerAdded, p)
	})
	if err != nil {
		return federation.Welcome{}, fmt.Errorf("access: keep %s as a peer: %w", w.AID, err)
	}
	a.peersMoved()
	w.Key = "" // it is stored; the caller must not see it
	return w, nil
}

// attempts counts invites that were none, by where they came from. The zero
// value is ready.
type attempts struct {
	mu    sync.Mutex
	fails map[netip.Prefix]*window
}

type window struct {
	began time.Time
	n     int
}

const (
	maxAttempts   = 10 // within attemptWindow, from one place
	attemptWindow = 10 * time.Minute
	maxPlaces     = 10_000
)

// neighbourhood returns the network that counts as one source: the owner of one
// IPv6 address has many.
func neighbourhood(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address: all such are one place
	}
	return p
}

// wait returns the time until a source may try again.
func (t *attempts) wait(from netip.Addr, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.fails[neighbourhood(from)]
	if !ok || w.n < maxAttempts {
		return 0
	}
	return max(0, w.began.Add(attemptWindow).Sub(now))
}

func (t *attempts) failed(from netip.Addr, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fails == nil {
		t.fails = map[netip.Prefix]*window{}
	}
	if len(t.fails) >= maxPlaces {
		clear(t.fails) // an invite has 128 random bits; forgetting guesses is safe
	}
	key := neighbourhood(from)
	w, ok := t.fails[key]
	if !ok || now.Sub(w.began) > attemptWindow {
		w = &window{began: now}
		t.fails[key] = w
	}
	w.n++
}
