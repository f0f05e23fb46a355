package peer_test

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

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
		if n := summaries.Load(); n == 0 || !same(a, b, project)() {
			t.Errorf("after %d summaries the hubs differ", n)
		}
	})
}
