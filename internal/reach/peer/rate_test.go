package peer_test

import (
	"bytes"
	"fmt"
	"io"
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

func TestRateOfComparison(t *testing.T) {
	t.Parallel()
	a, b, c := newNode(t, "alpha", nil), newNode(t, "beta", nil), newNode(t, "gamma", nil)
	befriend(a, b)
	befriend(a, c)
	project := a.project(b, c)
	var sent atomic.Int32
	b.setGate(func(w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.HasPrefix(body, []byte("[")) {
			return false // it compares
		}
		sent.Add(1)
		fmt.Fprint(w, `[{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"Server error: too fast","data":{"reason":"rate_limited","retry_after_s":3600}}}]`)
		return true
	})
	a.start()
	t.Run("R1-083 a peer that is sent too much is left alone for as long as it says", func(t *testing.T) {
		eventually(t, "the comparison is refused", []*node{a, b}, func() bool { return sent.Load() > 0 })
		for i := range 20 {
			id := a.propose(project, fmt.Sprint("meanwhile", i))
			eventually(t, "another peer has it", []*node{a, c}, func() bool { return c.status(project, id) == coord.ContractProposed })
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("it was sent changes %d times, want once", n)
		}
	})
}
