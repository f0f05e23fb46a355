package peers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/testing/lobbytest"
)

// A lobby is a hub that other hubs call, with a project in its store.
type lobby struct{ *lobbytest.Lobby }

const (
	project  = lobbytest.Project
	frontend = lobbytest.Frontend
)

func newLobby(t *testing.T, change func(*peers.Options)) *lobby {
	t.Helper()
	return &lobby{lobbytest.New(t, change)}
}

type directory map[coord.AID]string

func (d directory) Vouch(_ context.Context, aid coord.AID, endpoint string) (bool, error) {
	if d == nil {
		return false, errors.New("no directory")
	}
	return d[aid] == endpoint, nil
}

func TestPeerThatMoves(t *testing.T) {
	const bank = coord.AID("aid://bank.example/hub@1.0.0")
	l := newLobby(t, nil)
	_, key, err := l.Peers.AddPeer(t.Context(), l.Boss, peers.NewPeer{AID: bank, Endpoint: "https://bank.example"})
	if err != nil {
		t.Fatal(err)
	}
	stored := func() hub.Peer {
		t.Helper()
		p, err := hub.Read(t.Context(), l.Store, func(r hub.Reader) (hub.Peer, error) { return r.Peer(bank) })
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := stored()
	p.Seen = coord.InstantAt(l.Now)
	if err := l.Store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutPeer(p) }); err != nil {
		t.Fatal(err)
	}
	self, err := l.Identify(t.Context(), callers.Credentials{Bearer: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range []string{"https://evil.example", "https://other.bank.example"} {
		if _, err := l.Peers.RegisterPeer(t.Context(), self, peers.NewPeer{AID: bank, Endpoint: endpoint}); err != nil {
			t.Fatal(err)
		}
		if p := stored(); p.Endpoint != endpoint || !p.Seen.IsZero() {
			t.Errorf("moved to %s, where it has not answered: got %+v", endpoint, p)
		}
	}
}

func TestRegisterPeer(t *testing.T) {
	const known = coord.AID("aid://known.example/x@1.0.0")
	l := newLobby(t, func(o *peers.Options) { o.Directory = directory{known: "https://known.example"} })
	key := l.Add(t, frontend, "")
	register := func(c callers.Credentials, aid coord.AID, endpoint string) (hub.Peer, error) {
		v, err := l.Identify(t.Context(), c)
		if err != nil {
			v = hub.Caller{}
		}
		return l.Peers.RegisterPeer(t.Context(), v, peers.NewPeer{AID: aid, Endpoint: endpoint})
	}
	t.Run("R1-053 a stranger cannot register", func(t *testing.T) {
		if _, err := register(callers.Credentials{}, "aid://evil.example/x@1.0.0", "https://evil.example"); hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R1-053 one that the exchange knows waits for the operator", func(t *testing.T) {
		if p, err := register(callers.Credentials{}, known, "https://known.example/"); err != nil || p.State != hub.PeerPending {
			t.Errorf("got %+v, %v", p, err)
		}
		if _, err := register(callers.Credentials{}, known, "https://elsewhere.example"); hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("elsewhere: got %v", err)
		}
	})
	t.Run("R1-053 only its key can move a peer", func(t *testing.T) {
		if _, err := register(callers.Credentials{}, frontend, "https://evil.example"); err == nil {
			t.Error("moved by a stranger")
		}
		if p, err := register(callers.Credentials{Bearer: key, AgentID: frontend}, frontend, "https://new.example"); err != nil || p.Endpoint != "https://new.example" || p.State != hub.PeerApproved {
			t.Errorf("got %+v, %v", p, err)
		}
		if _, err := register(callers.Credentials{Bearer: key}, "aid://evil.example/x@1.0.0", "https://evil.example"); hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("another with this key: got %v", err)
		}
	})
	t.Run("R1-053 a legacy peer registers nobody but itself, and does not move", func(t *testing.T) {
		l.Add(t, "agent-old", "10.1.2.3")
		old := callers.Credentials{AgentID: "agent-old", Source: netip.MustParseAddr("10.1.2.3")}
		if p, err := register(old, "agent-old", "https://f.example/"); err != nil || p.State != hub.PeerApproved {
			t.Errorf("itself: got %+v, %v", p, err)
		}
		if _, err := register(old, "agent-old", "https://evil.example"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("elsewhere: got %v", err)
		}
		if _, err := register(old, "agent-new", "https://evil.example"); hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("another: got %v", err)
		}
	})
	t.Run("R1-053 an open hub takes everybody", func(t *testing.T) {
		open := newLobby(t, func(o *peers.Options) { o.Open = true })
		v, err := open.Identify(t.Context(), callers.Credentials{AgentID: "agent-x"})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := open.Peers.RegisterPeer(t.Context(), v, peers.NewPeer{AID: "agent-x", Endpoint: "http://127.0.0.1:1"}); err != nil || p.State != hub.PeerApproved {
			t.Errorf("got %+v, %v", p, err)
		}
		if err := open.Admit(v, "cacp/contract/sync", coord.PermitSync, project); err != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R1-087 those who wait are bounded", func(t *testing.T) {
		full := newLobby(t, nil)
		var err error
		for i := 0; i < 200 && err == nil; i++ {
			_, err = full.Peers.RegisterPeer(t.Context(), full.Boss, peers.NewPeer{AID: coord.AID(fmt.Sprint("p", i)), Endpoint: "https://x.example"})
		}
		if hub.CodeOf(err) != hub.CodeRateLimited {
			t.Errorf("got %v", err)
		}
	})
}

func TestInvites(t *testing.T) {
	l := newLobby(t, nil)
	here := netip.MustParseAddr("203.0.113.7")
	invite := func(t *testing.T, life time.Duration) (hub.Invite, string) {
		t.Helper()
		in, text, err := l.Peers.Invite(t.Context(), l.Boss, peers.NewInvite{Project: project, Repo: "frontend-app", Life: life})
		if err != nil {
			t.Fatal(err)
		}
		return in, text
	}
	redeem := func(text string, aid coord.AID) (federation.Welcome, error) {
		return l.Peers.Redeem(t.Context(), hub.Caller{Source: here}, federation.Redemption{Invite: text, AID: aid, Endpoint: "https://f.example", Repo: "frontend-app", Key: vault.KeyPrefix + "theirs"})
	}
	t.Run("R1-069 an invite is redeemed once, and keys are exchanged", func(t *testing.T) {
		in, text := invite(t, 0)
		if !regexp.MustCompile(`^INV-f0ebc-[A-Za-z0-9_-]{22}-[0-9a-f]{2}$`).MatchString(text) {
			t.Errorf("got %q", text)
		}
		w, err := redeem(text, frontend)
		if err != nil {
			t.Fatal(err)
		}
		if w.AID != "aid://hub.example/backend@1.0.0" || w.Project != project || w.ForRepo != "frontend-app" || w.Endpoint != "https://hub.example" {
			t.Errorf("got %+v", w)
		}
		v, err := l.Identify(t.Context(), callers.Credentials{Bearer: w.Key, AgentID: frontend})
		if err != nil || v.Access != coord.AccessFull {
			t.Errorf("got %+v, %v", v, err)
		}
		peers, err := l.Peers.Peers(t.Context(), l.Boss)
		if err != nil || len(peers) != 1 {
			t.Fatalf("got %v, %v", peers, err)
		}
		if key, err := l.Peers.PeerKey(peers[0]); err != nil || key != vault.KeyPrefix+"theirs" {
			t.Errorf("to send: got %q, %v", key, err)
		}
		if _, err := redeem(text, "aid://evil.example/x@1.0.0"); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a second time: got %v", err)
		}
		list, err := l.Peers.Invites(t.Context(), l.Boss, project)
		if err != nil || len(list) != 1 || list[0].ID != in.ID || list[0].RedeemedBy != frontend {
			t.Errorf("got %+v, %v", list, err)
		}
		for _, need := range append([]coord.Permission{coord.PermitSync, coord.PermitCompare}, coord.Permissions...) {
			permitted := slices.Contains(coord.Contributor, need) || !slices.Contains(coord.Permissions, need)
			if err := l.Admit(v, "a method", need, project); (err == nil) != permitted {
				t.Errorf("in its project, %s: got %v", need, err)
			}
			if err := l.Admit(v, "a method", need, "other"); hub.CodeOf(err) != hub.CodeDenied {
				t.Errorf("in a project that it was not invited to, %s: got %v", need, err)
			}
		}
	})
	t.Run("R1-069 an invite does not take over a peer", func(t *testing.T) {
		_, text := invite(t, 0)
		if _, err := redeem(text, frontend); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("got %v", err)
		}
		if _, err := l.Peers.Redeem(t.Context(), hub.Caller{Kind: hub.CallerPeer, AID: frontend, Access: coord.AccessFull, Source: here}, federation.Redemption{Invite: text, AID: frontend, Endpoint: "https://f.example", Key: "k"}); err != nil {
			t.Errorf("with its key: got %v", err)
		}
	})
	t.Run("R1-069 an invite can be revoked", func(t *testing.T) {
		in, text := invite(t, 0)
		if _, err := l.Peers.RevokeInvite(t.Context(), l.Boss, in.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := redeem(text, "aid://a.example/x@1.0.0"); hub.CodeOf(err) != hub.CodeConflict || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("got %v", err)
		}
		if _, err := l.Peers.RevokeInvite(t.Context(), l.Boss, "none"); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("one that is none: got %v", err)
		}
	})
	t.Run("R1-069 an invite expires", func(t *testing.T) {
		_, text := invite(t, time.Hour)
		l.Now = l.Now.Add(time.Hour)
		if _, err := redeem(text, "aid://a.example/x@1.0.0"); hub.CodeOf(err) != hub.CodeConflict || !strings.Contains(err.Error(), "expired") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R1-069 an invite for nothing is not made", func(t *testing.T) {
		for name, test := range map[string]struct {
			n    peers.NewInvite
			code hub.Code
		}{
			"to no project":    {peers.NewInvite{Project: "nowhere", Repo: "frontend-app"}, hub.CodeNotFound},
			"to no repository": {peers.NewInvite{Project: project, Repo: "x"}, hub.CodeNotFound},
			"for ever":         {peers.NewInvite{Project: project, Repo: "frontend-app", Life: 1000 * time.Hour}, hub.CodeInvalid},
			"for everything":   {peers.NewInvite{Project: project, Repo: "frontend-app", Permissions: []coord.Permission{"*"}}, hub.CodeInvalid},
		} {
			if _, _, err := l.Peers.Invite(t.Context(), l.Boss, test.n); hub.CodeOf(err) != test.code {
				t.Errorf("%s: got %v, want %s", name, err, test.code)
			}
		}
	})
	t.Run("R1-069 guessing has an end", func(t *testing.T) {
		l.Now = l.Now.Add(time.Hour)
		_, tried := invite(t, 0)
		_, other := invite(t, 0)
		for _, text := range []string{tried, "INV-f0ebc-guess-00"} {
			var err error
			n := 0
			for ; n < 100 && hub.CodeOf(err) != hub.CodeRateLimited; n++ {
				_, err = redeem(text, "aid://hub.example/backend@1.0.0")
			}
			var e *hub.Error
			if n != 11 || !errors.As(err, &e) || e.RetryAfter <= 0 {
				t.Errorf("%s stopped after %d attempts, want 11 and a time to wait: %v", text, n, err)
			}
		}
		if _, err := redeem(tried, "aid://a.example/x@1.0.0"); hub.CodeOf(err) != hub.CodeRateLimited {
			t.Errorf("in a good name: got %v", err)
		}
		for n := range 100 {
			if _, err := redeem(fmt.Sprintf("INV-f0ebc-guess%d-00", n), "aid://a.example/x@1.0.0"); hub.CodeOf(err) != hub.CodeInvalid {
				t.Fatalf("a guess: got %v", err)
			}
		}
		if _, err := redeem(other, "aid://a.example/x@1.0.0"); err != nil {
			t.Errorf("another invite from the same address: got %v", err)
		}
		l.Now = l.Now.Add(10 * time.Minute)
		if _, err := redeem(tried, "aid://b.example/x@1.0.0"); err != nil {
			t.Errorf("after the wait: got %v", err)
		}
	})
	t.Run("R1-069 a guest takes neither the name nor the domain of another, unless the operator names it", func(t *testing.T) {
		if _, _, _, err := l.Keys.AddAgent(t.Context(), l.Boss, hub.Agent{ID: "alice"}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := l.Keys.AddAgent(t.Context(), l.Boss, hub.Agent{ID: "bob.b"}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
		for _, taken := range []coord.AID{
			"aid://hub.example/backend@2.0.0", "aid://hub.example/alice@1.0.0", "aid://HUB.example/alice@1.0.0", l.Keys.AID("bob.b"), "aid://hub.example/carol@1.0.0",
			"alice", "aid://example.com/other@1.0.0", "aid://hub.ex\u0430mple/alice@1.0.0",
		} {
			_, text := invite(t, 0)
			if _, err := redeem(text, taken); hub.CodeOf(err) != hub.CodeDenied {
				t.Errorf("%s: got %v", taken, err)
			}
			_, text, err := l.Peers.Invite(t.Context(), l.Boss, peers.NewInvite{Project: project, Repo: "frontend-app", ActsFor: []coord.AID{taken}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := redeem(text, taken); err != nil {
				t.Errorf("%s by name: got %v", taken, err)
			}
		}
		if _, _, _, err := l.Keys.AddAgent(t.Context(), l.Boss, hub.Agent{ID: "carol"}, keys.NewKey{}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("an agent with the name of a peer: got %v", err)
		}
	})
	t.Run("R1-069 what is stored is a hash", func(t *testing.T) {
		in, text := invite(t, 0)
		raw, err := json.Marshal(in)
		if err != nil || strings.Contains(string(raw), text) || in.Hash == text || in.Hash != hub.HashSecret(text) {
			t.Errorf("got %s, %v", raw, err)
		}
	})
}

func TestJoin(t *testing.T) {
	host := newLobby(t, nil)
	guest := newLobby(t, func(o *peers.Options) { o.Self, o.Home, o.Repo = frontend, "https://guest.example", "frontend-app" })
	_, text, err := host.Peers.Invite(t.Context(), host.Boss, peers.NewInvite{Project: project, Repo: "frontend-app"})
	if err != nil {
		t.Fatal(err)
	}
	redeem := func(ctx context.Context, r federation.Redemption) (federation.Welcome, error) {
		return host.Peers.Redeem(ctx, hub.Caller{Source: netip.MustParseAddr("203.0.113.7")}, r)
	}
	t.Run("R1-069 a torn invite does not leave the house", func(t *testing.T) {
		if _, err := guest.Peers.Join(t.Context(), guest.Boss, text[:len(text)-1], nil); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R1-069 both sides hold keys after a join", func(t *testing.T) {
		w, err := guest.Peers.Join(t.Context(), guest.Boss, text, redeem)
		if err != nil || w.Key != "" {
			t.Fatalf("got %+v, %v", w, err)
		}
		for _, test := range []struct {
			at, from *lobby
			name     coord.AID
		}{{host, guest, frontend}, {guest, host, "aid://hub.example/backend@1.0.0"}} {
			peers, err := test.from.Peers.Peers(t.Context(), test.from.Boss)
			if err != nil || len(peers) != 1 {
				t.Fatalf("got %v, %v", peers, err)
			}
			key, err := test.from.Peers.PeerKey(peers[0])
			if err != nil {
				t.Fatal(err)
			}
			if v, err := test.at.Identify(t.Context(), callers.Credentials{Bearer: key, AgentID: test.name}); err != nil || v.Access != coord.AccessFull {
				t.Errorf("%s: got %+v, %v", test.name, v, err)
			}
			if in, err := test.at.Peers.InScope(t.Context(), test.name, "other"); err != nil || in {
				t.Errorf("%s takes part in another project: %v", test.name, err)
			}
		}
	})
}
