package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/peers"
)

// TestWitness connects two hubs, which cosign each other's checkpoints over HTTP after both operators
// allowed it.
func TestWitness(t *testing.T) {
	a := start(t, onLoopback("a", "frontend-app", "frontend"))
	b := start(t, onLoopback("b", "backend-api", "backend"))
	hasLog := func(r *running) func() bool {
		return func() bool { return r.do(t, "GET", "/checkpoint", "", nil).status == http.StatusOK }
	}
	eventually(t, "a checkpoint of both hubs", func() bool { return hasLog(a)() && hasLog(b)() })
	for _, x := range []struct {
		of   *running
		peer coord.AID
		at   string
	}{{a, "aid://b.example/b@1.0.0", b.url}, {b, "aid://a.example/a@1.0.0", a.url}} {
		if _, err := rpc.Call(t.Context(), x.of.as(x.of.operator), coordination.AddPeer, peers.NewPeer{AID: x.peer, Endpoint: x.at}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rpc.Call(t.Context(), a.as(a.operator), api.AddWitness, api.WitnessParams{AID: "aid://b.example/b@1.0.0"}); err != nil {
		t.Fatal(err)
	}
	if got := b.do(t, "POST", "/add-checkpoint", "", strings.NewReader("old 0\n\n"+string(a.do(t, "GET", "/checkpoint", "", nil).body))); got.status != http.StatusNotFound {
		t.Errorf("one operator is not enough: got %d %s", got.status, got.body)
	}
	if _, err := rpc.Call(t.Context(), b.as(b.operator), api.AddWitness, api.WitnessParams{AID: "aid://a.example/a@1.0.0"}); err != nil {
		t.Fatal(err)
	}
	name := strings.Split(string(a.do(t, "GET", "/checkpoint", "", nil).body), "\n")[0]
	got := b.do(t, "POST", "/add-checkpoint", "", strings.NewReader(string(a.do(t, "GET", "/checkpoint?since=0", "", nil).body)))
	if got.status != http.StatusOK || !strings.HasPrefix(string(got.body), "\u2014 parley/") {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if seen := b.do(t, "GET", "/witnessed?log="+name, "", nil); seen.status != http.StatusOK || !strings.HasPrefix(string(seen.body), name+"\n") {
		t.Errorf("got %d %s", seen.status, seen.body)
	}
	if none := b.do(t, "GET", "/witnessed?log=parley/none", "", nil); none.status != http.StatusNotFound {
		t.Errorf("a log that is not known: got %d", none.status)
	}
	if large := b.do(t, "POST", "/add-checkpoint", "", strings.NewReader(strings.Repeat("x", 65<<10))); large.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large request: got %d", large.status)
	}
	keys, err := rpc.Call(t.Context(), a.as(a.operator), api.ListProofKeys, api.None{})
	if err != nil || len(keys.Witnesses) != 1 || keys.Witnesses[0].Keys[0] != strings.TrimSpace(string(b.do(t, "GET", "/.well-known/parley-keys", "", nil).body)) {
		t.Errorf("got %+v, %v", keys, err)
	}
}
