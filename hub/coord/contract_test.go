package coord_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub/coord"
)

func TestInstant(t *testing.T) {
	t.Run("R1-019 times are read with and without a zone, and compared as instants", func(t *testing.T) {
		want := coord.InstantAt(time.Date(2026, 11, 15, 0, 14, 52, 378912000, time.UTC))
		for _, text := range []string{
			"2026-11-15T00:14:52.378912", "2026-11-15T00:14:52.378912Z", "2026-11-15T01:14:52.378912+01:00", "2026-11-15T00:14:52.378912999",
			"2026-11-15 00:14:52.378912", "2026-11-14T23:14:52.378912999-01:00",
		} {
			if got, err := coord.ParseInstant(text); err != nil || got != want {
				t.Errorf("%s: got %v (%v)", text, got, err)
			}
		}
		if got := want.String(); got != "2026-11-15T00:14:52.378912Z" {
			t.Errorf("got %s", got)
		}
		if got := want.Naive().String(); got != "2026-11-15T00:14:52.378912" {
			t.Errorf("got %s", got)
		}
		whole := coord.InstantAt(time.Date(2026, 11, 15, 0, 14, 52, 0, time.UTC))
		if got, err := coord.ParseInstant("2026-11-15T00:14:52"); err != nil || got != whole || got.Naive().String() != "2026-11-15T00:14:52.000000" {
			t.Errorf("whole seconds: got %v (%v)", got, err)
		}
		for _, text := range []string{"", "now", "2026-11-15", "1969-12-31T23:59:59Z", "9000-01-01T00:00:00Z", "2026-13-01T00:00:00Z"} {
			if got, err := coord.ParseInstant(text); err == nil {
				t.Errorf("%q: got %v", text, got)
			}
		}
	})
	t.Run("a write comes after what was seen, whatever the clock says", func(t *testing.T) {
		clock := func() time.Time { return time.UnixMicro(100) }
		for seen, want := range map[int64]int64{0: 100, 99: 100, 100: 101, 5000: 5001} {
			if got := coord.InstantMicro(seen).After(clock).Micro(); got != want {
				t.Errorf("seen %d: got %d, want %d", seen, got, want)
			}
		}
	})
}

func TestContractMoves(t *testing.T) {
	t.Run("R1-015 no move leads to a status that is not one of the five, and verified is final", func(t *testing.T) {
		moves := []coord.ContractMove{
			coord.MoveAgree, coord.MoveRequestChange, coord.MoveReject, coord.MoveUpdate, coord.MoveStart, coord.MoveComplete, coord.MoveAllComplete,
			coord.MoveVerified, coord.MoveFailed, coord.MovePartial,
		}
		for _, from := range coord.ContractStatuses {
			for _, move := range moves {
				to, ok := from.After(move)
				if ok && (!to.Known() || from == coord.ContractVerified) {
					t.Errorf("%s %s leads to %s", from, move, to)
				}
			}
		}
	})
	t.Run("content that is written differently has one hash", func(t *testing.T) {
		a, b := coord.ContentHash(json.RawMessage(`{"b":1.0,"a":"\u0041"}`)), coord.ContentHash(json.RawMessage(` {"a":"A", "b":1} `))
		if a != b {
			t.Errorf("got %s and %s", a, b)
		}
		if coord.ContentHash(json.RawMessage(`{"a":1}`)) == coord.ContentHash(json.RawMessage(`{"a":2}`)) {
			t.Error("two contents have one hash")
		}
	})
}
