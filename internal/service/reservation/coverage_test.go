package reservation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// patterned returns reservations of patterns.
func patterned(patterns ...string) (out []hub.Reservation) {
	for _, p := range patterns {
		out = append(out, hub.Reservation{Pattern: true, Path: p, State: hub.ReservationHeld})
	}
	return out
}

// TestStepsInsideTransactions compares a file with patterns. Those that were stored before the
// transaction cost no step inside of it, and those that came later a bounded number.
func TestStepsInsideTransactions(t *testing.T) {
	s, err := reservation.New(nil, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	covered, steps, err := s.Late(t.Context(), patterned("*.go", "src", "doc/*", "src/b.go"), nil, "src/a.go")
	if want := []bool{true, true, false, false}; err != nil || steps != 0 || !slices.Equal(covered, want) {
		t.Errorf("before the transaction: %v, %d steps, %v; want %v, 0 steps", covered, steps, err, want)
	}
	covered, steps, err = s.Late(t.Context(), patterned("*.go"), patterned("src", "doc/*"), "src/a.go")
	if want := []bool{true, true, false}; err != nil || steps == 0 || !slices.Equal(covered, want) {
		t.Errorf("inside the transaction: %v, %d steps, %v; want %v", covered, steps, err, want)
	}

	var heavy []string
	for i := range 64 {
		heavy = append(heavy, fmt.Sprintf("*%s%d", strings.Repeat("?", 500), i))
	}
	long := strings.Repeat("a/b", 1_300)
	_, steps, err = s.Late(t.Context(), nil, patterned(heavy...), long)
	if most := reservation.MaxLateSteps + 2*len(long)*512; steps > most || hub.CodeOf(err) != hub.CodeTooLarge {
		t.Errorf("64 heavy patterns inside the transaction: %d steps, at most %d, and %v; want %s", steps, most, err, hub.CodeTooLarge)
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Late(gone, patterned(heavy...), nil, long); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went away: %v", err)
	}
}
