package peer_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/peers"
)

// TestComparisons compares a hub with peers whose answers wait for each other.
func TestComparisons(t *testing.T) {
	t.Parallel()
	const all = 6
	opts := quick()
	opts.Comparing = 2
	n := newNode(t, "alpha", opts)
	var begun, now, most atomic.Int32
	release := make(chan struct{})
	for i := range all {
		s := newScript(t, true, map[string]string{"cacp/sync/projects": `{"projects":[]}`})
		s.aid = coord.AID(fmt.Sprintf("aid://peer%d.example/x@1.0.0", i))
		s.before = func(method string) {
			if method != "cacp/sync/projects" {
				return
			}
			begun.Add(1)
			for here := now.Add(1); ; {
				if was := most.Load(); here <= was || most.CompareAndSwap(was, here) {
					break
				}
			}
			<-release
			now.Add(-1)
		}
		if _, _, err := n.peers.AddPeer(t.Context(), operator, peers.NewPeer{AID: s.aid, Endpoint: s.URL}); err != nil {
			t.Fatal(err)
		}
	}
	n.start()
	eventually(t, "two peers are compared", []*node{n}, func() bool { return now.Load() >= 2 })
	close(release)
	eventually(t, "all peers were compared", []*node{n}, func() bool { return begun.Load() >= all })
	if got := most.Load(); got != 2 {
		t.Errorf("R1-083 comparisons at a time: got %d, want 2", got)
	}
}

// TestSums compares two hubs and counts the summaries that one asks the other for.
func TestSums(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
	befriend(a, b)
	both := []*node{a, b}
	project := a.project(b)
	a.propose(project, "profile")
	a.share(project, "text")
	a.start()
	eventually(t, "the project is on both", both, same(a, b, project))
	var summaries atomic.Int32
	b.setGate(func(w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err == nil && bytes.Contains(body, []byte("cacp/sync/summary")) {
			summaries.Add(1)
		}
		return false
	})
	compare := func() {
		t.Helper()
		seen := a.standing(b).Seen
		if err := a.syncer.Compare(b.aid); err != nil {
			t.Fatal(err)
		}
		eventually(t, "they were compared", both, func() bool { return a.standing(b).Seen.Compare(seen) > 0 })
	}
	t.Run("R1-083 of projects whose sums are equal nothing else is compared", func(t *testing.T) {
		compare()
		if n := summaries.Load(); n != 0 {
			t.Errorf("got %d summaries of equal projects, want none", n)
		}
	})
	t.Run("R1-083 a difference of the sums leads to the thing that differs", func(t *testing.T) {
		b.share(project, "made where nothing is sent")
		compare()
		eventually(t, "the hubs are equal", both, same(a, b, project))
		if summaries.Load() == 0 {
			t.Error("they are equal without a summary")
		}
	})
}
