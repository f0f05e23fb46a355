package hub

import "slices"

// contactKey is where the rules for contact are stored.
const contactKey = "contact"

// A ContactRule says which agents may write to an agent, and which of them may wake it. The
// zero rule lets everyone do both. The operator and the hub always may.
type ContactRule struct {
	From     []AgentID `json:"from,omitempty"`      // agents and teams, as team:ID; empty for everyone
	WakeFrom []AgentID `json:"wake_from,omitempty"` // in the same form; empty for everyone who may write
}

// ContactRules has the rules of the agents that have one.
type ContactRules map[AgentID]ContactRule

// ReadContactRules reads the rules of all agents.
func ReadContactRules(r MetaReader) (ContactRules, error) {
	return ReadMeta[ContactRules](r, contactKey)
}

// Write stores the rules.
func (c ContactRules) Write(tx MetaWriter) error { return WriteMeta(tx, contactKey, c) }

// MayWrite reports whether an agent may write to another one.
func (c ContactRules) MayWrite(r Reader, from, to AgentID) (bool, error) {
	return admits(r, c[to].From, from, to)
}

// MayWake reports whether the messages of an agent may wake another one.
func (c ContactRules) MayWake(r Reader, from, to AgentID) (bool, error) {
	return admits(r, c[to].WakeFrom, from, to)
}

// admits reports whether a list of a rule has an agent, by its name or as a member of a
// team. The empty list has everyone.
func admits(r Reader, list []AgentID, from, to AgentID) (bool, error) {
	if len(list) == 0 || from == Operator || from == Self || from == to || slices.Contains(list, from) {
		return true, nil
	}
	for _, id := range list {
		team, ok := id.Team()
		if !ok {
			continue
		}
		members, err := r.Teamspaces().Members(MemberQuery{Team: team, Agent: from, Limit: 1})
		if err != nil || len(members) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}
