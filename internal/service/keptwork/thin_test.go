package keptwork_test

import (
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/keptwork"
)

func TestOver(t *testing.T) {
	now := time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)
	work := func(age time.Duration, after string) hub.KeptWork {
		return hub.KeptWork{Why: hub.KeptInterval, At: hub.At(now.Add(-age)), After: after}
	}
	// One state a minute for 20 days, the newest first, and one from before a destruction each day.
	var all []hub.KeptWork
	for age := time.Duration(0); age < 20*24*time.Hour; age += time.Minute {
		after := ""
		if age > 0 && age%(24*time.Hour) == 0 {
			after = "x"
		}
		all = append(all, work(age, after))
	}
	over := map[time.Time]bool{}
	for _, w := range keptwork.Over(all, now) {
		over[w.At.Time] = true
	}
	var recent, day, later, destroyed int
	for _, w := range all {
		age := now.Sub(w.At.Time)
		switch {
		case over[w.At.Time]:
		case w.After != "":
			destroyed++
		case age < 2*time.Hour:
			recent++
		case age < 24*time.Hour:
			day++
		default:
			later++
		}
	}
	if recent != 120 || day != 22*6 || later != 13 || destroyed != 14 {
		t.Errorf("got %d of two hours, %d of a day, %d later and %d from before destructions; want 120, 132, 13, 14", recent, day, later, destroyed)
	}
}
