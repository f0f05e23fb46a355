package server

import (
	"testing"
	"time"
)

// TestEndsWithin ends work that does not end by itself.
func TestEndsWithin(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	if endsWithin(time.Millisecond, func() { <-never }) {
		t.Error("work that never ends has ended")
	}
	if !endsWithin(time.Hour, func() {}) {
		t.Error("work that ends at once has not ended")
	}
	if EndTime != 10*time.Second || workTime+closeTime >= EndTime || graceTime >= workTime {
		t.Errorf("a hub ends within 10 seconds, its work and its store before, and calls before that: got %s, %s, %s and %s", EndTime, workTime, closeTime, graceTime)
	}
}
