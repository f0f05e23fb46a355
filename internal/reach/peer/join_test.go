package peer_test

import (
	"context"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/peers"
)

func TestInvitedPeer(t *testing.T) {
	t.Parallel()
	a, b, c := newNode(t, "alpha", nil), newNode(t, "beta", nil), newNode(t, "gamma", nil)
	both := []*node{a, b}
	shared, secret := a.project(b), a.project()
	own := b.project()
	contractID := a.propose(shared, "profile")
	a.start()
	b.start()
	_, invite, err := a.peers.Invite(t.Context(), operator, peers.NewInvite{Project: shared, Repo: b.repo})
	if err != nil {
		t.Fatal(err)
	}
	client := peer.NewClient(&peer.ClientOptions{Guard: loopback})
	defer client.Close()
	join := func(n *node) (federation.Welcome, error) {
		return n.peers.Join(t.Context(), operator, invite, func(ctx context.Context, r federation.Redemption) (federation.Welcome, error) {
			return client.Redeem(ctx, a.server.URL, r)
		})
	}
	t.Run("R1-069 an invite makes two hubs peers of each other", func(t *testing.T) {
		w, err := join(b)
		if err != nil || w.AID != a.aid || w.Project != shared {
			t.Fatalf("got %+v, %v", w, err)
		}
		eventually(t, "the project is on both", both, same(a, b, shared))
		b.share(shared, "from the guest")
		eventually(t, "what the guest says is on both", both, same(a, b, shared))
		if b.status(shared, contractID) != coord.ContractProposed {
			t.Error("the contract is not there")
		}
	})
	t.Run("R1-069 an invite is good for one hub", func(t *testing.T) {
		if _, err := join(c); err == nil {
			t.Error("it was good for a second one")
		}
	})
	t.Run("R1-069 other projects stay at home, on both sides", func(t *testing.T) {
		for _, n := range both {
			for _, o := range both {
				if err := n.syncer.Compare(o.aid); n != o && err != nil {
					t.Fatal(err)
				}
			}
		}
		a.share(secret, "not for the guest")
		b.share(own, "not for the host")
		b.share(shared, "for both")
		eventually(t, "what is for both is on both", both, same(a, b, shared))
		eventually(t, "nothing is left", both, func() bool { return a.standing(b).Lag == 0 && b.standing(a).Lag == 0 })
		for _, id := range b.projectIDs() {
			if id == secret {
				t.Error("the guest has a project that it was not invited to")
			}
		}
		for _, id := range a.projectIDs() {
			if id == own {
				t.Error("the host has a project of the guest")
			}
		}
	})
	t.Run("R1-060 a peer that was removed gets and tells nothing", func(t *testing.T) {
		if _, err := a.peers.RemovePeer(t.Context(), operator, b.aid); err != nil {
			t.Fatal(err)
		}
		b.share(shared, "too late")
		eventually(t, "the guest is shut out", both, func() bool { return b.standing(a).Health == hub.HealthDown })
		if a.dump(shared) == b.dump(shared) {
			t.Error("what the removed peer said has arrived")
		}
	})
}
