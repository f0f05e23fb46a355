package peers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/vault"
)

const (
	defaultInviteLife = 24 * time.Hour
	maxInviteLife     = 30 * 24 * time.Hour
	maxInvites        = 1000 // of one project, used ones included
)

// A NewInvite describes an invite to make.
type NewInvite struct {
	Project     coord.ProjectID
	Repo        string
	Permissions []coord.Permission // default hub.Contributor
	ActsFor     []coord.AID        // agents outside of its domain that the guest may be or act for
	Life        time.Duration      // default a day, at most 30
}

// Invite makes an invite for one repository of one project. The text is shown
// this once and can be redeemed once. Only the operator may.
func (s *Service) Invite(ctx context.Context, actor hub.Caller, n NewInvite) (hub.Invite, string, error) {
	const op = "peers.Invite"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Invite{}, "", err
	}
	if s.opts.Vault == nil {
		return hub.Invite{}, "", hub.Errorf(hub.CodeNotEnabled, op, "this hub has no key file and cannot store a guest's key")
	}

	permissions, err := hub.CheckPermissions(op, n.Permissions)
	if err == nil {
		err = s.checkActsFor(op, n.ActsFor)
	}
	if err != nil {
		return hub.Invite{}, "", err
	}

	switch {
	case n.Life == 0:
		n.Life = defaultInviteLife
	case n.Life < 0 || n.Life > maxInviteLife:
		return hub.Invite{}, "", hub.Errorf(hub.CodeInvalid, op, "an invite can be valid for at most %s", maxInviteLife)
	}

	// The store gets the hash of the text alone.
	now := s.opts.Clock()
	text := inviteText(n.Project)
	hash := hub.HashSecret(text)
	in := hub.Invite{
		ID: "invite-" + hash[:12], Hash: hash, Hint: text[len(text)-4:], Project: n.Project, Repo: n.Repo,
		Permissions: permissions, ActsFor: n.ActsFor, By: actor.ID, CreatedAt: coord.InstantAt(now), ExpiresAt: coord.InstantAt(now.Add(n.Life)),
	}

	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		p, err := tx.Coordination().Project(n.Project)
		if err != nil {
			return err
		}
		if _, ok := p.RepoNamed(n.Repo); !ok {
			return hub.Errorf(hub.CodeNotFound, op, "project %s has no repository %.200q", n.Project, n.Repo).WithHint("parley project show %s lists the repositories", n.Project)
		}

		made, err := tx.Invites(hub.InviteQuery{Project: n.Project, Limit: maxInvites})
		if err != nil {
			return err
		}
		if len(made) >= maxInvites {
			return hub.Errorf(hub.CodeRateLimited, op, "project %s reached the limit of %d invites", n.Project, len(made))
		}

		if err := tx.PutInvite(in); err != nil {
			return err
		}
		facts := map[string]any{"project": n.Project, "repo": n.Repo, "permissions": permissions, "expires": in.ExpiresAt.String()}
		if len(n.ActsFor) > 0 {
			facts["acts_for"] = n.ActsFor
		}
		_, err = tx.Append(actor.Entry(hub.At(now), actions.InviteMade, in.ID, facts))
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
func inviteText(project coord.ProjectID) string {
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
	isInvite := len(text) <= 64 && strings.HasPrefix(text, "INV-") && i > 4 && inviteCheck(text[:i]) == text[i+1:]
	if isInvite {
		return nil
	}
	return hub.Errorf(hub.CodeInvalid, op, "this is not an invite, or part of it is missing").WithHint("copy all of it, from INV- to the last two digits")
}

// findInvite returns the first invite that matches a query.
func findInvite(r hub.Reader, op string, q hub.InviteQuery) (hub.Invite, error) {
	q.Limit = 1
	found, err := r.Invites(q)
	if err != nil {
		return hub.Invite{}, err
	}
	if len(found) == 0 {
		return hub.Invite{}, hub.Errorf(hub.CodeNotFound, op, "this hub did not issue this invite")
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
		in.RevokedAt = coord.InstantAt(s.opts.Clock())
		if err := tx.PutInvite(in); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(s.opts.Clock.Now(), actions.InviteRevoked, id, nil))
		return err
	})
	if err != nil {
		return hub.Invite{}, fmt.Errorf("peers: revoke invite %s: %w", id, err)
	}
	return in, nil
}

// Invites returns the invites of a project, or all, newest first. Only the
// operator may.
func (s *Service) Invites(ctx context.Context, actor hub.Caller, project coord.ProjectID) ([]hub.Invite, error) {
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

// Redeem accepts an invite from the hub that got it, adds that hub as a peer with the
// permissions of the invite, and exchanges keys: this hub stores the guest's key to
// send it, and makes a new key for the guest to send. An invite that failed too often
// must wait. A known peer can redeem only with its own key.
func (s *Service) Redeem(ctx context.Context, c hub.Caller, r federation.Redemption) (federation.Welcome, error) {
	const op = "peers.Redeem"
	now := s.opts.Clock()
	hash := hub.HashSecret(r.Invite)
	if wait := s.wrongInvites.wait(hash, now); wait > 0 {
		return federation.Welcome{}, hub.Errorf(hub.CodeRateLimited, op, "this invite failed %d times", maxWrongInvites).WithRetry(wait)
	}

	secret := vault.NewSecret()
	var in hub.Invite
	p, err := s.guest(op, r, secret)
	taken := err == nil && s.opts.Taken != nil && s.opts.Taken(p.AID) // it reads the store itself
	if err == nil {
		err = s.update(ctx, "redeem an invite", func(tx hub.Tx) (err error) {
			if in, err = findInvite(tx, op, hub.InviteQuery{Hash: hash}); err != nil {
				return err
			}
			if err := usable(op, in, coord.InstantAt(now)); err != nil {
				return err
			}
			if err := s.mayTake(tx, op, p.AID, taken, in); err != nil {
				return err
			}

			// A known peer redeems an invite with its own key only.
			was, err := tx.Peer(p.AID)
			switch {
			case err == nil && was.State == hub.PeerApproved && !isPeer(c, r.AID):
				return hub.Errorf(hub.CodeConflict, op, "%s is already a peer", p.AID).WithHint("redeem the invite with that peer's key, or remove the peer first")
			case err != nil && hub.CodeOf(err) != hub.CodeNotFound:
				return err
			}

			// The invite is used up, and its permissions are added to those of the peer.
			in.RedeemedAt, in.RedeemedBy = coord.InstantAt(now), p.AID
			if err := tx.PutInvite(in); err != nil {
				return err
			}
			p := granted(p, was, coord.Grant{Project: in.Project, Repos: []string{in.Repo}, Permissions: in.Permissions})
			p.ActsFor = union(p.ActsFor, in.ActsFor)
			guest := hub.OutsideCaller(hub.CallerPeer, p.AID, p.Access)
			if _, err := tx.Append(guest.Entry(hub.At(now), actions.InviteRedeemed, in.ID, map[string]any{"project": in.Project, "repo": in.Repo})); err != nil {
				return err
			}
			return s.putPeer(tx, guest, actions.PeerAdded, p)
		})
	}

	if err != nil {
		if !hub.Unavailable(err) { // a failure of this hub is not the guest's
			s.wrongInvites.failed(hash, now)
		}
		return federation.Welcome{}, err
	}
	return federation.Welcome{
		AID: s.opts.Self, Endpoint: s.opts.Home, Repo: s.opts.Repo, Project: in.Project, ForRepo: in.Repo, Permissions: in.Permissions, Key: secret,
	}, nil
}

// guest returns the peer that a redemption describes.
func (s *Service) guest(op string, r federation.Redemption, secret string) (hub.Peer, error) {
	if r.Key == "" {
		return hub.Peer{}, hub.Errorf(hub.CodeInvalid, op, "key is required: this hub sends it when it calls the guest")
	}
	p, err := s.keyedPeer(op, r.AID, r.Endpoint, r.Repo, r.Key, secret)
	if err == nil {
		err = checkInvite(op, r.Invite)
	}
	return p, err
}

// mayTake reports CodeDenied when a guest may not have an AID, unless the invite names
// it: that of this hub or of one of its agents (taken), and one in a domain that is not
// the guest's alone. A domain without a dot is the name of a machine, which several hubs
// may share.
func (s *Service) mayTake(r hub.Reader, op string, aid coord.AID, taken bool, in hub.Invite) error {
	if slices.Contains(in.ActsFor, aid) {
		return nil
	}
	denied := func(format string, args ...any) error {
		return hub.Errorf(hub.CodeDenied, op, format, args...).
			WithHint("use another agent id, or ask the operator for an invite that names it: parley peer invite --acts-for %s", aid)
	}
	if aid.Same(s.opts.Self) || taken {
		return denied("%s is this hub or one of its agents", aid)
	}
	domain, _ := aid.Split()
	if domain == "" && strings.HasPrefix(string(aid), "aid:") {
		return denied("%.80q is not a valid agent id", aid)
	}
	if !strings.Contains(domain, ".") {
		return nil
	}
	if own, _ := s.opts.Self.Split(); own == domain {
		return denied("%s is the domain of this hub", domain)
	}
	peers, err := r.Peers()
	for _, p := range peers {
		if other, _ := p.AID.Split(); other == domain && p.State == hub.PeerApproved && p.AID != aid {
			return denied("%s is the domain of peer %s", domain, p.AID)
		}
	}
	return err
}

// granted returns a peer with a grant added to those that it had. A peer that took
// part in all projects keeps doing so. was is the peer as it was, if it was one.
func granted(p, was hub.Peer, g coord.Grant) hub.Peer {
	if was.State != hub.PeerApproved {
		p.Grants = []coord.Grant{g}
		return p
	}
	p.ActsFor = was.ActsFor
	if was.Grants == nil {
		return p
	}
	p.Grants = slices.Clone(was.Grants)
	i := slices.IndexFunc(p.Grants, func(x coord.Grant) bool { return x.Project == g.Project })
	if i < 0 {
		p.Grants = append(p.Grants, g)
		return p
	}
	old := p.Grants[i]
	g.Repos = union(old.Repos, g.Repos)
	g.Permissions = union(old.Permissions, g.Permissions)
	g.Host = g.Host || old.Host
	g.Ours = union(old.Ours, g.Ours)
	p.Grants[i] = g
	return p
}

// usable reports CodeConflict for an invite that cannot be redeemed any more.
func usable(op string, in hub.Invite, now coord.Instant) error {
	switch {
	case !in.RevokedAt.IsZero():
		return hub.Errorf(hub.CodeConflict, op, "the invite was revoked")
	case !in.RedeemedAt.IsZero():
		return hub.Errorf(hub.CodeConflict, op, "the invite was already redeemed").WithHint("an invite works once; ask for another")
	case !in.Live(now):
		return hub.Errorf(hub.CodeConflict, op, "the invite expired on %s", in.ExpiresAt)
	}
	return nil
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
		return federation.Welcome{}, hub.Errorf(hub.CodeUnreachable, op, "%s answered the invite without a project or key", w.AID)
	}

	p, err := s.keyedPeer(op, w.AID, w.Endpoint, w.Repo, w.Key, secret)
	if err != nil {
		return federation.Welcome{}, err
	}
	err = s.update(ctx, "store the peer "+string(w.AID), func(tx hub.Tx) error {
		was, err := tx.Peer(p.AID)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}

		// This hub grants the host all permissions in the project, and notes its own.
		host := coord.Grant{Project: w.Project, Permissions: coord.Permissions, Host: true, Ours: w.Permissions}
		return s.putPeer(tx, actor, actions.PeerAdded, granted(p, was, host))
	})
	if err != nil {
		return federation.Welcome{}, err
	}
	w.Key = "" // it is stored; the caller must not see it
	return w, nil
}

// wrongInvites counts the failures of each invite, by its hash: an invite that is
// tried again and again waits, and others from the same address do not. A guess fails
// once: an invite has 128 random bits. The zero value is ready.
type wrongInvites struct {
	mu    sync.Mutex
	wrong map[string]inviteCount
}

// An inviteCount counts failures within inviteWindow from its start.
type inviteCount struct {
	start time.Time
	n     int
}

const (
	maxWrongInvites = 10 // failures of one invite within inviteWindow
	inviteWindow    = 10 * time.Minute
	maxCounts       = 10_000
)

// wait returns the time until an invite may be tried again.
func (t *wrongInvites) wait(hash string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.wrong[hash]
	if c.n < maxWrongInvites {
		return 0
	}
	return max(0, c.start.Add(inviteWindow).Sub(now))
}

// failed counts a failure.
func (t *wrongInvites) failed(hash string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong == nil || len(t.wrong) >= maxCounts {
		t.wrong = map[string]inviteCount{} // forgetting lets an invite fail ten times more
	}
	c := t.wrong[hash]
	if now.Sub(c.start) > inviteWindow {
		c = inviteCount{start: now}
	}
	c.n++
	t.wrong[hash] = c
}
