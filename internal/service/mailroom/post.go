package mailroom

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/contact"
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
	by := byPost
	if fresh {
		by = byOpening
	}
	e.Context, _ = runtimeContext(actor, e.Context, nil)
	out, err := m.put(tx, outgoing{writer: by, op: "mailroom.Post", actor: actor, msg: m.compose(actor.ID, e)})
	return out.message, err
}

// Notify writes a message of the hub that is promised to its recipients, inside the
// transaction of another service. The caller chooses To, Type, Priority, Payload, ThreadID,
// Team, ReplyTo and Context; high priority makes it an alarm; the recipients may read the artifacts in it. None is dropped: beyond
// 60 notices a minute a recipient gets one message that lists the rest. A message that no
// recipient gets now has no id. After the commit the caller announces the message.
func (m *Mailroom) Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error) {
	return m.notify(tx, byNotice, e)
}

// notify writes a message of the hub with its artifacts.
func (m *Mailroom) notify(tx hub.Tx, by writer, e hub.Envelope) (hub.Message, error) {
	e.To = unique(e.To)
	out, err := m.put(tx, outgoing{writer: by, msg: m.compose(hub.Self, e), sharer: &hub.Caller{ID: hub.Self, Auditor: true}})
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
	out, err := m.system(tx, hub.Envelope{To: to, Type: t, Priority: hub.PriorityHigh, ThreadID: thread}, payload)
	return out.message, err
}

// TellOperator writes a message of the hub to the operator. Over the limit of the hub
// nothing is written, and the returned message has no id.
func (m *Mailroom) TellOperator(tx hub.Tx, payload any) (hub.Message, error) {
	out, err := m.system(tx, hub.Envelope{To: []hub.AgentID{hub.Operator}, Type: hub.TypeSystemError}, payload)
	return out.message, err
}

// AskOperator writes a question to the operator, about the thing that waits for the answer.
// Over the limit of the hub nothing is written, and the returned message has no id.
func (m *Mailroom) AskOperator(tx hub.Tx, question string, about hub.NoticeSubject) (hub.Message, error) {
	payload := map[string]any{"question": question, hub.NoticeMember: about}
	out, err := m.system(tx, hub.Envelope{To: []hub.AgentID{hub.Operator}, Type: hub.TypeKnowledgeQuery}, payload)
	return out.message, err
}

// system writes a message of the hub, which is dropped over the limit of the hub.
func (m *Mailroom) system(tx hub.Tx, e hub.Envelope, payload any) (sendResult, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return sendResult{}, err
	}
	e.Payload = raw
	return m.put(tx, outgoing{writer: bySystem, msg: m.compose(hub.Self, e)})
}

// MayWrite reports whether an agent takes messages of a sender, by its rule for contact.
func (m *Mailroom) MayWrite(rd hub.Reader, from, to hub.AgentID) (bool, error) {
	rules, err := contact.Read(rd)
	if err != nil {
		return false, err
	}
	return rules.MayWrite(rd, from, to)
}

// Announce wakes the long polls of the recipients of messages that Post, Notify and Tell
// wrote, after the commit.
func (m *Mailroom) Announce(messages ...hub.Message) {
	var saved []sendResult
	for _, msg := range messages {
		if msg.ID == "" {
			continue // it has no recipient now
		}
		m.recount(msg.From)
		saved = append(saved, sendResult{message: msg, readers: msg.To})
	}
	m.announce(saved...)
}

// Unread counts the unread messages of an inbox, up to 25, for other services.
func (m *Mailroom) Unread(ctx context.Context, agent hub.AgentID) (int, error) {
	return m.unread(ctx, agent)
}

// Warnings returns the warnings that every answer of the hub carries, for other
// services.
func (m *Mailroom) Warnings() []string { return m.warn(nil) }
