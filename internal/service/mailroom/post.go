package mailroom

import (
	"cmp"
	"context"

	"github.com/parley-agents/parley/hub"
)

// Recipient returns an agent. It reports CodeUnknownRecipient, with the nearest names,
// if there is no agent of that name.
func (m *Mailroom) Recipient(ctx context.Context, id hub.AgentID) (hub.Agent, error) {
	a, _, err := m.directory.Lookup(ctx, id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Agent{}, m.unknownRecipient(ctx, "mailroom.Recipient", id)
	}
	return a, err
}

// Post writes a message that another service makes on an actor's behalf, inside
// that service's transaction. The caller chooses To, Type, Payload, ThreadID,
// Priority and Policy; all of it must be valid, and To must be known agents.
// fresh is true for a message that starts a conversation: then the limits of the actor
// are checked, and it must be allowed to join the thread. After the commit the caller
// announces the message.
func (m *Mailroom) Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error) {
	const op = "mailroom.Post"
	e.ID = m.ids.Next()
	e.Protocol, e.Version, e.From, e.Status, e.CreatedAt = hub.Protocol, hub.Version, actor.ID, hub.StatusPending, e.ID.Time()
	e.Context, _ = runtimeContext(actor, e.Context, nil)
	if err := e.Validate(); err != nil {
		return hub.Message{}, err
	}
	msg := hub.Message{Envelope: e}
	if fresh {
		if err := m.checkJoin(tx, op, actor, e.ThreadID); err != nil {
			return hub.Message{}, err
		}
		if err := m.checkContact(tx, op, &msg, msg.To); err != nil {
			return hub.Message{}, err
		}
		if err := m.guard(tx, op, actor, &msg); err != nil {
			return hub.Message{}, err
		}
	}
	out, err := m.writeKnown(tx, msg)
	return out.message, err
}

// Tell writes an alarm of the hub to the coordinators, except the agent that it is
// about. Over the limit of the hub nothing is written, and the returned message has no
// id.
func (m *Mailroom) Tell(tx hub.Tx, about hub.AgentID, t hub.MessageType, thread string, payload any) (hub.Message, error) {
	to, err := coordinators(tx, about)
	if err != nil {
		return hub.Message{}, err
	}
	out, err := m.system(tx, hub.PriorityHigh, to, t, "", thread, payload)
	return out.message, err
}

// TellOperator writes a message of the hub to the operator. Over the limit of the hub
// nothing is written, and the returned message has no id.
func (m *Mailroom) TellOperator(tx hub.Tx, payload any) (hub.Message, error) {
	out, err := m.system(tx, hub.PriorityNormal, []hub.AgentID{hub.Operator}, hub.TypeSystemError, "", "", payload)
	return out.message, err
}

// AskOperator writes a question to the operator, about the thing that waits for the answer.
// Over the limit of the hub nothing is written, and the returned message has no id.
func (m *Mailroom) AskOperator(tx hub.Tx, question string, about hub.NoticeSubject) (hub.Message, error) {
	payload := map[string]any{"question": question, hub.NoticeMember: about}
	out, err := m.system(tx, hub.PriorityNormal, []hub.AgentID{hub.Operator}, hub.TypeKnowledgeQuery, "", "", payload)
	return out.message, err
}

// Announce wakes the long polls of the recipients of messages that Post and Tell
// wrote.
func (m *Mailroom) Announce(messages ...hub.Message) {
	for _, msg := range messages {
		if msg.ID == "" {
			continue // it has no recipient now
		}
		m.recount(msg.From)
		for _, id := range msg.To {
			m.notifyInbox(id)
		}
	}
	m.bus.Publish(hub.TopicJournal)
}

// Unread counts the unread messages of an inbox, up to 25, for other services.
func (m *Mailroom) Unread(ctx context.Context, agent hub.AgentID) (int, error) {
	return m.unread(ctx, agent)
}

// Warnings returns the warnings that every answer of the hub carries, for other
// services.
func (m *Mailroom) Warnings() []string { return m.warn(nil) }

// Notify writes a message of the hub that is promised to its recipients, inside the
// transaction of another service. The caller chooses To, Type, Priority, Payload, ThreadID,
// Team, ReplyTo and Context; high priority makes it an alarm; the recipients may read the artifacts in it. None is dropped: beyond
// 60 notices a minute a recipient gets one message that lists the rest. A message that no
// recipient gets now has no id. After the commit the caller announces the message.
func (m *Mailroom) Notify(tx hub.Tx, e hub.Envelope) (_ hub.Message, err error) {
	if e.To = unique(e.To); e.Context == nil { // an artifact is no line of a list
		e.CreatedAt = m.clock.Now()
		if e.To, err = m.postpone(tx, e); err != nil || len(e.To) == 0 {
			return hub.Message{}, err
		}
	}
	return m.notify(tx, e)
}

// notify writes a message of the hub.
func (m *Mailroom) notify(tx hub.Tx, e hub.Envelope) (hub.Message, error) {
	e.ID = m.ids.Next()
	e.Protocol, e.Version, e.From, e.Status, e.CreatedAt = hub.Protocol, hub.Version, hub.Self, hub.StatusPending, e.ID.Time()
	e.Priority = cmp.Or(e.Priority, hub.PriorityNormal)
	e.ThreadID = cmp.Or(e.ThreadID, string(e.ID))
	if e.Policy == (hub.Policy{}) {
		e.Policy = hub.DefaultPolicy
	}
	if err := e.Validate(); err != nil {
		return hub.Message{}, err
	}
	out, err := m.writeKnown(tx, hub.Message{Envelope: e})
	if err != nil || e.Context == nil {
		return out.message, err
	}
	for _, ref := range e.Context.Artifacts {
		for _, id := range e.To {
			if err := tx.AddArtifactReader(ref.SHA256, id); err != nil {
				return hub.Message{}, err
			}
		}
	}
	return out.message, nil
}
