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
	out := []Contact{}
	if err := m.survey(ctx); err != nil {
		return nil, fmt.Errorf("mailroom: contacts: %w", err)
	}
	err := m.store.View(ctx, func(r hub.Reader) error { return m.contacts(r, actor, &out) })
	if err != nil {
		return nil, fmt.Errorf("mailroom: contacts: %w", err)
	}
	return out, nil
}

func (m *Mailroom) contacts(r hub.Reader, actor hub.Caller, out *[]Contact) error {
	all, err := r.Agents()
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.ID == actor.ID {
			continue
		}
		if len(*out) == maxContacts {
			break
		}
		keyed, err := m.directory.HasKey(r, a.ID)
		if err != nil {
			return err
		}
		reach, err := m.reach(r, a.ID, keyed)
		if err != nil {
			return err
		}
		*out = append(*out, Contact{ID: a.ID, Role: a.Role, Can: a.Can, Reach: reach})
	}
	return nil
}

// roster adds the actor and the other agents to an answer.
func (m *Mailroom) roster(ctx context.Context, actor hub.Caller, to *Inbox) {
	to.You = actor.ID
	var err error
	if to.Contacts, err = m.Contacts(ctx, actor); err != nil && ctx.Err() == nil {
		// The messages are marked already, and would be lost with an error.
		m.log.Warn("an inbox was answered without contacts", "actor", actor.ID, "err", err)
	}
}
