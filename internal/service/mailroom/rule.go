package mailroom

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/contact"
)

// maxRule is the most names in one list of a rule for contact.
const maxRule = 100

// A ContactChange changes the rule for contact with an agent.
type ContactChange struct {
	Agent    hub.AgentID
	From     []hub.AgentID // nil to keep the list, hub.Everyone alone for everyone
	WakeFrom []hub.AgentID
	Open     bool // remove the rule
}

// ContactRules returns the rules for contact with agents.
func (m *Mailroom) ContactRules(ctx context.Context) (contact.Rules, error) {
	return hub.Read(ctx, m.store, func(r hub.Reader) (contact.Rules, error) { return contact.Read(r) })
}

// SetContact changes the rule for contact with an agent. Only the operator may. An agent
// that may wake may write, too: it is added to the list of those.
func (m *Mailroom) SetContact(ctx context.Context, actor hub.Caller, c ContactChange) (contact.Rule, error) {
	const op = "mailroom.SetContact"
	if err := actor.OperatorOnly(op); err != nil {
		return contact.Rule{}, err
	}
	if c.Open && (c.From != nil || c.WakeFrom != nil) {
		return contact.Rule{}, hub.Errorf(hub.CodeInvalid, op, "open cannot be combined with from or wake_from").WithHint("leave from and wake_from out")
	}
	if _, err := m.Recipient(ctx, c.Agent); err != nil {
		return contact.Rule{}, err
	}
	for _, list := range [][]hub.AgentID{c.From, c.WakeFrom} {
		if err := m.checkRule(ctx, op, list); err != nil {
			return contact.Rule{}, err
		}
	}

	// An empty rule is the default and is not stored.
	var rule contact.Rule
	err := m.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		rules, err := contact.Read(tx)
		if err != nil {
			return err
		}
		if rules == nil {
			rules = contact.Rules{}
		}
		rule = c.apply(rules[c.Agent])
		if rules[c.Agent] = rule; len(rule.From)+len(rule.WakeFrom) == 0 {
			delete(rules, c.Agent)
		}
		if err := rules.Write(tx); err != nil {
			return err
		}
		return record(tx, m.clock.Now(), actor, actions.ContactRule, string(c.Agent), rule)
	})
	if err != nil {
		return contact.Rule{}, fmt.Errorf("mailroom: contact: %w", err)
	}
	m.bus.Publish(hub.TopicJournal)
	return rule, nil
}

// apply returns a rule after the change.
func (c ContactChange) apply(rule contact.Rule) contact.Rule {
	if c.Open {
		return contact.Rule{}
	}
	set := func(list *[]hub.AgentID, given []hub.AgentID) {
		switch {
		case given == nil:
		case slices.Contains(given, hub.Everyone):
			*list = nil
		default:
			*list = unique(given)
		}
	}
	set(&rule.From, c.From)
	set(&rule.WakeFrom, c.WakeFrom)
	if len(rule.From) > 0 {
		rule.From = unique(slices.Concat(rule.From, rule.WakeFrom))
	}
	return rule
}

// checkRule refuses names in a rule that are neither an agent nor a team of the hub nor a source
// of events.
func (m *Mailroom) checkRule(ctx context.Context, op string, list []hub.AgentID) error {
	if len(list) > maxRule {
		return hub.Errorf(hub.CodeInvalid, op, "a rule can have at most %d names", maxRule).WithHint("create a team of these agents and name it as team:NAME")
	}
	for _, id := range list {
		if id == hub.Everyone {
			continue
		}
		if _, isSource := id.Source(); isSource {
			continue // it may be added later
		}
		team, ok := id.Team()
		if !ok {
			if _, err := m.Recipient(ctx, id); err != nil {
				return err
			}
			continue
		}
		_, err := hub.Read(ctx, m.store, func(r hub.Reader) (hub.Team, error) { return r.Teamspaces().Team(team) })
		if hub.CodeOf(err) == hub.CodeNotFound {
			return hub.Errorf(hub.CodeNotFound, op, "no team named %q on this hub", team).WithHint("{team.list} lists the teams")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkContact refuses a message to an agent that takes none from its sender. An answer to
// a message of that agent passes.
func (m *Mailroom) checkContact(tx hub.Tx, op string, msg *hub.Message, to []hub.AgentID) error {
	rules, err := contact.Read(tx)
	if err != nil || len(rules) == 0 {
		return err
	}
	asked := hub.AgentID("")
	if msg.ReplyTo != "" {
		parent, err := tx.Message(msg.ReplyTo)
		if err != nil {
			return err
		}
		asked = parent.From
	}
	for _, id := range to {
		ok, err := rules.MayWrite(tx, msg.From, id)
		if err != nil {
			return err
		}
		if !ok && id != asked {
			return closedError(op, msg.From, id, rules[id])
		}
	}
	return nil
}

// closedError is the error for a message to an agent that takes none from its sender.
func closedError(op string, from, to hub.AgentID, rule contact.Rule) error {
	return hub.Errorf(hub.CodeDenied, op, "%s takes messages only from %s; you are %s", to, JoinTo(rule.From), from).
		WithHint("write to one of them; to get access, {contact} %s --from %s,%s", to, strings.ReplaceAll(JoinTo(rule.From), ", ", ","), from)
}

// dropClosed returns the agents that take messages of a sender, and those that do not. A
// message to everyone, to a team or to a group goes to the first alone.
func (m *Mailroom) dropClosed(ctx context.Context, op string, from hub.AgentID, to []hub.AgentID) (open, closed []hub.AgentID, err error) {
	err = m.store.View(ctx, func(r hub.Reader) error {
		rules, err := contact.Read(r)
		if err != nil || len(rules) == 0 {
			open = to
			return err
		}
		for _, id := range to {
			ok, err := rules.MayWrite(r, from, id)
			if err != nil {
				return err
			}
			if !ok {
				closed = append(closed, id)
				continue
			}
			open = append(open, id)
		}
		if len(open) == 0 && len(closed) > 0 {
			return closedError(op, from, closed[0], rules[closed[0]])
		}
		return nil
	})
	return open, closed, err
}

// closedWarning says which agents a message to many did not go to.
func closedWarning(closed []hub.AgentID) string {
	verb := "takes"
	if len(closed) > 1 {
		verb = "take"
	}
	names := JoinTo(closed[:min(len(closed), maxMissing)])
	return fmt.Sprintf("not sent to %s, which %s no messages from you", cmp.Or(names, "-"), verb)
}

// quietReason returns why a message may not wake its recipient by the recipient's rule, ""
// if it may.
func quietReason(r hub.Reader, rules contact.Rules, from, to hub.AgentID) (string, error) {
	ok, err := rules.MayWake(r, from, to)
	if ok || err != nil {
		return "", err
	}
	return fmt.Sprintf("%s may not wake %s", from, to), nil
}
