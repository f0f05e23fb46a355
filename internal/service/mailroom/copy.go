package mailroom

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	copyWindow  = 10 * time.Second // copies that match in it become available together
	statusAgain = 5 * time.Minute  // a status with the same text is copied once in it
	copyBatch   = 500
)

// An audience is the agents that may get copies, and their subscriptions.
type audience struct {
	agents        []hub.Agent
	subscriptions map[hub.AgentID][]hub.Subscription
}

// matches returns the copies that the messages of journal entries call for. A held
// message matches when it is approved.
func matches(r hub.Reader, entries []hub.Entry) (out []hub.Copy, err error) {
	var to *audience
	for _, e := range entries {
		// Private messages and types that are never copied are skipped without reading them.
		if e.Action == actions.MessageSent {
			var facts sentFacts
			if err := json.Unmarshal(e.Facts, &facts); err != nil || facts.Policy.Visibility == hub.VisibilityPrivate || !facts.Type.Copied() {
				continue // an entry of another version calls for none
			}
		} else if e.Action != actions.MessageApproved {
			continue
		}

		msg, err := r.Message(hub.EnvelopeID(e.Subject))
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound:
			continue // archived
		case err != nil:
			return nil, err
		case msg.CopyOf() != nil || !msg.Type.Copied():
			continue
		}

		// The audience is read once, and only if some message is copied at all.
		if to == nil {
			if to, err = newAudience(r); err != nil {
				return nil, err
			}
		}
		if out, err = to.match(r, msg, e.At, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func newAudience(r hub.Reader) (*audience, error) {
	a := &audience{subscriptions: map[hub.AgentID][]hub.Subscription{}}
	var err error
	if a.agents, err = r.Agents(); err != nil {
		return nil, err
	}
	all, err := r.Subscriptions("")
	for _, s := range all {
		a.subscriptions[s.Agent] = append(a.subscriptions[s.Agent], s)
	}
	return a, err
}

// match appends the copies of one message that matched at a time.
func (a *audience) match(r hub.Reader, msg hub.Message, at hub.Time, out []hub.Copy) ([]hub.Copy, error) {
	roles, err := rolesOf(r, msg)
	if err != nil {
		return out, err
	}
	parties, err := r.Parties(msg.ID)
	if err != nil {
		return out, err
	}

	// The digest of a status lets expect drop a repeated one.
	status := ""
	if msg.Type.Family() == "status" {
		status = digest(slices.Concat([]byte(msg.From), []byte(msg.Type), msg.Payload))
	}

	for _, agent := range a.agents {
		if !readsCopy(agent, msg, roles) || slices.ContainsFunc(parties, func(p hub.Party) bool { return p.Agent == agent.ID }) {
			continue
		}

		// The first subscription that matches decides; else the role or the abilities of the
		// agent do.
		by := ""
		i := slices.IndexFunc(a.subscriptions[agent.ID], func(s hub.Subscription) bool {
			return !s.CreatedAt.After(at.Time) && s.Filter.Matches(msg.Envelope)
		})
		switch {
		case i >= 0:
			by = a.subscriptions[agent.ID][i].ID
		case agent.ID == hub.Operator && msg.Policy.Visibility == hub.VisibilityAudit:
			by = hub.CopyByVisibility
		case agent.ID == hub.Operator: // a person asks for other copies
		case roles[agent.ID] == hub.RoleCoordinator && (msg.Type == hub.TypeStatusBlocked || msg.Type == hub.TypePositionEscalate):
			by = hub.CopyByRole
		case agent.Role == hub.RoleCoordinator && msg.Type == hub.TypePositionEscalate:
			by = hub.CopyByRole
		case msg.Type == hub.TypeKnowledgePush && slices.Contains(agent.Can, msg.TopicOf()):
			by = hub.CopyByCapability
		}

		if by != "" {
			out = append(out, hub.Copy{Agent: agent.ID, Message: msg.ID, By: by, Text: status, At: at, DueAt: at.Add(copyWindow)})
		}
	}
	return out, nil
}

// rolesOf returns the roles of the members that may read a message as such.
func rolesOf(r hub.Reader, msg hub.Message) (map[hub.AgentID]hub.Role, error) {
	if msg.Policy.Visibility != hub.VisibilityTeam {
		return nil, nil
	}
	all, err := r.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(msg.Team), Limit: maxTeam})
	roles := make(map[hub.AgentID]hub.Role, len(all))
	for _, m := range all {
		roles[m.Agent] = m.Role
	}
	return roles, err
}

// readsCopy reports whether an agent may get a copy of a message: a copy never shows a
// message to an agent that could not read the message itself, and never a private one.
func readsCopy(agent hub.Agent, msg hub.Message, roles map[hub.AgentID]hub.Role) bool {
	_, isMember := roles[agent.ID]
	isAuditor := agent.Auditor && msg.Policy.Sensitivity != hub.SensitivityHigh
	return msg.Policy.Visibility != hub.VisibilityPrivate && (isMember || isAuditor || agent.ID == hub.Operator)
}

// expect stores the copies that are to be made. Those of an agent that match in one
// window have one due time.
func expect(tx hub.Tx, list []hub.Copy) error {
	for _, c := range list {
		if c.Text != "" {
			recent, err := tx.Copies(hub.CopyQuery{Agent: c.Agent, Text: c.Text, Since: c.At.Add(-statusAgain), Limit: 1})
			if err != nil {
				return err
			}
			if len(recent) > 0 {
				continue
			}
		}
		waiting, err := tx.Copies(hub.CopyQuery{Agent: c.Agent, Waiting: true, Limit: copyBatch})
		if err != nil {
			return err
		}
		for _, w := range waiting {
			if c.At.Before(w.DueAt.Time) && w.DueAt.Before(c.DueAt.Time) {
				c.DueAt = w.DueAt
			}
		}
		if err := tx.AddCopy(c); err != nil && hub.CodeOf(err) != hub.CodeConflict { // one is enough
			return err
		}
	}
	return nil
}

// makeCopies writes the copies whose window has ended, those of an agent together.
func (m *Mailroom) makeCopies(ctx context.Context, store hub.Store, now hub.Time) error {
	due, err := hub.Read(ctx, store, func(r hub.Reader) ([]hub.Copy, error) {
		return r.Copies(hub.CopyQuery{Waiting: true, Due: now, Limit: copyBatch})
	})
	if err != nil {
		return fmt.Errorf("mailroom: look for copies: %w", err)
	}

	// Neighbouring copies of one agent are written in one transaction.
	for len(due) > 0 {
		agent := due[0].Agent
		n := slices.IndexFunc(due, func(c hub.Copy) bool { return c.Agent != agent })
		if n < 0 {
			n = len(due)
		}

		err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
			a, err := tx.Agent(agent)
			if err != nil {
				return err
			}
			for _, c := range due[:n] {
				if err := m.makeCopy(tx, a, c, now); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("mailroom: copies for %s: %w", agent, err)
		}

		m.recount(agent)
		m.announce(sendResult{readers: []hub.AgentID{agent}})
		due = due[n:]
	}
	return nil
}

// makeCopy writes a copy to the inbox of its agent, unless the agent may not read the
// message any more, or the message has expired or lost its text.
func (m *Mailroom) makeCopy(tx hub.Tx, agent hub.Agent, c hub.Copy, now hub.Time) error {
	msg, err := tx.Message(c.Message)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	roles, err2 := rolesOf(tx, msg)
	if err2 != nil {
		return err2
	}
	isExpired := !msg.ExpiresAt.IsZero() && !msg.ExpiresAt.After(now.Time)
	isGone := err != nil || msg.IsForgotten() || isExpired
	if isGone || !readsCopy(agent, msg, roles) {
		return tx.PutCopy(c.Agent, c.Message, "")
	}
	e := msg.Envelope
	e.To = []hub.AgentID{c.Agent}
	e.ThreadID = ""
	e.ReplyTo = ""
	e.Policy = hub.Policy{Visibility: hub.VisibilityPrivate, Sensitivity: msg.Policy.Sensitivity, HumanGate: hub.GateNone}
	e.Context = &hub.Context{CopyOf: &hub.CopyMark{Message: msg.ID, From: msg.From, By: c.By}}
	if msg.Context != nil {
		e.Context.ExternalRefs, e.Context.Artifacts = msg.Context.ExternalRefs, msg.Context.Artifacts
	}

	// The chain of causes goes on through a copy.
	copied := m.compose(hub.Self, e)
	copied.Hop = msg.Hop
	copied.Cause = msg.ID
	sharer := hub.Caller{ID: msg.From, Auditor: msg.From == hub.Self}
	if _, err := m.put(tx, outgoing{writer: byCopy, msg: copied, sharer: &sharer}); err != nil {
		return err
	}
	return tx.PutCopy(c.Agent, c.Message, copied.ID)
}
