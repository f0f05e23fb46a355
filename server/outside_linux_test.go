package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/server"
)

// postFrom sends a webhook from an address of this machine, and returns the status of the answer.
// Linux has all addresses of 127.0.0.0/8.
func (w *wakeHub) postFrom(address string, h hook) int {
	w.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, to)
		},
	}}
	answer, err := client.Do(h.request(w))
	if err != nil {
		w.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// TestOutsideManyAddresses checks that requests of a source are bounded in all, whatever their
// addresses, and that an address from which a right signature came is not kept out by that.
func TestOutsideManyAddresses(t *testing.T) {
	t.Parallel()
	w := startWakes(t, server.TakeHooks(server.Options{InAddr: "127.0.0.1:0"}, 5, 0.01), "planner", "builder")
	w.addSource(event.Setting{To: "builder"})
	if got := w.postFrom("127.0.0.2", build("first", "main", "failure")); got != http.StatusOK {
		t.Fatalf("the vendor: got status %d", got)
	}

	got := map[int]int{}
	for i := range 40 {
		h := build(fmt.Sprint("forged", i), "main", "failure")
		h.forged = true
		got[w.postFrom(fmt.Sprintf("127.0.1.%d", i+1), h)]++
	}
	if got[http.StatusUnauthorized] != 19 || got[http.StatusTooManyRequests] != 21 { // 4 * 5, and the vendor's first one
		t.Errorf("40 forged requests of 40 addresses: got %v, want 19 whose signature is checked", got)
	}
	counts := mustCall(t, w.as(w.operator), api.ShowSource, api.SourceParams{Name: "hooks"}).Source.Counts
	if counts[hub.EventForged] != 19 || counts[hub.EventTooMany] != 21 {
		t.Errorf("got counts %v", counts)
	}

	if got := w.postFrom("127.0.0.2", build("second", "main", "failure")); got != http.StatusOK {
		t.Errorf("the vendor during the flood: got status %d", got)
	}
	if got := w.postFrom("127.0.0.3", build("third", "main", "failure")); got != http.StatusTooManyRequests {
		t.Errorf("an address that is not known yet: got status %d", got)
	}
	w.pass(time.Hour)
	if got := w.postFrom("127.0.0.3", build("third", "main", "failure")); got != http.StatusOK {
		t.Errorf("the same address after the flood: got status %d", got)
	}
}

// TestOutsideIdleConnections opens more connections from one address than the hub takes in all, and
// sends nothing: a vendor with another address is answered.
func TestOutsideIdleConnections(t *testing.T) {
	t.Parallel()
	w := startOutside(t, event.Setting{To: "builder"}, "planner", "builder")
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.9")}}
	for range 300 {
		c, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(w.in, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	if got := w.postFrom("127.0.0.2", build("1", "main", "failure")); got != http.StatusOK {
		t.Errorf("the vendor: got status %d", got)
	}
}
