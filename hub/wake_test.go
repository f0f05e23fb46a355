package hub_test

import (
	"slices"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

func TestWakeAdvance(t *testing.T) {
	now := hub.At(time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC))
	ends := []hub.WakeState{hub.WakeShown, hub.WakeAccepted, hub.WakeEnded, hub.WakeRead, hub.WakeHeld, hub.WakeRefused, hub.WakeFailed}
	open := map[hub.WakeState][]hub.WakeState{
		hub.WakeReserved: {hub.WakeWaiting, hub.WakeTaken, hub.WakeHanded, hub.WakeOffered, hub.WakeStarted},
		hub.WakeWaiting:  {hub.WakeWaiting, hub.WakeTaken, hub.WakeHanded, hub.WakeOffered, hub.WakeStarted},
		hub.WakeTaken:    {hub.WakeTaken, hub.WakeHanded, hub.WakeStarted},
		hub.WakeHanded:   {hub.WakeHanded, hub.WakeStarted},
		hub.WakeOffered:  {hub.WakeStarted},
		hub.WakeStarted:  {hub.WakeStarted},
	}
	all := slices.Clone(ends)
	for s := range open {
		all = append(all, s)
	}

	for _, from := range all {
		for _, next := range all {
			w := hub.Wake{ID: "w_1", State: from, Until: now}
			got, err := w.Advance(next, now)
			mayMove := slices.Contains(open[from], next) || (len(open[from]) > 0 && slices.Contains(ends, next))
			if (err == nil) != mayMove || (err != nil && (hub.CodeOf(err) != hub.CodeConflict || got.State != from)) {
				t.Errorf("%s to %s: got %s, %v", from, next, got.State, err)
			}
			if err == nil && got.Until.IsZero() != slices.Contains(ends, next) {
				t.Errorf("%s to %s: it ends at %s", from, next, got.Until)
			}
		}
	}
}

func TestWakeTimes(t *testing.T) {
	at := hub.At(time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC))
	w := hub.Wake{ID: "w_1", State: hub.WakeReserved}
	for i, next := range []hub.WakeState{hub.WakeWaiting, hub.WakeTaken, hub.WakeTaken, hub.WakeHanded, hub.WakeHanded, hub.WakeStarted, hub.WakeStarted, hub.WakeEnded} {
		var err error
		if w, err = w.Advance(next, at.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Taken != at.Add(time.Second) || w.Handed != at.Add(3*time.Second) || w.Proven != at.Add(5*time.Second) {
		t.Errorf("got %+v, want the times of the first moves", w)
	}
}
