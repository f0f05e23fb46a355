package peer_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

func TestRateOfPeer(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
	befriend(a, b)
	a.start()
	project := a.project(b)
	eventually(t, "the project is there", []*node{a, b}, same(a, b, project))
	var refusals atomic.Int32
	b.setGate(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/" || refusals.Add(1) > 5 {
			return false
		}
		fmt.Fprint(w, `[{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"Server error: too fast","data":{"reason":"rate_limited","retry_after_s":0.001}}}]`)
		return true
	})
	t.Run("R1-083 changes that come too fast for a peer are sent again, and the peer does not count as down", func(t *testing.T) {
		id := a.propose(project, "too fast")
		eventually(t, "it is there", []*node{a, b}, func() bool { return b.status(project, id) == coord.ContractProposed })
		if s := a.standing(b); s.DeadLetters != 0 || s.Health != hub.HealthUp || s.Fails != 0 {
			t.Errorf("got %+v, want no dead letter and a peer that is up", s)
		}
	})
}
