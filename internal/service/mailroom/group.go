package mailroom

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// groupPrefix begins a recipient that is a group: all agents with an ability.
const groupPrefix = "@"

// maxAbilities is the most abilities that a hint names.
const maxAbilities = 20

// addressGroups puts the active agents with an ability in the place of a recipient
// @ABILITY, without the sender and those that take no messages of it.
func (m *Mailroom) addressGroups(ctx context.Context, op string, actor hub.Caller, d *Draft) error {
	if !slices.ContainsFunc(d.To, func(id hub.AgentID) bool { return strings.HasPrefix(string(id), groupPrefix) }) {
		return nil
	}
	all, err := m.agents(ctx)
	if err != nil {
		return err
	}

	// Every group becomes its members; other recipients stay as they are.
	var to []hub.AgentID
	for _, id := range d.To {
		ability, ok := strings.CutPrefix(string(id), groupPrefix)
		if !ok {
			to = append(to, id)
			continue
		}
		members, err := groupMembers(op, actor, all, ability)
		if err != nil {
			return err
		}
		open, closed, err := m.dropClosed(ctx, op, actor.ID, members)
		if err != nil {
			return err
		}
		to, d.closed = append(to, open...), append(d.closed, closed...)
	}

	d.To, d.closed = unique(to), unique(d.closed)
	d.wide = d.wide || len(d.To) > m.limits.Recipients
	if d.wide && !actor.Coordinates() && !d.Priority.Urgent() {
		return hub.Errorf(hub.CodeDenied, op, "only a coordinator can write to %d agents with this priority", len(d.To)).
			WithHint("name the recipients, or use priority high if all of them must know now")
	}
	return nil
}

// groupMembers returns the active agents with an ability, without the sender. It reports
// CodeUnknownRecipient when there is none.
func groupMembers(op string, actor hub.Caller, all []hub.Agent, ability string) (out []hub.AgentID, err error) {
	var abilities []string
	for _, a := range all {
		if a.ID == actor.ID || a.ID == hub.Operator || a.State != hub.AgentActive {
			continue
		}
		abilities = append(abilities, a.Can...)
		if slices.Contains(a.Can, ability) {
			out = append(out, a.ID)
		}
	}
	if len(out) > 0 {
		return out, nil
	}

	slices.Sort(abilities)
	abilities = slices.Compact(abilities)
	refusal := hub.Errorf(hub.CodeUnknownRecipient, op, "no other active agent has the ability %q", ability)
	if len(abilities) == 0 {
		return nil, refusal.WithHint("no other agent has an ability; {agents} lists the agents")
	}
	return nil, refusal.WithHint("the other agents' abilities are %s", hub.JoinWords(abilities[:min(len(abilities), maxAbilities)]))
}
