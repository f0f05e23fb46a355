package mailroom

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// A Presence is the state of an agent: whether it may send, its waiting mail, and
// when a message would reach it.
type Presence struct {
	Suspended bool      `json:"suspended,omitempty"` // because it repeated itself
	Reach     hub.Reach `json:"reach"`

	// For the operator, auditors and the agent itself.
	Unread int      `json:"unread,omitempty"`       // counted up to 25
	Oldest hub.Time `json:"oldest_unread,omitzero"` // among the 50 most pressing unread messages
	Active hub.Time `json:"-"`                      // its newest message or, if it is newer, its newest step among the last of the journal
}

const (
	presenceInbox   = 50   // unread messages that are read to find the oldest
	presenceJournal = 1000 // entries of the journal that are read to find the last steps of agents
)

// Presences returns how agents stand. It costs one pass over the newest entries of
// the journal, and a few index reads for each agent.
func (m *Mailroom) Presences(ctx context.Context, actor hub.Caller, agents []hub.AgentID) (map[hub.AgentID]Presence, error) {
	out := make(map[hub.AgentID]Presence, len(agents))
	now := m.clock.Now()
	if err := m.survey(ctx, agents...); err != nil {
		return nil, fmt.Errorf("mailroom: presence: %w", err)
	}

	err := m.store.View(ctx, func(r hub.Reader) error {
		steps, err := lastSteps(r)
		if err != nil {
			return err
		}
		for _, id := range agents {
			keyed, err := m.directory.HasKey(r, id)
			if err != nil {
				return err
			}

			var p Presence
			if p.Reach, err = m.reach(r, id, keyed); err != nil {
				return err
			}
			err = m.suspended(r, "mailroom.Presences", hub.Caller{ID: id}, now)
			if p.Suspended = hub.CodeOf(err) == hub.CodeCircuitOpen; err != nil && !p.Suspended {
				return err
			}

			// The inbox and the activity of an agent are for the agent itself and for auditors.
			if actor.Audits() || actor.ID == id {
				if err := m.fillPresence(r, id, now, &p); err != nil {
					return err
				}
				if at := steps[id]; at.After(p.Active.Time) {
					p.Active = at
				}
			}
			out[id] = p
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("mailroom: presence: %w", err)
	}
	return out, nil
}

// lastSteps returns the time of the newest entry of each actor, among the newest of
// the journal.
func lastSteps(r hub.Reader) (map[hub.AgentID]hub.Time, error) {
	entries, err := r.Journal(hub.JournalQuery{Newest: true, Limit: presenceJournal})
	steps := map[hub.AgentID]hub.Time{}
	for _, e := range entries {
		if e.At.After(steps[e.Actor].Time) {
			steps[e.Actor] = e.At
		}
	}
	return steps, err
}

// fillPresence adds the unread messages of an agent and the time of its newest one
// that it sent.
func (m *Mailroom) fillPresence(r hub.Reader, id hub.AgentID, now hub.Time, p *Presence) (err error) {
	if p.Unread, err = r.CountMessages(hub.CountFilter{Inbox: id, Limit: maxUnread}); err != nil {
		return err
	}
	page, err := r.Inbox(id, hub.InboxFilter{Limit: presenceInbox, Now: now})
	if err != nil {
		return err
	}
	for _, msg := range page.Messages {
		if p.Oldest.IsZero() || msg.CreatedAt.Before(p.Oldest.Time) {
			p.Oldest = msg.CreatedAt
		}
	}
	sent, err := r.Sent(hub.SentFilter{From: id, Limit: 1})
	if len(sent) > 0 {
		p.Active = sent[0].At
	}
	return err
}
