package reservation

import (
	"github.com/parley-agents/parley/hub"
)

// maxTeams bounds the teams of one agent that are considered.
const maxTeams = 200

// mayActFor reports CodeDenied unless the caller may reserve and release files for an agent: for
// itself, as the operator, or as the coordinator of a team of which the agent is a member.
func (b *board) mayActFor(op string, agent hub.AgentID) error {
	if agent == b.actor.ID || b.actor.IsOperator() {
		return nil
	}
	teams, err := b.tx.Teamspaces().Teams(hub.TeamQuery{Member: agent, Limit: maxTeams})
	if err != nil {
		return err
	}
	for _, t := range teams {
		if t.ReadOnly() {
			continue
		}
		members, err := b.tx.Teamspaces().Members(hub.MemberQuery{Team: t.ID, Agent: b.actor.ID, Limit: maxTeams})
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.Role == hub.RoleCoordinator && m.Until.IsZero() {
				return nil
			}
		}
	}
	return hub.Errorf(hub.CodeDenied, op, "the files are reserved by or for %s, not you", agent).
		WithHint("ask %s to release them", agent)
}

// mayBeFor refuses a reservation for an agent, task or handoff that does not exist, or that is
// over.
func (b *board) mayBeFor(op string, r Request) error {
	if r.Agent != b.actor.ID {
		if _, err := b.tx.Agent(r.Agent); err != nil {
			return err
		}
	}
	v := hub.Reservation{Task: r.Task, Handoff: r.Handoff}
	isDone, err := isDone(b.tx, v)
	if err == nil && isDone {
		err = hub.Errorf(hub.CodeNotFound, op, "no open task or handoff %.100s", string(r.Task)+string(r.Handoff))
	}
	return err
}
