package hub_test

import (
	"testing"

	"github.com/parley-agents/parley/hub"
)

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
