package mailroom

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// maxTeam is the most members of a team that a message reaches.
const maxTeam = 201

// addressTeam puts the members of a team in the place of a recipient team:ID, those who
// may accept tasks in the place of everyone in an offer for a team, and fills in the
// visibility of a message for a team that names none.
func (m *Mailroom) addressTeam(ctx context.Context, op string, actor hub.Caller, d *Draft) error {
	if err := readTeam(op, d); err != nil {
		return err
	}
	offer := d.Type == hub.TypeTaskOffer && slices.Equal(d.To, []hub.AgentID{hub.Everyone})
	if offer && d.Team != "" {
		d.whole = true
	}
	if d.Team == "" || !m.features[hub.FeatureTeamspaces] {
		return nil
	}

	err := m.store.View(ctx, func(r hub.Reader) error { return m.expandTeam(r, op, actor, d, offer) })
	if err != nil || !d.whole {
		return err
	}
	d.To, d.closed, err = m.dropClosed(ctx, op, actor.ID, d.To)
	return err
}

// readTeam reads the team of a recipient team:ID, which stands alone.
func readTeam(op string, d *Draft) error {
	for _, id := range d.To {
		team, ok := id.Team()
		switch {
		case !ok:
			continue
		case len(d.To) > 1:
			return hub.Errorf(hub.CodeInvalid, op, "%s must be the only recipient", id).WithHint("send to the team, or name its members")
		case d.Team != "" && d.Team != string(team):
			return hub.Errorf(hub.CodeInvalid, op, "team %s does not match the recipient team:%s", d.Team, team)
		}
		d.Team = string(team)
		d.whole = true
	}
	return nil
}

// expandTeam fills in the recipients and the visibility of a message for a team. offer says
// that the message is for those who may accept tasks.
func (m *Mailroom) expandTeam(r hub.Reader, op string, actor hub.Caller, d *Draft, offer bool) error {
	t, err := teamOf(r, op, actor, hub.TeamID(d.Team))
	if err != nil {
		return err
	}

	policy := hub.Policy{}
	if d.Policy != nil {
		policy = *d.Policy
	}
	if policy.Visibility == "" {
		policy.Visibility = t.Policy.DefaultVisibility
		d.Policy = &policy
	}
	if !d.whole {
		return nil
	}

	// A message to the whole team goes to its members at this moment.
	all, err := r.Teamspaces().Members(hub.MemberQuery{Team: t.ID, Limit: maxTeam})
	if err != nil {
		return err
	}
	d.To = nil
	for _, member := range all {
		if member.Agent != actor.ID && (!offer || t.May(member.Role, hub.MayAcceptTask, hub.ClassNormal)) {
			d.To = append(d.To, member.Agent)
		}
	}
	if len(d.To) == 0 {
		return hub.Errorf(hub.CodeUnknownRecipient, op, "team %s has no other member to receive this message", t.ID)
	}

	d.wide = len(d.To) > m.limits.Recipients
	leads := slices.ContainsFunc(all, func(x hub.Member) bool { return x.Agent == actor.ID && x.Role == hub.RoleCoordinator })
	mayAll := leads || actor.IsOperator() || d.Priority.Urgent()
	if d.wide && !mayAll {
		return hub.Errorf(hub.CodeDenied, op, "only a coordinator of team %s can write to all %d members with this priority", t.ID, len(all)).
			WithHint("name the recipients, or use priority high if all members must know now")
	}
	return nil
}

// teamOf returns a team that the actor may write to: one that it is a member of. To
// others it reports the same error as for one that does not exist.
func teamOf(r hub.Reader, op string, actor hub.Caller, id hub.TeamID) (hub.Team, error) {
	t, err := r.Teamspaces().Team(id)
	if err == nil && !actor.IsOperator() {
		var m []hub.Member
		if m, err = r.Teamspaces().Members(hub.MemberQuery{Team: id, Agent: actor.ID, Limit: 1}); err == nil && len(m) == 0 {
			err = hub.Errorf(hub.CodeNotFound, op, "no member")
		}
	}
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return t, hub.Errorf(hub.CodeNotFound, op, "%s is not a member of a team named %q", actor.ID, id).WithHint("{team.list} lists your teams")
	case err == nil && t.ReadOnly():
		return t, hub.Errorf(hub.CodeConflict, op, "team %s is %s and takes no messages", id, t.Lifecycle)
	}
	return t, err
}

// checkTeam refuses a message for a team whose sender or, if it is visible to the team,
// recipients are no members when it is stored.
func checkTeam(tx hub.Tx, op string, actor hub.Caller, msg *hub.Message) error {
	if msg.Team == "" {
		return nil
	}
	t, err := teamOf(tx, op, actor, hub.TeamID(msg.Team))
	if err != nil || msg.Policy.Visibility != hub.VisibilityTeam {
		return err
	}
	if msg.Broadcast() {
		return hub.Errorf(hub.CodePolicy, op, "a message to everyone cannot be visible to team %s alone", t.ID).WithHint("send it to team:%s, or leave team out", t.ID)
	}
	for _, id := range msg.To {
		m, err := tx.Teamspaces().Members(hub.MemberQuery{Team: t.ID, Agent: id, Limit: 1})
		if err != nil {
			return err
		}
		if len(m) == 0 && id != hub.Operator {
			return hub.Errorf(hub.CodePolicy, op, "%s is not a member of team %s", id, t.ID).WithHint("a message with visibility team goes to members only; leave team out to write to others")
		}
	}
	return nil
}

// readsAsMember reports CodeNotFound unless the actor may read a message as a member of
// its team: as one of now, or as one of the time when it was sent. The members do not
// read a message that is held back from a recipient.
func readsAsMember(r hub.Reader, op string, actor hub.Caller, msg hub.Message) error {
	if msg.Team != "" && msg.Policy.Visibility == hub.VisibilityTeam {
		spans, err := r.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(msg.Team), Agent: actor.ID, Ended: true, Limit: 1000})
		if err != nil {
			return err
		}
		parties, err := r.Parties(msg.ID)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(spans, func(m hub.Member) bool { return m.Reads(msg.CreatedAt) }) && !slices.ContainsFunc(parties, func(p hub.Party) bool { return p.Hidden }) {
			return nil
		}
	}
	return notVisible(op, msg.ID)
}

// coordinatorsOf returns the coordinators of a team, except one agent; if there are
// none, those of the hub.
func coordinatorsOf(r hub.Reader, team string, except hub.AgentID) ([]hub.AgentID, error) {
	var out []hub.AgentID
	if team != "" {
		all, err := r.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(team), Limit: maxTeam})
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			if m.Role == hub.RoleCoordinator && m.Agent != except {
				out = append(out, m.Agent)
			}
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return coordinators(r, except)
}

// blockedTo returns the recipients of the status of an agent that is blocked and names
// neither a team nor recipients: the coordinators of the teams in which it has work,
// else those of the hub.
func blockedTo(r hub.Reader, agent hub.AgentID) ([]hub.AgentID, error) {
	tasks, err := r.Teamspaces().Tasks(hub.TaskQuery{Owner: agent, States: []hub.TaskState{hub.TaskAssigned, hub.TaskInProgress, hub.TaskInReview, hub.TaskRework, hub.TaskBlocked}, Limit: 100})
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	var out []hub.AgentID
	for _, t := range tasks {
		all, err := coordinatorsOf(r, string(t.Team), agent)
		if err != nil {
			return nil, err
		}
		out = append(out, all...)
	}
	return unique(out), nil
}
