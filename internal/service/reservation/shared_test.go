package reservation_test

import (
	"testing"

	"github.com/parley-agents/parley/internal/service/reservation"
)

// TestShared lets two agents that both reserved a pattern as shared change one file, and no other
// agent.
func TestShared(t *testing.T) {
	tests := []struct {
		name     string
		isShared [2]bool
		want     string
	}{
		{"both say shared", [2]bool{true, true}, reservation.Allow},
		{"only the first says shared", [2]bool{true, false}, reservation.Deny},
		{"only the second says shared", [2]bool{false, true}, reservation.Deny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage()
			for i, shared := range tt.isShared {
				r := reservation.Request{Tree: places[first].tree, Patterns: []string{pattern}, Shared: shared, Session: s.w.session(i)}
				if _, err := s.service.Reserve(t.Context(), agentCaller(i), r); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.ask(0, reservation.Edit, "", first); got.Decision != reservation.Allow {
				t.Fatalf("ada asks first: %+v", got)
			}
			if got := s.ask(1, reservation.Edit, "", first); got.Decision != tt.want {
				t.Errorf("bob asks: %+v, want %s", got, tt.want)
			}
		})
	}
}
