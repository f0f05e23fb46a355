package team

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// join makes an agent a member and tells agents of it.
func (c *change) join(seat Seat, tell []hub.AgentID) error {
	m := hub.Member{Team: c.team.ID, Agent: seat.Agent, Role: seat.Role, Since: c.now, By: c.actor.ID, Reason: "joined"}
	if err := c.tx.WriteTeamspaces().PutMember(m); hub.CodeOf(err) == hub.CodeConflict {
		return hub.Errorf(hub.CodeConflict, c.op, "%s is already a member of team %s", seat.Agent, c.team.ID).WithHint("to change its role: {team.role}")
	} else if err != nil {
		return err
	}
	if err := c.record(actions.TeamJoined, map[string]any{"agent": seat.Agent, "role": seat.Role}); err != nil {
		return err
	}
	return c.tell(tell, hub.TypeTeamJoin, map[string]any{"agent": seat.Agent, "role": seat.Role, "by": c.actor.ID})
}

func (r AddMember) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	seat := Seat{Agent: r.Agent, Role: r.Role}
	if seat.Role == "" {
		seat.Role = hub.RoleExecutor
	}
	if err := s.checkSeat(ctx, "team.add", seat); err != nil {
		return out, err
	}
	return out, s.update(ctx, in, func(c *change) (err error) {
		if err := c.allow(hub.MayChangeMembers, ""); err != nil {
			return err
		}
		all, err := roster(c.tx, c.team.ID)
		if err != nil {
			return err
		}
		if len(all) >= maxMembers {
			return hub.Errorf(hub.CodeTooLarge, c.op, "team %s is full (%d members)", c.team.ID, len(all))
		}
		if err := c.join(seat, append(with(all), seat.Agent)); err != nil {
			return err
		}
		out, err = c.answer()
		return err
	})
}

// perform ends a membership: of others with authority, of oneself always.
func (r RemoveMember) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	if r.Reason == "" {
		r.Reason = "removed"
		if r.Agent == in.actor.ID {
			r.Reason = "left"
		}
	}
	if err := checkText("team.remove", "reason", r.Reason, 500); err != nil {
		return out, err
	}

	return out, s.update(ctx, in, func(c *change) (err error) {
		if r.Agent != in.actor.ID {
			if err := c.allow(hub.MayChangeMembers, ""); err != nil {
				return err
			}
		}

		m, err := c.member(r.Agent)
		if err != nil {
			return err
		}
		if err := c.keepsCoordinator(m); err != nil {
			return err
		}
		if err := c.leave(m, r.Reason); err != nil {
			return err
		}
		out, err = c.answer()
		return err
	})
}

// member returns a member of the team.
func (c *change) member(agent hub.AgentID) (hub.Member, error) {
	m, err := c.tx.Teamspaces().Members(hub.MemberQuery{Team: c.team.ID, Agent: agent, Limit: 1})
	if err != nil {
		return hub.Member{}, err
	}
	if agent == "" || len(m) == 0 {
		return hub.Member{}, hub.Errorf(hub.CodeNotFound, c.op, "no member named %q in team %s", agent, c.team.ID).WithHint("to list the members: {team.show} %s", c.team.ID)
	}
	return m[0], nil
}

// keepsCoordinator refuses to take the last coordinator of the team away.
func (c *change) keepsCoordinator(m hub.Member) error {
	if m.Role != hub.RoleCoordinator {
		return nil
	}
	all, err := roster(c.tx, c.team.ID)
	if err == nil && len(with(all, hub.RoleCoordinator)) < 2 {
		return hub.Errorf(hub.CodeConflict, c.op, "%s is the last coordinator of team %s", m.Agent, c.team.ID).WithHint("make another member coordinator first")
	}
	return err
}

// leave ends a membership. The tasks of the agent go back to the backlog, and the
// members are told.
func (c *change) leave(m hub.Member, reason string) error {
	all, err := roster(c.tx, c.team.ID)
	if err != nil {
		return err
	}

	m.Until, m.Ending = c.now, reason
	if err := c.tx.WriteTeamspaces().PutMember(m); err != nil {
		return err
	}
	if err := c.record(actions.TeamLeft, map[string]any{"agent": m.Agent, "role": m.Role, "reason": reason}); err != nil {
		return err
	}

	// Proposals for the agent, or for a swap with it, end too.
	open := func(p hub.RoleProposal) bool {
		return p.Agent == m.Agent || p.Swap == m.Agent
	}
	if slices.ContainsFunc(c.team.Proposals, open) {
		c.team.Proposals = slices.DeleteFunc(slices.Clone(c.team.Proposals), open)
		if err := c.put(); err != nil {
			return err
		}
	}

	freed, err := c.free(m.Agent)
	if err != nil {
		return err
	}
	payload := map[string]any{"agent": m.Agent, "reason": reason, "by": c.actor.ID}
	if len(freed) > 0 {
		payload["tasks_in_backlog"] = freed
	}
	return c.tell(append(with(all), m.Agent), hub.TypeTeamLeave, payload)
}

// free puts the open tasks of an agent back to the backlog and returns them. It looks
// for at most maxPage of them at a time.
func (c *change) free(agent hub.AgentID) ([]hub.TaskID, error) {
	var freed []hub.TaskID
	for {
		held, err := c.tx.Teamspaces().Tasks(hub.TaskQuery{Team: c.team.ID, Owner: agent, States: openStates, Limit: maxPage})
		if err != nil || len(held) == 0 {
			return freed, err
		}
		for _, t := range held {
			if t, err = t.Advance(hub.TaskBacklog, c.now); err != nil {
				return freed, err
			}
			if err := c.putTask(&t); err != nil {
				return freed, err
			}
			freed = append(freed, t.ID)
		}
	}
}

// Revoked ends the memberships of an agent whose keys were revoked, inside the
// transaction that revokes them. A team whose last coordinator it was is left to the
// operator. The caller announces the messages after the commit.
func (s *Service) Revoked(tx hub.Tx, actor hub.Caller, agent hub.AgentID) ([]hub.Message, error) {
	all, err := tx.Teamspaces().Members(hub.MemberQuery{Agent: agent, Limit: maxMemberships})
	if err != nil {
		return nil, err
	}

	var posted []hub.Message
	for _, m := range all {
		t, err := tx.Teamspaces().Team(m.Team)
		if err != nil {
			return nil, err
		}
		if t.ReadOnly() {
			continue
		}

		c := &change{s: s, tx: tx, op: "team.Revoked", actor: actor, now: s.clock.Now(), team: t}
		if err := c.leave(m, "its keys were revoked"); err != nil {
			return nil, err
		}

		// A team without a coordinator waits for the operator.
		left, err := roster(tx, t.ID)
		if err != nil {
			return nil, err
		}
		if len(with(left, hub.RoleCoordinator)) == 0 {
			c.actor = hub.Caller{ID: hub.Self} // the operator is told, who may be the actor
			if err := c.tell([]hub.AgentID{hub.Operator}, hub.TypeStatusBlocked, map[string]any{
				"summary": fmt.Sprintf("team %s has no coordinator", t.ID), "reason": fmt.Sprintf("parley team add %s NAME --role coordinator", t.ID),
			}); err != nil {
				return nil, err
			}
		}

		posted = append(posted, c.posted...)
	}
	return posted, nil
}

// maxMemberships is the most teams that one agent leaves at once.
const maxMemberships = 1000

// perform proposes a role or, with a reason of the coordinator, changes it at once.
func (r ChangeRole) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.role"
	if !r.Role.Known() {
		return out, hub.Errorf(hub.CodeInvalid, op, "unknown role %q", r.Role).WithHint("the roles are %s", joined(hub.Roles))
	}
	if err := CheckRoleReason(r.Reason); err != nil {
		return out, err
	}
	return out, s.update(ctx, in, func(c *change) (err error) {
		if r.Reason != "" {
			err = c.changeAtOnce(r)
		} else {
			err = c.propose(r)
		}
		if err != nil {
			return err
		}
		out, err = c.answer()
		return err
	})
}

// CheckRoleReason refuses a reason for a change of roles that is not one of
// hub.RoleReasons. No reason is right.
func CheckRoleReason(reason string) error {
	if reason == "" || slices.Contains(hub.RoleReasons, reason) {
		return nil
	}
	return hub.Errorf(hub.CodeInvalid, "team.role", "unknown reason %q for a change of roles", reason).WithHint("use %s", joined(hub.RoleReasons))
}

func (r AnswerRole) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	return out, s.update(ctx, in, func(c *change) (err error) {
		if err := c.answerProposal(r); err != nil {
			return err
		}
		out, err = c.answer()
		return err
	})
}

// swap returns the members whose roles a request changes, and checks that a swap
// exchanges them.
func (c *change) swap(agent hub.AgentID, role hub.Role, with hub.AgentID) (m, other hub.Member, err error) {
	if m, err = c.member(agent); err != nil {
		return m, other, err
	}
	if m.Role == role {
		return m, other, hub.Errorf(hub.CodeConflict, c.op, "%s is already %s in team %s", agent, role, c.team.ID)
	}
	if with == "" {
		return m, other, c.keepsCoordinator(m)
	}
	if other, err = c.member(with); err == nil && other.Role != role {
		err = hub.Errorf(hub.CodeInvalid, c.op, "cannot swap roles: %s is %s, not %s", with, other.Role, role)
	}
	return m, other, err
}

// changeAtOnce changes a role for a reason of the coordinator.
func (c *change) changeAtOnce(r ChangeRole) error {
	if err := c.allow(hub.MayChangeMembers, ""); err != nil {
		return err
	}
	if err := c.notItself(r); err != nil {
		return err
	}
	m, other, err := c.swap(r.Agent, r.Role, r.SwapWith)
	if err != nil {
		return err
	}
	return c.setRoles(m, other, r.Role, r.Reason)
}

// notItself refuses an agent that makes itself coordinator.
func (c *change) notItself(r ChangeRole) error {
	if r.Role != hub.RoleCoordinator || c.actor.ID != r.Agent {
		return nil
	}
	return hub.Errorf(hub.CodeDenied, c.op, "%s cannot make itself coordinator of team %s", c.actor.ID, c.team.ID).WithHint("ask a coordinator of the team to propose it")
}

// setRoles gives a member a role and, in a swap, the other one its role.
func (c *change) setRoles(m, other hub.Member, role hub.Role, reason string) error {
	all, err := roster(c.tx, c.team.ID)
	if err != nil {
		return err
	}
	set := func(m hub.Member, role hub.Role) error {
		was := m.Role
		m.Until, m.Ending = c.now, reason
		if err := c.tx.WriteTeamspaces().PutMember(m); err != nil {
			return err
		}
		if err := c.tx.WriteTeamspaces().PutMember(hub.Member{Team: m.Team, Agent: m.Agent, Role: role, Since: c.now, By: c.actor.ID, Reason: reason}); err != nil {
			return err
		}
		if err := c.record(actions.TeamRole, map[string]any{"agent": m.Agent, "from": was, "to": role, "reason": reason, "status": "changed"}); err != nil {
			return err
		}
		return c.tell(with(all), hub.TypeTeamRoleChange, map[string]any{"agent": m.Agent, "role": role, "status": "changed", "reason": reason, "by": c.actor.ID})
	}
	if err := set(m, role); err != nil || other.Agent == "" {
		return err
	}
	return set(other, m.Role)
}

// propose proposes a role: a coordinator for any member, a member for itself.
func (c *change) propose(r ChangeRole) error {
	if err := c.notItself(r); err != nil {
		return err
	}

	leads := c.allow(hub.MayChangeMembers, "") == nil
	if !leads && r.Agent != c.actor.ID {
		return c.allow(hub.MayChangeMembers, "")
	}
	if _, _, err := c.swap(r.Agent, r.Role, r.SwapWith); err != nil {
		return err
	}

	// All agents whose role changes must agree; a proposal for oneself also needs a coordinator.
	p := hub.RoleProposal{Agent: r.Agent, Role: r.Role, Swap: r.SwapWith, By: c.actor.ID, Needs: []hub.AgentID{}, At: c.now}
	for _, id := range []hub.AgentID{r.Agent, r.SwapWith} {
		if id != "" && id != c.actor.ID {
			p.Needs = append(p.Needs, id)
		}
	}
	own := !leads || r.Agent == c.actor.ID // another one, who coordinates, accepts it
	if own {
		p.Needs = append(p.Needs, anyCoordinator)
	}

	// A new proposal for an agent replaces the old one.
	c.team.Proposals = append(slices.DeleteFunc(slices.Clone(c.team.Proposals), func(old hub.RoleProposal) bool { return old.Agent == r.Agent }), p)
	if err := c.put(); err != nil {
		return err
	}
	if err := c.record(actions.TeamRole, map[string]any{"agent": r.Agent, "to": r.Role, "status": "proposed"}); err != nil {
		return err
	}

	to := p.Needs
	if own {
		all, err := roster(c.tx, c.team.ID)
		if err != nil {
			return err
		}
		to = append(with(all, hub.RoleCoordinator), r.SwapWith)
	}
	return c.tell(to, hub.TypeTeamRoleChange, map[string]any{"agent": r.Agent, "role": r.Role, "status": "proposed", "by": c.actor.ID})
}

// anyCoordinator stands for the coordinators of the team among those that must agree.
const anyCoordinator hub.AgentID = "role:coordinator" // no agent can have this name

// answerProposal agrees to a proposal or refuses it.
func (c *change) answerProposal(r AnswerRole) error {
	i := slices.IndexFunc(c.team.Proposals, func(p hub.RoleProposal) bool { return p.Agent == r.Agent && (r.Role == "" || p.Role == r.Role) })
	if i < 0 {
		return hub.Errorf(hub.CodeNotFound, c.op, "no role is proposed for %q in team %s", r.Agent, c.team.ID)
	}
	p := c.team.Proposals[i]

	// A coordinator agrees for all coordinators, but not to its own proposal.
	mine := func(id hub.AgentID) bool {
		return id == c.actor.ID || (id == anyCoordinator && c.allow(hub.MayChangeMembers, "") == nil && c.actor.ID != p.By)
	}
	if !slices.ContainsFunc(p.Needs, mine) {
		return hub.Errorf(hub.CodeDenied, c.op, "the proposal of role %s for %s does not wait for %s", p.Role, p.Agent, c.actor.ID).WithHint("it waits for %s", joined(p.Needs))
	}

	// The proposal stays while other agents have to agree.
	p.Needs = slices.DeleteFunc(slices.Clone(p.Needs), mine)
	c.team.Proposals = slices.Delete(slices.Clone(c.team.Proposals), i, i+1)
	if r.Accept && len(p.Needs) > 0 {
		c.team.Proposals = append(c.team.Proposals, p)
	}
	if err := c.put(); err != nil {
		return err
	}

	if r.Accept && len(p.Needs) == 0 {
		m, other, err := c.swap(p.Agent, p.Role, p.Swap)
		if err != nil {
			return err
		}
		return c.setRoles(m, other, p.Role, "agreed")
	}

	status := "agreed by " + string(c.actor.ID)
	if !r.Accept {
		status = "refused by " + string(c.actor.ID)
		if err := c.tell([]hub.AgentID{p.By, p.Agent, p.Swap}, hub.TypeStatusUpdate, map[string]any{"summary": fmt.Sprintf("%[3]s refused the role %[1]s for %[2]s", p.Role, p.Agent, c.actor.ID)}); err != nil {
			return err
		}
	}
	return c.record(actions.TeamRole, map[string]any{"agent": p.Agent, "to": p.Role, "status": status})
}

// cut returns at most n bytes of a text.
func cut(s string, n int) string {
	return shorten.Text(s, n-len("…"))
}
