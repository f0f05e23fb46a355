package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// TestOverdueWaits checks that a message without its acknowledgement is among what waits on the
// page, until it is acknowledged.
func TestOverdueWaits(t *testing.T) {
	clock := new(hubtest.Clock)
	s := newSite(t, server.Options{Clock: clock.Now}, "planner", "builder")
	do(s, s.as("planner"), api.Send, api.SendParams{To: api.Recipients{"builder"}, Text: "keys were rotated", AckBy: "30m"})
	const words = "builder did not acknowledge a message from planner by"
	shows := func() bool {
		v := s.visitor()
		v.signIn(s.invite("ben"))
		return strings.Contains(v.get("/").body, words)
	}
	if shows() {
		t.Error("before its time the message is among what waits")
	}
	clock.Pass(31 * time.Minute)
	if !shows() {
		t.Errorf("the page does not say %q", words)
	}
	do(s, s.as("builder"), api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
	if shows() {
		t.Error("an acknowledged message still waits")
	}
}
