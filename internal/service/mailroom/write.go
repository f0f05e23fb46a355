package mailroom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/nearest"
)

// resolveThread sets the thread of a message and checks its references.
func (m *Mailroom) resolveThread(tx hub.Tx, op string, actor hub.Caller, msg *hub.Message) error {
	switch {
	case msg.ReplyTo != "":
		parent, err := m.visible(tx, op, actor, msg.ReplyTo)
		if err != nil {
			return err
		}
		if err := answerable(op, parent); err != nil {
			return err
		}
		if msg.ThreadID != "" && msg.ThreadID != parent.ThreadID {
			return hub.Errorf(hub.CodeInvalid, op, "thread_id does not match: %s is in thread %s", parent.ID, parent.ThreadID).
				WithHint("leave thread_id out of a reply")
		}
		msg.ThreadID = parent.ThreadID
	case msg.ThreadID == "":
		msg.ThreadID = string(msg.ID)
	default:
		if err := m.checkJoin(tx, op, actor, msg.ThreadID); err != nil {
			return err
		}
	}
	if msg.Type == hub.TypeKnowledgeResponse {
		return m.checkQuestion(tx, op, actor, msg.Payload)
	}
	return nil
}

// answerable refuses an answer to a message of the hub about a call, and to a copy.
func answerable(op string, parent hub.Message) error {
	if c := parent.CopyOf(); c != nil {
		return hub.Errorf(hub.CodePolicy, op, "%s is a copy and cannot be answered", parent.ID).WithHint("write to %s", c.From)
	}
	if parent.Type.Family() == "system" {
		return hub.Errorf(hub.CodePolicy, op, "%s is from the hub and cannot be answered", parent.ID)
	}
	if _, isEvent := parent.From.Source(); isEvent {
		return hub.Errorf(hub.CodePolicy, op, "%s is an event from outside and cannot be answered here", parent.ID).WithHint("acknowledge it with {inbox.ack}; answer where it happened, if your task asks for it")
	}
	return nil
}

// visible returns a message that the actor may see, as the actor may read it. To others it
// reports the same error as for one that does not exist.
func (m *Mailroom) visible(r hub.Reader, op string, actor hub.Caller, id hub.EnvelopeID) (hub.Message, error) {
	msg, err := r.Message(id)
	hidden := false
	if err == nil && !actor.Audits() {
		var p hub.Party
		p, err = party(r, id, actor.ID)
		hidden = p.Hidden
		if hub.CodeOf(err) == hub.CodeNotFound {
			err = readsAsMember(r, op, actor, msg)
		}
	}
	if hidden || hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Message{}, notVisible(op, id)
	}
	if err != nil {
		return msg, err
	}
	isWithheld, err := withheld(r, op, actor, msg)
	if isWithheld {
		msg.Envelope = msg.Withheld()
	}
	return msg, err
}

// withheld reports whether the actor may read a message only without its text: the text is of
// high sensitivity, and the actor reads it as an auditor, neither as a party nor as a member of
// its team.
func withheld(r hub.Reader, op string, actor hub.Caller, msg hub.Message) (bool, error) {
	if !msg.WithheldFrom(actor) {
		return false, nil
	}
	p, err := party(r, msg.ID, actor.ID)
	if hub.CodeOf(err) == hub.CodeNotFound {
		err = readsAsMember(r, op, actor, msg)
	}
	if hub.CodeOf(err) == hub.CodeNotFound {
		return true, nil
	}
	return p.Hidden, err
}

// party returns one party of a message. It reports CodeNotFound when the message
// does not concern the agent.
func party(r hub.MessageReader, id hub.EnvelopeID, agent hub.AgentID) (hub.Party, error) {
	found, err := r.Parties(id, agent)
	if err != nil {
		return hub.Party{}, err
	}
	return found[0], nil
}

// notVisible is the error for a message that does not exist, or that the caller may
// not see.
func notVisible(op string, id hub.EnvelopeID) error {
	return hub.Errorf(hub.CodeNotFound, op, "no message %q that you can see", id).WithHint("{query} lists your messages")
}

// agentIDs returns the names of recipients.
func agentIDs(to []recipient) []hub.AgentID {
	out := make([]hub.AgentID, len(to))
	for i, r := range to {
		out[i] = r.agent
	}
	return out
}

// checkJoin refuses a message to an existing thread in which the actor has no part, so
// that other agents can neither fill nor follow it.
func (m *Mailroom) checkJoin(tx hub.Tx, op string, actor hub.Caller, thread string) error {
	if actor.Audits() {
		return nil
	}
	n, err := tx.CountMessages(hub.CountFilter{Thread: thread, Limit: 1})
	if err != nil || n == 0 {
		return err
	}
	page, err := tx.Query(hub.Query{Viewer: actor.ID, Thread: thread, Limit: 1})
	if err == nil && len(page.Messages) == 0 {
		return hub.Errorf(hub.CodeDenied, op, "thread %s belongs to other agents", thread).WithHint("leave thread_id out to start a new thread")
	}
	return err
}

// checkQuestion checks that a knowledge.response names a question that the actor can
// see.
func (m *Mailroom) checkQuestion(tx hub.Tx, op string, actor hub.Caller, payload json.RawMessage) error {
	var p struct {
		QueryID hub.EnvelopeID `json:"query_id"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "payload: %v", err)
	}
	question, err := m.visible(tx, op, actor, p.QueryID)
	if err != nil {
		return err
	}
	if question.Type != hub.TypeKnowledgeQuery {
		return hub.Errorf(hub.CodeInvalid, op, "payload.query_id: %s is a %s, not a knowledge.query", question.ID, question.Type)
	}
	return nil
}

// A recipient is an agent that gets a message.
type recipient struct {
	agent hub.AgentID
	keyed bool // it can log in
}

// recipients looks up the recipients of a message. Those of a broadcast are all agents
// that exist now, except its sender and closed: those that take no messages of the sender.
func (m *Mailroom) recipients(ctx context.Context, op string, actor hub.Caller, e hub.Envelope) (out []recipient, closed []hub.AgentID, err error) {
	to := e.To
	// A broadcast reaches every other agent whose rule for contact admits the sender.
	if e.Broadcast() {
		all, err := m.agents(ctx)
		if err != nil {
			return nil, nil, err
		}
		to = nil
		for _, a := range all {
			if a.ID != actor.ID {
				to = append(to, a.ID)
			}
		}
		if len(to) == 0 {
			return nil, nil, hub.Errorf(hub.CodeUnknownRecipient, op, "no other agents on this hub").WithHint("{agent.add} NAME")
		}
		if to, closed, err = m.dropClosed(ctx, op, actor.ID, to); err != nil {
			return nil, nil, err
		}
	}

	out = make([]recipient, len(to))
	for i, id := range to {
		keyed, err := m.directory.Keyed(ctx, id)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return nil, nil, m.unknownRecipient(ctx, op, id)
		}
		if err != nil {
			return nil, nil, err
		}
		out[i] = recipient{id, keyed}
	}
	return out, closed, nil
}

func (m *Mailroom) agents(ctx context.Context) (all []hub.Agent, err error) {
	err = m.store.View(ctx, func(r hub.Reader) (err error) {
		all, err = r.Agents()
		return err
	})
	return all, err
}

func (m *Mailroom) unknownRecipient(ctx context.Context, op string, id hub.AgentID) error {
	all, err := m.agents(ctx)
	if err != nil {
		return err
	}
	e := hub.Errorf(hub.CodeUnknownRecipient, op, "no agent named %q on this hub", id)
	names := func(yield func(hub.AgentID) bool) {
		for _, a := range all {
			if !yield(a.ID) {
				return
			}
		}
	}
	list := JoinTo(slices.Collect(names))
	if len(all) > maxContacts {
		list = "in {agents}"
	}
	if near := nearest.Names(id, names, 3); len(near) > 0 {
		return e.WithHint("did you mean %s? the agents are %s", joinNames(near), list)
	}
	return e.WithHint("the agents are %s", list)
}

func joinNames(ids []hub.AgentID) string {
	s := ""
	for i, id := range ids {
		switch {
		case i > 0 && i == len(ids)-1:
			s += " or "
		case i > 0:
			s += ", "
		}
		s += string(id)
	}
	return s
}

// sentFacts are the facts of the journal entry for a message, never its payload.
type sentFacts struct {
	Type       hub.MessageType `json:"type"`
	To         []hub.AgentID   `json:"to"`
	Recipients int             `json:"recipients"`
	ThreadID   string          `json:"thread_id"`
	ReplyTo    hub.EnvelopeID  `json:"reply_to,omitempty"`
	Priority   hub.Priority    `json:"priority"`
	Policy     hub.Policy      `json:"policy"`
	Payload    string          `json:"payload_sha256"`
	Bytes      int             `json:"payload_bytes"`
	Hop        int             `json:"hop,omitempty"`
	Cause      hub.EnvelopeID  `json:"cause,omitempty"`
	Digest     string          `json:"sha256"` // of everything in the envelope that never changes
}

// digest returns the SHA-256 of a payload in hexadecimal.
func digest(payload json.RawMessage) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// factsOf returns the facts of the journal entry for a message.
func factsOf(msg hub.Message, recipients int) (json.RawMessage, error) {
	return json.Marshal(sentFacts{
		Type: msg.Type, To: msg.To, Recipients: recipients, ThreadID: msg.ThreadID, ReplyTo: msg.ReplyTo, Priority: msg.Priority,
		Policy: msg.Policy, Payload: digest(msg.Payload), Bytes: len(msg.Payload), Hop: msg.Hop, Cause: msg.Cause, Digest: msg.Digest(),
	})
}

// MarkRead marks a message in the inbox of the actor as read: it has answered the
// message, or dealt with its subject. The caller announces a message after the
// commit, so that the inbox is counted again.
func (m *Mailroom) MarkRead(tx hub.Tx, actor hub.Caller, id hub.EnvelopeID) error {
	p, err := party(tx, id, actor.ID)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil // an auditor comments on a message of others
	}
	if err != nil || (p.State != hub.PartyUnread && p.State != hub.PartyDelivered) {
		return err
	}
	_, err = m.advance(tx, actor, id, hub.PartyRead, m.clock.Now())
	return err
}

// advance moves the state of a recipient up to next, step by step, together with the
// ledger, the status of the message and the journal. It reports whether the state
// changed.
func (m *Mailroom) advance(tx hub.Tx, actor hub.Caller, id hub.EnvelopeID, next hub.PartyState, now hub.Time) (bool, error) {
	p, err := party(tx, id, actor.ID)
	if err != nil {
		return false, err
	}

	moved := false
	for _, step := range []struct {
		state  hub.PartyState
		action actions.Action
		ledger func(*hub.Delivery)
	}{
		{hub.PartyDelivered, actions.MessageDelivered, func(d *hub.Delivery) { d.Status, d.DeliveredAt = hub.DeliveryOffered, now }},
		{hub.PartyRead, actions.MessageRead, func(d *hub.Delivery) { d.Status, d.ReadAt = hub.DeliveryRead, now }},
	} {
		if !p.State.CanBecome(step.state) {
			if p.State == next {
				break
			}
			continue
		}

		if err := tx.PutParty(id, actor.ID, step.state, p.State); err != nil {
			return moved, err
		}
		p.State, moved = step.state, true
		if err := updateLedger(tx, id, actor.ID, hub.ChannelInbox, step.ledger); err != nil {
			return moved, err
		}

		// Reading a message counts as processing it.
		if step.state == hub.PartyRead {
			if _, err := tx.MarkProcessed(id, actor.ID, now); err != nil {
				return moved, err
			}
		}

		if err := record(tx, now, actor, step.action, string(id), nil); err != nil {
			return moved, err
		}
		if err := updateStatus(tx, id, now); err != nil {
			return moved, err
		}

		if step.state == next {
			break
		}
	}
	return moved, nil
}

// updateLedger changes the newest row of a message for one recipient and
// channel.
func updateLedger(tx hub.Tx, id hub.EnvelopeID, agent hub.AgentID, c hub.Channel, change func(*hub.Delivery)) error {
	ledger, err := tx.Deliveries(id)
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(ledger) {
		if d.Recipient == agent && d.Channel == c {
			change(&d)
			return tx.PutDelivery(d)
		}
	}
	return nil
}

// updateStatus sets the status of a message to the one that follows from the states of
// its recipients.
func updateStatus(tx hub.Tx, id hub.EnvelopeID, now hub.Time) error {
	msg, err := tx.Message(id)
	if err != nil {
		return err
	}
	parties, err := tx.Parties(id)
	if err != nil {
		return err
	}
	want := hub.StatusFor(parties)
	if want == msg.Status {
		return nil
	}
	was := msg.Status
	e, err := msg.Envelope.Advance(want, now)
	if err != nil {
		return nil // the status never moves backwards
	}
	if err := tx.PutStatus(e, was); err != nil || want == hub.StatusDelivered {
		return err
	}
	return endAwait(tx, msg.Envelope)
}

// record writes a journal entry about a success. facts may be nil.
func record(tx hub.Tx, at hub.Time, actor hub.Caller, action actions.Action, subject string, facts any) error {
	_, err := tx.Append(actor.Entry(at, action, subject, facts))
	return err
}
