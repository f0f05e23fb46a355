// Package contact has the rules for contact: which agents may write to an agent, and which of
// them may wake it. The mailroom changes and applies them, the wake machine asks whom a
// message may wake. It is tested through both, in server/contact_test.go.
package contact

import (
	"slices"

	"github.com/parley-agents/parley/hub"
)

// key is where the rules for contact are stored.
const key = "contact"

// A Rule says which agents may write to an agent, and which of them may wake it. The
// zero rule lets everyone do both. The operator and the hub always may.
type Rule struct {
	From     []hub.AgentID `json:"from,omitempty"`      // agents and teams, as team:ID; empty for everyone
	WakeFrom []hub.AgentID `json:"wake_from,omitempty"` // in the same form; empty for everyone who may write
}

// Rules has the rules of the agents that have one.
type Rules map[hub.AgentID]Rule

// Read reads the rules of all agents.
func Read(r hub.MetaReader) (Rules, error) {
	return hub.ReadMeta[Rules](r, key)
}

// Write stores the rules.
func (c Rules) Write(tx hub.MetaWriter) error { return hub.WriteMeta(tx, key, c) }

// MayWrite reports whether an agent may write to another one.
func (c Rules) MayWrite(r hub.Reader, from, to hub.AgentID) (bool, error) {
	return admits(r, c[to].From, from, to)
}

// MayWake reports whether the messages of an agent may wake another one.
func (c Rules) MayWake(r hub.Reader, from, to hub.AgentID) (bool, error) {
	return admits(r, c[to].WakeFrom, from, to)
}

// admits reports whether a list of a rule has an agent, by its name or as a member of a
// team. The empty list has everyone.
func admits(r hub.Reader, list []hub.AgentID, from, to hub.AgentID) (bool, error) {
	alwaysAdmitted := from == hub.Operator || from == hub.Self || from == to
	if len(list) == 0 || alwaysAdmitted || slices.Contains(list, from) {
		return true, nil
	}
	for _, id := range list {
		team, ok := id.Team()
		if !ok {
			continue
		}
		members, err := r.Teamspaces().Members(hub.MemberQuery{Team: team, Agent: from, Limit: 1})
		if err != nil || len(members) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}
