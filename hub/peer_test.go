package hub_test

import (
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

func TestDomainVerified(t *testing.T) {
	seen := coord.InstantAt(time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC))
	for _, test := range []struct {
		name     string
		aid      coord.AID
		endpoint string
		seen     coord.Instant
		want     bool
	}{
		{"the domain itself", "aid://bank.example/hub@1.0.0", "https://bank.example", seen, true},
		{"a host of the domain, with a port and a path", "aid://Bank.example/hub@1.0.0", "https://HUB.bank.example:7420/parley", seen, true},
		{"a root dot", "aid://bank.example/hub@1.0.0", "https://bank.example.", seen, true},
		{"it has not answered", "aid://bank.example/hub@1.0.0", "https://bank.example", coord.Instant{}, false},
		{"without TLS", "aid://bank.example/hub@1.0.0", "http://bank.example", seen, false},
		{"another domain", "aid://bank.example/hub@1.0.0", "https://evil.example", seen, false},
		{"a domain that ends so", "aid://bank.example/hub@1.0.0", "https://evilbank.example", seen, false},
		{"a domain above", "aid://hub.bank.example/hub@1.0.0", "https://bank.example", seen, false},
		{"the domain as a part of another", "aid://bank.example/hub@1.0.0", "https://bank.example.evil.example", seen, false},
		{"a user that looks so", "aid://bank.example/hub@1.0.0", "https://bank.example@evil.example", seen, false},
		{"an address", "aid://bank.example/hub@1.0.0", "https://192.0.2.7", seen, false},
		{"a whole top domain", "aid://example/hub@1.0.0", "https://evil.example", seen, false},
		{"a plain name", "agent-frontend", "https://agent-frontend", seen, false},
		{"no endpoint", "aid://bank.example/hub@1.0.0", "", seen, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := hub.Peer{AID: test.aid, Endpoint: test.endpoint, Seen: test.seen}
			if got := p.DomainVerified(); got != test.want {
				t.Errorf("%s at %s: got %v", test.aid, test.endpoint, got)
			}
		})
	}
}

func TestPeerState(t *testing.T) {
	want := map[[2]hub.PeerState]bool{
		{hub.PeerPending, hub.PeerApproved}: true, {hub.PeerPending, hub.PeerRemoved}: true, {hub.PeerApproved, hub.PeerRemoved}: true,
		{hub.PeerRemoved, hub.PeerPending}: true, {hub.PeerRemoved, hub.PeerApproved}: true,
	}
	for _, from := range hub.PeerStates {
		for _, to := range hub.PeerStates {
			if got := from.CanBecome(to); got != want[[2]hub.PeerState{from, to}] {
				t.Errorf("%s to %s: got %v", from, to, got)
			}
		}
	}
}
