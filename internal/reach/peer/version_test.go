package peer_test

import (
	"testing"

	"github.com/parley-agents/parley/internal/reach/peer"
)

func TestCardVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3-rc.1", "": "0.0.0", "dev": "0.0.0+dev", "9df8d3e-dirty": "0.0.0+9df8d3e-dirty", "(devel)": "0.0.0+devel",
	} {
		t.Run("R1-050 the card's version is a semantic one: "+want, func(t *testing.T) {
			if got := (peer.Self{Version: version}).Card().Version; got != want {
				t.Errorf("%q: got %q, want %q", version, got, want)
			}
		})
	}
}
