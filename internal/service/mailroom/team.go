package mailroom

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// maxTeam is the most members of a team that a message reaches.
const maxTeam = 201

// addressTeam puts the members of a team in the place of a recipient team:ID, and fills
// in the visibility of a message for a team that names none.
func (m *Mailroom) addressTeam(ctx context.Context, op string, actor hub.Caller, d *Draft) error {
	for _, id := range d.To {
		team, ok := id.Team()
		switch {
		case !ok:
			continue
		case len(d.To) > 1:
			return hub.Errorf(hub.CodeInvalid, op, "to: %s stands alone", id).WithHint("send to the team, or name its members")
		case d.Team != "" && d.Team != string(team):
			return hub.Errorf(hub.CodeInvalid, op, "team: %s is not the team %s of the recipient", d.Team, team)
		}
		d.Team, d.whole = string(team), true
	}
	if d.Team == "" || !m.features[hub.FeatureTeamspaces] {
		return nil
	}
	return m.store.View(ctx, func(r hub.Reader) error {
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
		all, err := r.Members(hub.MemberQuery{Team: t.ID, Limit: maxTeam})
		if err != nil {
			return err
		}
		d.To = nil
		for _, member := range all {
			if member.Agent != actor.ID {
				d.To = append(d.To, member.Agent)
			}
		}
		if len(d.To) == 0 {
			return hub.Errorf(hub.CodeUnknownRecipient, op, "the team %s has no other member", t.ID)
		}
		d.wide = len(d.To) > m.limits.Recipients
		if d.wide && !actor.IsOperator() && !d.Priority.Urgent() && !slices.ContainsFunc(all, func(x hub.Member) bool { return x.Agent == actor.ID && x.Role == hub.RoleCoordinator }) {
			return hub.Errorf(hub.CodeDenied, op, "only a coordinator of the team %s may write to all its %d members with this priority", t.ID, len(all)).
				WithHint("name the recipients, or use priority high if all members must know now")
		}
		return nil
	})
}

// teamOf returns a team that the actor may write to: one that it is a member of. To
// others it reports the same error as for one that does not exist.
func teamOf(r hub.Reader, op string, actor hub.Caller, id hub.TeamID) (hub.Team, error) {
	t, err := r.Team(id)
	if err == nil && !actor.IsOperator() {
		var m []hub.Member
		if m, err = r.Members(hub.MemberQuery{Team: id, Agent: actor.ID, Limit: 1}); err == nil && len(m) == 0 {
			err = hub.Errorf(hub.CodeNotFound, op, "no member")
		}
	}
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return t, hub.Errorf(hub.CodeNotFound, op, "%s is a member of no team %q", actor.ID, id).WithHint("{team.list} lists yours")
	case err == nil && t.ReadOnly():
		return t, hub.Errorf(hub.CodeConflict, op, "the team %s is %s: nothing is sent to it", id, t.Lifecycle)
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
	if err != nil || msg.Policy.Visibility != hub.VisibilityTeam || msg.Broadcast() {
		return err
	}
	for _, id := range msg.To {
		m, err := tx.Members(hub.MemberQuery{Team: t.ID, Agent: id, Limit: 1})
		if err != nil {
			return err
		}
		if len(m) == 0 && id != hub.Operator {
			return hub.Errorf(hub.CodePolicy, op, "%s is no member of the team %s", id, t.ID).WithHint("a message that is visible to a team goes to its members; leave team out to write to others")
		}
	}
	return nil
}
