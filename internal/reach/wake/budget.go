package wake

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// budget returns why no turn may be started for messages of a sender now, and until
// when; "" if one may. Without a sender only the budget of the agent counts.
func (a *agentRecord) budget(sender hub.AgentID) (string, hub.Time) {
	if reason, until := a.spentBudget(); reason != "" {
		return reason, until
	}
	spentInHour, until := a.wakes.spent(a.now, "")
	if limit := cmp.Or(a.account.PerHour, a.o.Limits.PerHour); limit <= spentInHour {
		return fmt.Sprintf("rate: %d wakes within an hour, so it waits in the inbox", limit), until
	}
	if sender == "" {
		return "", hub.Time{}
	}
	if n, until := a.wakes.spent(a.now, sender); n >= a.o.Limits.PairPerHour {
		return fmt.Sprintf("rate: %d wakes for messages from %s within an hour, so it waits in the inbox", a.o.Limits.PairPerHour, sender), until
	}
	return "", hub.Time{}
}

// spentBudget returns why a budget of tokens, money or turns allows no turn, and until when.
// Budgets that cannot be read stop nothing.
func (a *agentRecord) spentBudget() (string, hub.Time) {
	if a.o.Budget == nil {
		return "", hub.Time{}
	}
	reason, until, err := a.o.Budget(a.rd, a.agent)
	if err != nil {
		a.o.Log.Warn("the budgets of an agent cannot be read", "agent", a.agent, "err", err)
		return "", hub.Time{}
	}
	if reason != "" && until.IsZero() {
		until = a.now.Add(budgetRetry)
	}
	return reason, until
}

// freeAt returns when the gap after the last turn that mail started before now ends. Each
// turn within stretchWindow doubles the gap, up to eight times, so that agents that answer
// each other without an end slow down before a budget stops them. A message of the operator
// waits for the first gap alone.
func (a *agentRecord) freeAt(due []inboxMessage) hub.Time {
	var last hub.Time
	recent := 0
	for _, w := range a.wakes { // a notice of a hook within a turn costs nothing
		if w.Cost == 0 || !w.At.Before(a.now.Time) {
			continue
		}
		last = w.At
		if a.now.Sub(w.At.Time) < stretchWindow {
			recent++
		}
	}
	if last.IsZero() {
		return last
	}
	if slices.ContainsFunc(due, func(m inboxMessage) bool { return m.From == hub.Operator }) {
		recent = 1
	}
	return last.Add(a.o.Limits.Gap << min(max(recent-1, 0), maxStretch))
}

const (
	stretchWindow = 15 * time.Minute // turns within it stretch the gap
	maxStretch    = 3                // times that the gap is doubled: 30 s, 1, 2 and 4 minutes
)
