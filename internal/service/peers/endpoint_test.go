package peers_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/testing/lobbytest"
)

func TestEndpoints(t *testing.T) {
	guard := peer.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	l := newLobby(t, func(o *peers.Options) { o.Open, o.Guard = true, guard.CheckEndpoint })
	operator := hub.Caller{ID: hub.Operator}
	for endpoint, want := range map[string]hub.Code{
		"http://10.1.2.3:80":          "",
		"https://peer.example":        "",
		"http://169.254.169.254":      hub.CodePolicy,
		"http://127.0.0.1:7420":       hub.CodePolicy,
		"https://[::1]:7420":          hub.CodePolicy,
		"http://93.184.216.34":        hub.CodePolicy, // without TLS
		"https://peer.example:65536":  hub.CodeInvalid,
		"https://peer.example:0":      hub.CodeInvalid,
		"https://peer.example:123456": hub.CodeInvalid,
	} {
		t.Run("R1-085 "+strings.NewReplacer("/", " ").Replace(endpoint)+" is checked when a peer is added and registered", func(t *testing.T) {
			n := peers.NewPeer{AID: coord.AID("aid://p" + strings.Map(digits, endpoint) + ".example/x@1.0.0"), Endpoint: endpoint}
			if _, err := l.Peers.RegisterPeer(t.Context(), hub.Caller{}, n); hub.CodeOf(err) != want {
				t.Errorf("registered: got %v, want %q", err, want)
			}
			n.AID = "aid://added" + n.AID[len("aid://"):]
			if _, _, err := l.Peers.AddPeer(t.Context(), operator, n); hub.CodeOf(err) != want {
				t.Errorf("added: got %v, want %q", err, want)
			}
		})
	}
}

func TestGuardLater(t *testing.T) {
	guard := peer.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	l := newLobby(t, func(o *peers.Options) {
		o.Open, o.Guard = true, func(endpoint string) error { return guard.CheckEndpoint(endpoint) }
	})
	operator := hub.Caller{ID: hub.Operator}
	t.Run("R1-085 an address is checked again when a peer is approved", func(t *testing.T) {
		n := peers.NewPeer{AID: "aid://p.example/x@1.0.0", Endpoint: "http://10.1.2.3:80"}
		if _, err := l.Peers.RegisterPeer(t.Context(), hub.Caller{}, n); err != nil {
			t.Fatal(err)
		}
		allowed := guard
		guard = peer.Guard{}
		if _, err := l.Peers.ApprovePeer(t.Context(), operator, n.AID); hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("got %v, want %s", err, hub.CodePolicy)
		}
		if guard = allowed; guard.Allow == nil {
			t.Fatal("no network is allowed")
		}
		if _, err := l.Peers.ApprovePeer(t.Context(), operator, n.AID); err != nil {
			t.Errorf("in an allowed network: %v", err)
		}
	})
	t.Run("R1-085 the address of an inviting hub is checked when it is joined", func(t *testing.T) {
		host := newLobby(t, nil)
		_, invite, err := host.Peers.Invite(t.Context(), operator, peers.NewInvite{Project: lobbytest.Project, Repo: "frontend-app"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Peers.Join(t.Context(), operator, invite, func(context.Context, federation.Redemption) (federation.Welcome, error) {
			return federation.Welcome{AID: "aid://h.example/x@1.0.0", Endpoint: "http://169.254.169.254", Repo: "r", Project: lobbytest.Project, Key: "k"}, nil
		})
		if hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("got %v, want %s", err, hub.CodePolicy)
		}
	})
}

// digits keeps the digits of a text.
func digits(r rune) rune {
	if r < '0' || r > '9' {
		return -1
	}
	return r
}

func TestRemovedPeer(t *testing.T) {
	const known = coord.AID("aid://known.example/x@1.0.0")
	l := newLobby(t, func(o *peers.Options) { o.Directory = directory{known: "https://known.example"} })
	n := peers.NewPeer{AID: known, Endpoint: "https://known.example"}
	if _, err := l.Peers.RegisterPeer(t.Context(), hub.Caller{}, n); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Peers.RemovePeer(t.Context(), hub.Caller{ID: hub.Operator}, known); err != nil {
		t.Fatal(err)
	}
	t.Run("R1-053 a removed peer that registers again is told so", func(t *testing.T) {
		if _, err := l.Peers.RegisterPeer(t.Context(), hub.Caller{}, n); hub.CodeOf(err) != hub.CodeDenied || !strings.Contains(err.Error(), "removed") {
			t.Errorf("got %v", err)
		}
	})
}
