package mailroom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/nearest"
)

// place finds the message's thread and checks what it refers to.
func (m *Mailroom) place(tx hub.Tx, op string, actor hub.Caller, msg *hub.Message) error {
	switch {
	case msg.ReplyTo != "":
		parent, err := m.visible(tx, op, actor, msg.ReplyTo)
		if err != nil {
			return err
		}
		if parent.Type.Family() == "system" {
			return hub.Errorf(hub.CodePolicy, op, "%s is from the hub itself and is not answered", parent.ID)
		}
		if msg.ThreadID != "" && msg.ThreadID != parent.ThreadID {
			return hub.Errorf(hub.CodeInvalid, op, "thread_id: %s is in thread %s", parent.ID, parent.ThreadID).
				WithHint("leave thread_id out of a reply")
		}
		msg.ThreadID = parent.ThreadID
	case msg.ThreadID == "":
		msg.ThreadID = string(msg.ID)
	default:
		if err := m.joins(tx, op, actor, msg.ThreadID); err != nil {
			return err
		}
	}
	if msg.Type == hub.TypeKnowledgeResponse {
		return m.answers(tx, op, actor, msg.Payload)
	}
	return nil
}

// visible returns a message that the actor may see. What it may not see does
// not exist for it.
func (m *Mailroom) visible(r hub.Reader, op string, actor hub.Caller, id hub.EnvelopeID) (hub.Message, error) {
	msg, err := r.Message(id)
	hidden := false
	if err == nil && !actor.Audits() {
		var p hub.Party
		p, err = r.Party(id, actor.ID)
		hidden = p.Hidden
	}
	if hidden || hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Message{}, hub.Errorf(hub.CodeNotFound, op, "there is no message %q that you can see", id).
			WithHint("acp_query lists your messages")
	}
	return msg, err
}

// joins checks that the actor has a part in a thread that exists, so that
// strangers can neither fill nor follow it.
func (m *Mailroom) joins(tx hub.Tx, op string, actor hub.Caller, thread string) error {
	if actor.Audits() {
		return nil
	}
	n, err := tx.ThreadSize(thread, 1)
	if err != nil || n == 0 {
		return err
	}
	page, err := tx.Query(hub.Query{Viewer: actor.ID, Thread: thread, Limit: 1})
	if err == nil && len(page.Messages) == 0 {
		return hub.Errorf(hub.CodeDenied, op, "the thread %s is between others", thread).WithHint("leave thread_id out to begin a new thread")
	}
	return err
}

// answers checks that a knowledge.response names a question the actor can see.
func (m *Mailroom) answers(tx hub.Tx, op string, actor hub.Caller, payload json.RawMessage) error {
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

// A recipient is somebody the message goes to, and whether it can log in.
type recipient struct {
	agent hub.Agent
	keyed bool
}

// recipients looks up everybody whom the message is for. A broadcast is for
// those who are there now, except its sender.
func (m *Mailroom) recipients(ctx context.Context, op string, actor hub.Caller, e hub.Envelope) ([]recipient, error) {
	to := e.To
	if e.Broadcast() {
		all, err := m.agents(ctx)
		if err != nil {
			return nil, err
		}
		to = nil
		for _, a := range all {
			if a.ID != actor.ID {
				to = append(to, a.ID)
			}
		}
		if len(to) == 0 {
			return nil, hub.Errorf(hub.CodeUnknownRecipient, op, "there is nobody else on this hub").WithHint("add agents with: parley agent add NAME")
		}
	}
	out := make([]recipient, len(to))
	for i, id := range to {
		a, keyed, err := m.directory.Lookup(ctx, id)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return nil, m.unknownRecipient(ctx, op, id)
		}
		if err != nil {
			return nil, err
		}
		out[i] = recipient{a, keyed}
	}
	return out, nil
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
	e := hub.Errorf(hub.CodeUnknownRecipient, op, "nobody on this hub is called %q", id)
	names := func(yield func(hub.AgentID) bool) {
		for _, a := range all {
			if !yield(a.ID) {
				return
			}
		}
	}
	if near := nearest.Names(id, names, 3); len(near) > 0 {
		return e.WithHint("did you mean %s?", joinNames(near))
	}
	return e.WithHint("parley agent list shows who is there")
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

// sentFacts is what the journal keeps of a message: never its payload.
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

// digest returns what the journal keeps of a payload.
func digest(payload json.RawMessage) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// factsOf returns what the journal keeps of a message to so many recipients.
func factsOf(msg hub.Message, recipients int) (json.RawMessage, error) {
	return json.Marshal(sentFacts{
		Type: msg.Type, To: msg.To, Recipients: recipients, ThreadID: msg.ThreadID, ReplyTo: msg.ReplyTo, Priority: msg.Priority,
		Policy: msg.Policy, Payload: digest(msg.Payload), Bytes: len(msg.Payload), Hop: msg.Hop, Cause: msg.Cause, Digest: msg.Digest(),
	})
}

// write stores a message with its ledger and journal entry and returns what is
// known of each way to each recipient. facts is what factsOf says of it.
func (m *Mailroom) write(tx hub.Tx, msg hub.Message, to []recipient, facts json.RawMessage) ([]Leg, error) {
	held := msg.Policy.HumanGate == hub.GateRequired
	state := hub.PartyUnread
	if held {
		state = hub.PartyHeld
	}
	parties := make([]hub.Party, 0, len(to)+1)
	self := false
	for _, r := range to {
		parties = append(parties, hub.Party{Agent: r.agent.ID, State: state})
		self = self || r.agent.ID == msg.From
	}
	if !self {
		parties = append(parties, hub.Party{Agent: msg.From, State: hub.PartySender})
	}
	if err := tx.AddMessage(msg, parties); err != nil {
		return nil, err
	}
	var legs []Leg
	for _, r := range to {
		for _, d := range m.route(msg.Envelope, r.agent.ID) {
			if _, err := tx.AddDelivery(d); err != nil {
				return nil, err
			}
			legs = append(legs, m.leg(d, r.keyed))
		}
	}
	action := hub.ActionMessageSent
	if held {
		action = hub.ActionMessageHeld
	}
	_, err := tx.Append(hub.Entry{
		At: msg.CreatedAt, Actor: msg.From, Action: action, Subject: string(msg.ID), Outcome: hub.OutcomeOK, Facts: facts,
	})
	return legs, err
}

// answered marks the message that the actor replies to as processed by it.
func (m *Mailroom) answered(tx hub.Tx, actor hub.Caller, id hub.EnvelopeID) error {
	p, err := tx.Party(id, actor.ID)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil // an auditor's comment
	}
	if err != nil || p.State != hub.PartyUnread && p.State != hub.PartyDelivered {
		return err
	}
	_, err = m.advance(tx, actor, id, hub.PartyRead, m.clock.Now())
	return err
}

// advance moves a recipient's copy up to next, step by step, and with it the
// ledger, the message and the journal. It reports whether anything moved.
func (m *Mailroom) advance(tx hub.Tx, actor hub.Caller, id hub.EnvelopeID, next hub.PartyState, now hub.Time) (bool, error) {
	p, err := tx.Party(id, actor.ID)
	if err != nil {
		return false, err
	}
	moved := false
	for _, step := range []struct {
		state  hub.PartyState
		action hub.Action
		ledger func(*hub.Delivery)
	}{
		{hub.PartyDelivered, hub.ActionMessageDelivered, func(d *hub.Delivery) { d.Status, d.DeliveredAt = hub.DeliveryOffered, now }},
		{hub.PartyRead, hub.ActionMessageRead, func(d *hub.Delivery) { d.Status, d.ReadAt = hub.DeliveryRead, now }},
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
		if step.state == hub.PartyRead {
			if _, err := tx.MarkProcessed(id, actor.ID, now); err != nil {
				return moved, err
			}
		}
		if _, err := tx.Append(hub.Entry{At: now, Actor: actor.ID, Action: step.action, Subject: string(id), Outcome: hub.OutcomeOK}); err != nil {
			return moved, err
		}
		if err := settle(tx, id, now); err != nil {
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

// settle brings the status of a message in line with that of its recipients.
func settle(tx hub.Tx, id hub.EnvelopeID, now hub.Time) error {
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
	return tx.PutStatus(e, was)
}

// system writes a message of the hub's own. It counts against nobody's limit
// but the hub's, and over that it is dropped: what it says is in the journal.
func (m *Mailroom) system(tx hub.Tx, to []hub.AgentID, t hub.MessageType, about hub.EnvelopeID, thread string, payload any) (sent, error) {
	const perMinute = 60
	id := m.ids.Next()
	now := id.Time()
	recent, err := tx.SentSince(hub.Self, now.Add(-time.Minute), perMinute)
	if err != nil || len(recent) >= perMinute {
		return sent{}, err
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return sent{}, err
	}
	if thread == "" {
		thread = string(id)
	}
	msg := hub.Message{Envelope: hub.Envelope{
		ID: id, Protocol: hub.Protocol, Version: hub.Version, From: hub.Self, To: to, ThreadID: thread, ReplyTo: about, Type: t,
		Priority: hub.PriorityNormal, Status: hub.StatusPending, Payload: raw, Policy: hub.DefaultPolicy, CreatedAt: now,
	}}
	recipients := make([]recipient, len(to))
	for i, a := range to {
		recipients[i] = recipient{agent: hub.Agent{ID: a}, keyed: true}
	}
	facts, err := factsOf(msg, len(recipients))
	if err != nil {
		return sent{}, err
	}
	legs, err := m.write(tx, msg, recipients, facts)
	return sent{message: msg, legs: legs}, err
}
