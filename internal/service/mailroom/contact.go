package mailroom

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// A Contact is another agent of the hub, as an agent that chooses a recipient needs
// to know it.
type Contact struct {
	ID    hub.AgentID `json:"id"`
	Role  hub.Role    `json:"role"`
	Can   []string    `json:"can,omitempty"` // its abilities
	Reach hub.Reach   `json:"reach"`         // now if it waits for messages
}

// maxContacts is the most contacts in an answer.
const maxContacts = 50

// Contacts returns the other agents of the hub by name, at most 50. The operator is
// one of them.
func (m *Mailroom) Contacts(ctx context.Context, actor hub.Caller) ([]Contact, error) {
	all, err := m.agents(ctx)
	if err != nil {
		return nil, fmt.Errorf("mailroom: contacts: %w", err)
	}
	out := []Contact{}
	for _, a := range all {
		if a.ID == actor.ID {
			continue
		}
		if len(out) == maxContacts {
			break
		}
		_, keyed, err := m.directory.Lookup(ctx, a.ID)
		if err != nil {
			return nil, fmt.Errorf("mailroom: contacts: %w", err)
		}
		row := hub.Delivery{Recipient: a.ID, Channel: hub.ChannelInbox, Status: hub.DeliveryStored}
		out = append(out, Contact{ID: a.ID, Role: a.Role, Can: a.Can, Reach: m.forecast(row, keyed).Reach})
	}
	return out, nil
}

// roster adds the actor and the other agents to an answer.
func (m *Mailroom) roster(ctx context.Context, actor hub.Caller, to *Inbox) (err error) {
	to.You = actor.ID
	to.Contacts, err = m.Contacts(ctx, actor)
	return err
}
