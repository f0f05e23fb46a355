package hub_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

func TestInstant(t *testing.T) {
	t.Run("R1-019 times are read with and without a zone, and compared as instants", func(t *testing.T) {
		want := hub.InstantAt(time.Date(2026, 11, 15, 0, 14, 52, 378912000, time.UTC))
		for _, text := range []string{
			"2026-11-15T00:14:52.378912", "2026-11-15T00:14:52.378912Z", "2026-11-15T01:14:52.378912+01:00", "2026-11-15T00:14:52.378912999",
			"2026-11-15 00:14:52.378912", "2026-11-14T23:14:52.378912999-01:00",
		} {
			if got, err := hub.ParseInstant(text); err != nil || got != want {
				t.Errorf("%s: got %v (%v)", text, got, err)
			}
		}
		if got := want.String(); got != "2026-11-15T00:14:52.378912Z" {
			t.Errorf("got %s", got)
		}
		if got := want.Naive().String(); got != "2026-11-15T00:14:52.378912" {
			t.Errorf("got %s", got)
		}
		whole := hub.InstantAt(time.Date(2026, 11, 15, 0, 14, 52, 0, time.UTC))
		if got, err := hub.ParseInstant("2026-11-15T00:14:52"); err != nil || got != whole || got.Naive().String() != "2026-11-15T00:14:52.000000" {
			t.Errorf("whole seconds: got %v (%v)", got, err)
		}
		for _, text := range []string{"", "now", "2026-11-15", "1969-12-31T23:59:59Z", "9000-01-01T00:00:00Z", "2026-13-01T00:00:00Z"} {
			if got, err := hub.ParseInstant(text); err == nil {
				t.Errorf("%q: got %v", text, got)
			}
		}
	})
	t.Run("a write comes after what was seen, whatever the clock says", func(t *testing.T) {
		clock := hub.Clock(func() time.Time { return time.UnixMicro(100) })
		for seen, want := range map[int64]int64{0: 100, 99: 100, 100: 101, 5000: 5001} {
			if got := hub.InstantMicro(seen).After(clock).Micro(); got != want {
				t.Errorf("seen %d: got %d, want %d", seen, got, want)
			}
		}
	})
}

func TestContractMoves(t *testing.T) {
	t.Run("R1-015 no move leads to a status that is not one of the five, and verified is final", func(t *testing.T) {
		moves := []hub.ContractMove{
			hub.MoveAgree, hub.MoveRequestChange, hub.MoveReject, hub.MoveUpdate, hub.MoveStart, hub.MoveComplete, hub.MoveAllComplete,
			hub.MoveVerified, hub.MoveFailed, hub.MovePartial,
		}
		for _, from := range hub.ContractStatuses {
			for _, move := range moves {
				to, ok := from.After(move)
				if ok && (!to.Known() || from == hub.ContractVerified) {
					t.Errorf("%s %s leads to %s", from, move, to)
				}
			}
		}
	})
	t.Run("a peer is let in or removed", func(t *testing.T) {
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
	})
	t.Run("content that is written differently has one hash", func(t *testing.T) {
		a, b := hub.ContentHash(json.RawMessage(`{"b":1.0,"a":"\u0041"}`)), hub.ContentHash(json.RawMessage(` {"a":"A", "b":1} `))
		if a != b {
			t.Errorf("got %s and %s", a, b)
		}
		if hub.ContentHash(json.RawMessage(`{"a":1}`)) == hub.ContentHash(json.RawMessage(`{"a":2}`)) {
			t.Error("two contents have one hash")
		}
	})
}
