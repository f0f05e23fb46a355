package server

import (
	"testing"
	"time"
)

func TestSteadyClock(t *testing.T) {
	day := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var elapsed time.Duration
	wall := day
	c := &steadyClock{wall: func() time.Time { return wall }, elapsed: func() time.Duration { return elapsed }}
	pass := func(d time.Duration) { wall, elapsed = wall.Add(d), elapsed+d }
	want := func(when string, want time.Time) {
		t.Helper()
		if got := c.Now(); !got.Equal(want) {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	want("at first", day)
	pass(time.Minute)
	want("after a minute", day.Add(time.Minute))
	wall = wall.Add(-24 * time.Hour)
	want("when the clock is set back a day", day.Add(time.Minute))
	pass(time.Minute)
	want("a minute later", day.Add(2*time.Minute))
	pass(time.Minute)
	want("and another", day.Add(3*time.Minute))
	wall = day.Add(3*time.Minute + time.Hour)
	want("when it is set right", wall)
}
