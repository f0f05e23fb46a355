package hub_test

import (
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

func TestDomainVerified(t *testing.T) {
	seen := hub.InstantAt(time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC))
	for _, test := range []struct {
		name     string
		aid      hub.AID
		endpoint string
		seen     hub.Instant
		want     bool
	}{
		{"the domain itself", "aid://bank.example/hub@1.0.0", "https://bank.example", seen, true},
		{"a host of the domain, with a port and a path", "aid://Bank.example/hub@1.0.0", "https://HUB.bank.example:7420/parley", seen, true},
		{"a root dot", "aid://bank.example/hub@1.0.0", "https://bank.example.", seen, true},
		{"it has not answered", "aid://bank.example/hub@1.0.0", "https://bank.example", hub.Instant{}, false},
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
