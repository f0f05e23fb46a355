package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

func TestMessageStatus(t *testing.T) {
	allowed := map[hub.MessageStatus][]hub.MessageStatus{
		hub.StatusPending:   {hub.StatusDelivered, hub.StatusFailed, hub.StatusExpired},
		hub.StatusDelivered: {hub.StatusRead, hub.StatusExpired},
	}
	ids := map[hub.MessageStatus]string{
		hub.StatusDelivered: "R3-025", hub.StatusRead: "R3-025", hub.StatusPending: "R3-025", hub.StatusFailed: "R3-026", hub.StatusExpired: "R3-027",
	}
	now := hub.At(time.Unix(1, 0))
	for _, from := range hub.MessageStatuses {
		for _, to := range hub.MessageStatuses {
			want := slices.Contains(allowed[from], to)
			t.Run(fmt.Sprintf("%s %s to %s is allowed: %v", ids[to], from, to, want), func(t *testing.T) {
				e := hub.Envelope{Status: from}
				got, err := e.Advance(to, now)
				if (err == nil) != want {
					t.Fatalf("got error %v, want allowed: %v", err, want)
				}
				if want && (got.Status != to || got.UpdatedAt != now) {
					t.Errorf("got %s at %s, want %s at %s", got.Status, got.UpdatedAt, to, now)
				}
				if !want && (hub.CodeOf(err) != hub.CodeConflict || got.Status != from || !got.UpdatedAt.IsZero()) {
					t.Errorf("got %+v, %v, want it unchanged and %s", got, err, hub.CodeConflict)
				}
			})
		}
	}
}

func TestStatusFor(t *testing.T) {
	for _, c := range []struct {
		states string
		want   hub.MessageStatus
	}{
		{"sender", hub.StatusPending},
		{"sender unread", hub.StatusPending},
		{"sender held", hub.StatusPending},
		{"sender delivered unread", hub.StatusPending},
		{"sender delivered delivered", hub.StatusDelivered},
		{"sender delivered read", hub.StatusDelivered},
		{"sender read read", hub.StatusRead},
		{"sender failed failed", hub.StatusFailed},
		{"sender read expired", hub.StatusExpired},
		{"sender expired", hub.StatusExpired},
	} {
		t.Run("R3-028 "+c.states+" is "+string(c.want), func(t *testing.T) {
			var parties []hub.Party
			for _, s := range strings.Fields(c.states) {
				parties = append(parties, hub.Party{State: hub.PartyState(s)})
			}
			if got := hub.StatusFor(parties); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestPartyState(t *testing.T) {
	if hub.PartyHeld.CanBecome(hub.PartyDelivered) {
		t.Error("what a human gate holds cannot be delivered")
	}
	if hub.PartyRead.CanBecome(hub.PartyExpired) {
		t.Error("what was read never expires")
	}
	if hub.PartyUnread.CanBecome(hub.PartyRead) {
		t.Error("nothing is read before it was delivered")
	}
}

func TestIDs(t *testing.T) {
	clock := time.UnixMilli(1_700_000_000_000)
	ids := hub.NewIDs(func() time.Time { return clock })

	t.Run("R3-022 ids are UUIDv7 and carry their time", func(t *testing.T) {
		id := ids.Next()
		if !id.Valid() {
			t.Fatalf("%s is not a UUIDv7", id)
		}
		if got := id.Time(); !got.Equal(clock) {
			t.Errorf("got %s, want %s", got, hub.At(clock))
		}
	})
	t.Run("R3-022 ids rise within a millisecond and when the clock steps back", func(t *testing.T) {
		last := ids.Next()
		for i := range 10_000 {
			if i == 5000 {
				clock = clock.Add(-time.Hour)
			}
			next := ids.Next()
			if next <= last || !next.Valid() {
				t.Fatalf("%s does not follow %s", next, last)
			}
			last = next
		}
	})
	t.Run("R3-022 ids of concurrent callers are distinct", func(t *testing.T) {
		var mu sync.Mutex
		seen := map[hub.EnvelopeID]bool{}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 1000 {
					id := ids.Next()
					mu.Lock()
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(seen) != 16_000 {
			t.Errorf("got %d distinct ids, want 16000", len(seen))
		}
	})
	for _, bad := range []hub.EnvelopeID{"", "x", "0199a000-0000-4000-8000-000000000000", "0199A000-0000-7000-8000-000000000000", "0199a000-0000-7000-c000-000000000000", "0199a000_0000-7000-8000-000000000000"} {
		if bad.Valid() {
			t.Errorf("R3-022 %q is not a UUIDv7", bad)
		}
	}
}

func TestAgentID(t *testing.T) {
	for id, want := range map[hub.AgentID]bool{
		"a": true, "planner": true, "0.a_b-c": true, hub.AgentID(strings.Repeat("a", 64)): true,
		"": false, hub.AgentID(strings.Repeat("a", 65)): false, ".a": false, "-a": false, "A": false, "a b": false, "a/b": false, "ä": false, "*": false, "a\n": false,
	} {
		if got := id.Valid(); got != want {
			t.Errorf("%q: got %v, want %v", id, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	denver := time.FixedZone("", -7*3600)
	at := hub.At(time.Date(2026, 2, 21, 2, 0, 0, 120_900_000, denver))
	if got, want := at.String(), "2026-02-21T09:00:00.120Z"; got != want {
		t.Errorf("R3-033 got %s, want %s: UTC, fixed width, milliseconds", got, want)
	}
	back, err := hub.ParseTime(at.String())
	if err != nil || back != at {
		t.Errorf("got %s, %v, want %s", back, err, at)
	}
	for _, bad := range []string{"", "2026-02-21", "2026-02-21 09:00:00", "2026-02-21T09:00:00"} {
		if _, err := hub.ParseTime(bad); err == nil {
			t.Errorf("%q has no zone or no time and must be refused", bad)
		}
	}
}

func TestError(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", hub.Errorf(hub.CodeDenied, "x.Y", "no: %w", cause).WithHint("ask"))
	if got := hub.CodeOf(err); got != hub.CodeDenied {
		t.Errorf("got %s, want %s", got, hub.CodeDenied)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	if got := hub.CodeOf(cause); got != hub.CodeInternal {
		t.Errorf("an error without a code is %s, got %s", hub.CodeInternal, got)
	}
	if hub.CodeOf(nil) != "" {
		t.Error("no error has no code")
	}
}

func TestChain(t *testing.T) {
	e := hub.Entry{Seq: 1, At: hub.At(time.Unix(1, 0)), Actor: "a", Action: "b", Subject: "c", Outcome: "d", Facts: []byte(`{}`)}
	first := e.Chain("")
	if first != e.Chain("") {
		t.Error("the same entry has the same hash")
	}
	for name, change := range map[string]func(*hub.Entry){
		"seq": func(e *hub.Entry) { e.Seq++ }, "at": func(e *hub.Entry) { e.At = e.At.Add(time.Millisecond) },
		"actor": func(e *hub.Entry) { e.Actor = "x" }, "action": func(e *hub.Entry) { e.Action = "x" },
		"subject": func(e *hub.Entry) { e.Subject = "x" }, "outcome": func(e *hub.Entry) { e.Outcome = "x" },
		"facts": func(e *hub.Entry) { e.Facts = []byte(`{ }`) },
		"where one member ends and the next begins": func(e *hub.Entry) { e.Actor, e.Action = "ab", "" },
	} {
		changed := e
		change(&changed)
		if changed.Chain("") == first {
			t.Errorf("a change of %s must change the hash", name)
		}
	}
	if e.Chain(first) == first {
		t.Error("the hash covers the one before it")
	}
}

func TestTypes(t *testing.T) {
	t.Run("R3-001 types are namespaced", func(t *testing.T) {
		for _, m := range hub.MessageTypes {
			if m.Family() == string(m) || m.Family() == "" {
				t.Errorf("%s has no family", m)
			}
		}
	})
	if got := hub.PriorityCritical.Rank(); got != 0 {
		t.Errorf("critical has rank %d, want 0", got)
	}
	if hub.PriorityLow.Rank() <= hub.PriorityNormal.Rank() {
		t.Error("low comes after normal")
	}
}

func TestEndedHandoffs(t *testing.T) {
	for _, s := range hub.HandoffStates {
		isFinal := true
		for _, next := range hub.HandoffStates {
			if !s.CanBecome(next) {
				continue
			}
			isFinal = false
			isReturned := s == hub.HandoffClosed && next == hub.HandoffActivated
			if s.Ended() && !next.Ended() && !isReturned {
				t.Errorf("%s has ended and can become %s", s, next)
			}
			if s.Active() && !next.Active() && !next.Ended() {
				t.Errorf("%s can become %s, which is neither active nor ended", s, next)
			}
		}
		if isFinal && !s.Ended() {
			t.Errorf("%s is final and has not ended", s)
		}
		if s.Ended() && s.Active() {
			t.Errorf("%s is active and has ended", s)
		}
	}
}
