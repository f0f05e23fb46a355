package wake

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// spent returns the turns of the last hour, all of them or those for messages of one
// sender, and when the first of them leaves the hour.
func (a *account) spent(now hub.Time, sender hub.AgentID) (n int, until hub.Time) {
	for _, t := range a.Attempts {
		if t.Cost == 0 || now.Sub(t.At.Time) >= time.Hour || sender != "" && !slices.Contains(t.Senders, sender) {
			continue
		}
		n += t.Cost
		if until.IsZero() {
			until = t.At.Add(time.Hour)
		}
	}
	return n, until
}

// budget returns why no turn may be started for messages of a sender now, and until
// when; "" if one may. Without a sender only the budget of the agent counts.
func (g *Machine) budget(a *account, now hub.Time, sender hub.AgentID) (string, hub.Time) {
	spentInHour, until := a.spent(now, "")
	if limit := cmp.Or(a.PerHour, g.o.Limits.PerHour); limit <= spentInHour {
		return fmt.Sprintf("rate: %d wakes within an hour, so it waits in the inbox", limit), until
	}
	if sender == "" {
		return "", hub.Time{}
	}
	if n, until := a.spent(now, sender); n >= g.o.Limits.PairPerHour {
		return fmt.Sprintf("rate: %d wakes for messages of %s within an hour, so it waits in the inbox", g.o.Limits.PairPerHour, sender), until
	}
	return "", hub.Time{}
}

// freeAt returns when the gap after the last turn that mail started before now ends. Each
// turn within stretchWindow doubles the gap, up to eight times, so that agents that answer
// each other without an end slow down before a budget stops them. A message of the operator
// waits for the first gap alone.
func (g *Machine) freeAt(a *account, now hub.Time, due []inboxMessage) hub.Time {
	var last hub.Time
	recent := 0
	for _, t := range a.Attempts { // a notice of a hook within a turn costs nothing
		if t.Cost == 0 || !t.At.Before(now.Time) {
			continue
		}
		last = t.At
		if now.Sub(t.At.Time) < stretchWindow {
			recent++
		}
	}
	if last.IsZero() {
		return last
	}
	if slices.ContainsFunc(due, func(m inboxMessage) bool { return m.From == hub.Operator }) {
		recent = 1
	}
	return last.Add(g.o.Limits.Gap << min(max(recent-1, 0), maxStretch))
}

const (
	stretchWindow = 15 * time.Minute // turns within it stretch the gap
	maxStretch    = 3                // times that the gap is doubled: 30 s, 1, 2 and 4 minutes
)
