package peer_test

import (
	"testing"

	"github.com/parley-agents/parley/internal/reach/peer"
)

func TestAID(t *testing.T) {
	for _, test := range []struct {
		in                 string
		lenientAID, strict bool
	}{
		{"aid://example.com/backend-agent@1.0.0", true, true},
		{"aid://mycompany.io/frontend-react@2.1.0", true, true},
		{"aid://climatedata/weather@1.8.5", true, true},
		{"aid://Example.COM/backend@1.0.0", true, true},
		{"aid://example.com/backend@1.0.0-rc.1+build.5", true, true},
		{"aid://example.com/a--b@1.0.0", true, false},
		{"aid://example.com/a-@1.0.0", true, false},
		{"aid://-/backend@1.0.0", true, false},
		{"aid://a..b/backend@1.0.0", true, false},
		{"aid://example.com/backend@01.0.0", true, false},
		{"aid://example.com/backend@1.0.0-01", true, false},
		{"aid://x/backend@1", false, false},
		{"aid://e.com:8080/backend@1.0.0", false, false},
		{"aid://example.com/Backend@1.0.0", false, false},
		{"aid://example.com/back_end@1.0.0", false, false},
		{"aid://example.com/../etc@1.0.0", false, false},
		{"aid://example.com/backend@1.0.0\n", false, false},
		{"aid:///backend@1.0.0", false, false},
		{"agent-backend", false, false},
		{"", false, false},
		{"aid://" + long(600) + "/a@1.0.0", false, false},
	} {
		t.Run("R1-020 "+test.in, func(t *testing.T) {
			a, err := peer.ParseAID(test.in)
			if (err == nil) != test.lenientAID {
				t.Fatalf("lenientAID: got %v, want ok %t", err, test.lenientAID)
			}
			if err != nil {
				return
			}
			if err := a.Validate(); (err == nil) != test.strict {
				t.Errorf("strict: got %v, want ok %t", err, test.strict)
			}
			if a.String() != test.in {
				t.Errorf("got %q back, want %q", a, test.in)
			}
		})
	}
	t.Run("R1-020 versions of one agent are the same agent", func(t *testing.T) {
		a, _ := peer.ParseAID("aid://Example.com/backend@1.0.0")
		b, _ := peer.ParseAID("aid://example.com/backend@2.0.0")
		c, _ := peer.ParseAID("aid://example.com/frontend@1.0.0")
		if !a.Same(b) || a.Same(c) {
			t.Errorf("got %t and %t, want true and false", a.Same(b), a.Same(c))
		}
		if got, want := (peer.AID{Domain: "e.com", Name: "x", Version: "1.0.0"}).String(), "aid://e.com/x@1.0.0"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func FuzzParseAID(f *testing.F) {
	f.Add("aid://example.com/backend@1.0.0-rc.1+b")
	f.Add("aid://x")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := peer.ParseAID(s)
		if err != nil {
			return
		}
		if a.String() != s {
			t.Fatalf("got %q, want %q", a, s)
		}
		if got := (peer.AID{Domain: a.Domain, Name: a.Name, Version: a.Version}).String(); got != s {
			t.Fatalf("the parts of %q make %q", s, got)
		}
	})
}
