package mailroom

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/contact"
)

// Every message takes one path, whoever writes it:
//
//	compose   the hub sets id, sender, time and status, and fills in what was left out
//	check     the message is held to the rules of its writer, in the transaction
//	save      message, parties, ledger and journal entry are stored, in the same transaction
//	announce  the long polls of its readers are woken, after the commit
//
// Send composes before its transaction, since it looks up recipients, and announces after it.
// Post, Notify, Tell and the other writers for services call put, which checks and saves in
// the transaction of the service; the service calls Announce after its commit.

// A writer is a way to write messages: the rules that check holds them to.
type writer struct {
	agent    bool // every rule for a message of an agent: thread, team, contact, negotiation, limits
	opens    bool // the rules for a message that starts a conversation: thread, contact, limits
	form     bool // the envelope is valid as a whole
	bounded  bool // beyond the limit of the hub the message is dropped, since the journal holds the same facts
	promised bool // beyond the limit of a recipient the message is listed later, and never dropped
}

// The writers.
var (
	bySend    = writer{agent: true}                // Send, which checks the form before its transaction
	byOpening = writer{form: true, opens: true}    // Post, for a message that starts a conversation
	byPost    = writer{form: true}                 // Post, for every other
	byNotice  = writer{form: true, promised: true} // Notify
	byList    = writer{form: true}                 // the list of notices that came late
	bySystem  = writer{bounded: true}              // Tell, TellOperator, AskOperator, and the hub's answers about messages
	byCopy    = writer{}                           // copies for subscribers: the message was checked when it was sent
)

// An outgoing is a message on its path.
type outgoing struct {
	writer
	op     string
	actor  hub.Caller // on whose behalf it is written
	msg    hub.Message
	to     []recipient     // nil if To are agents that exist
	facts  json.RawMessage // of the journal entry; nil if save is to compute them
	sharer *hub.Caller     // who shares the artifacts of the message with its readers; nil if nobody does

	// Set by check.
	admission hub.Admission // of a message of a negotiation or disagreement
	dropped   bool          // the message is not to be saved
}

// A sendResult is a saved message with the forecasts of its deliveries.
type sendResult struct {
	message   hub.Message
	short     hub.ShortID
	forecasts []Forecast
	readers   []hub.AgentID // who may read it now
	again     bool          // an earlier message with the same idempotency key
	admission hub.Admission
}

// compose returns the message of an envelope: the hub sets id, sender, time and status, and
// fills in version, priority and policy if they were left out.
func (m *Mailroom) compose(from hub.AgentID, e hub.Envelope) hub.Message {
	e.ID = m.ids.Next()
	e.From = from
	e.CreatedAt = e.ID.Time()
	e.UpdatedAt = hub.Time{}
	e.Status = hub.StatusPending

	e.Protocol = hub.Protocol
	e.Version = cmp.Or(e.Version, hub.Version)
	e.Priority = cmp.Or(e.Priority, hub.PriorityNormal)
	if e.Policy == (hub.Policy{}) {
		e.Policy = hub.DefaultPolicy
	}
	return hub.Message{Envelope: e}
}

// check holds a message to the rules of its writer. It sets the thread, and the sequence, the
// cause and the hop of a message of an agent. A message that is to be dropped is no error.
func (m *Mailroom) check(tx hub.Tx, o *outgoing) (err error) {
	if o.agent {
		return m.checkAgent(tx, o)
	}
	o.msg.ThreadID = cmp.Or(o.msg.ThreadID, string(o.msg.ID))
	if o.form {
		if err := o.msg.Validate(); err != nil {
			return err
		}
	}

	switch {
	case o.opens:
		return m.checkOpening(tx, o)
	case o.bounded:
		o.dropped, err = m.overLimit(tx, o.msg.CreatedAt)
	case o.promised:
		o.msg.To, err = m.postpone(tx, o.msg.Envelope)
		o.dropped = len(o.msg.To) == 0
	}
	return err
}

// checkAgent checks a message that an agent wrote. An acceptance of an offer that another
// agent has is dropped.
func (m *Mailroom) checkAgent(tx hub.Tx, o *outgoing) (err error) {
	if err := m.resolveThread(tx, o.op, o.actor, &o.msg); err != nil {
		return err
	}
	if err := checkTeam(tx, o.op, o.actor, &o.msg); err != nil {
		return err
	}
	if err := m.checkContact(tx, o.op, &o.msg, agentIDs(o.to)); err != nil {
		return err
	}
	if o.msg.Type.Negotiates() {
		o.admission, err = m.moderator.Admit(tx, o.actor, &o.msg, agentIDs(o.to))
		o.dropped = o.admission.Claimed
		if err != nil || o.dropped {
			return err
		}
	}
	return m.guard(tx, o.op, o.actor, &o.msg)
}

// checkOpening checks a message of a service that starts a conversation for an agent.
func (m *Mailroom) checkOpening(tx hub.Tx, o *outgoing) error {
	if err := m.checkJoin(tx, o.op, o.actor, o.msg.ThreadID); err != nil {
		return err
	}
	if err := m.checkContact(tx, o.op, &o.msg, o.msg.To); err != nil {
		return err
	}
	return m.guard(tx, o.op, o.actor, &o.msg)
}

// overLimit reports whether the hub wrote as many messages in the last minute as it may.
func (m *Mailroom) overLimit(tx hub.Tx, now hub.Time) (bool, error) {
	const perMinute = 60
	recent, err := tx.Sent(hub.SentFilter{From: hub.Self, Since: now.Add(-time.Minute), Limit: perMinute})
	return len(recent) >= perMinute, err
}

// save stores a message with its parties, its ledger rows, its journal entry and the readers
// of its artifacts.
func (m *Mailroom) save(tx hub.Tx, o *outgoing) (out sendResult, err error) {
	if o.to == nil {
		o.to = known(o.msg.To)
	}

	// The recipients of a held message cannot read it before it is approved.
	out.message = o.msg
	held := o.msg.Policy.HumanGate == hub.GateRequired
	if !held {
		out.readers = agentIDs(o.to)
	}

	if err := tx.AddMessage(o.msg, partiesOf(o.msg, o.to)); err != nil {
		return sendResult{}, err
	}
	if out.forecasts, err = m.addDeliveries(tx, o.msg, o.to); err != nil {
		return sendResult{}, err
	}

	if o.facts == nil {
		if o.facts, err = factsOf(o.msg, len(o.to)); err != nil {
			return sendResult{}, err
		}
	}
	action := actions.MessageSent
	if held {
		action = actions.MessageHeld
	}
	if _, err = tx.Append(hub.Caller{ID: o.msg.From}.Entry(o.msg.CreatedAt, action, string(o.msg.ID), o.facts)); err != nil {
		return sendResult{}, err
	}

	if o.sharer == nil {
		return out, nil
	}
	return out, m.shareMessage(tx, *o.sharer, o.msg, out.readers)
}

// announce wakes the long polls of the readers of saved messages. It is called after the
// commit.
func (m *Mailroom) announce(saved ...sendResult) {
	for _, s := range saved {
		for _, id := range s.readers {
			m.notifyInbox(id)
		}
	}
	m.bus.Publish(hub.TopicJournal)
}

// put checks a message and saves it, in the transaction of a caller that announces it after
// the commit. The result for a message that is dropped has no id.
func (m *Mailroom) put(tx hub.Tx, o outgoing) (sendResult, error) {
	if err := m.check(tx, &o); err != nil || o.dropped {
		return sendResult{}, err
	}
	return m.save(tx, &o)
}

// known returns agents that exist as recipients.
func known(ids []hub.AgentID) []recipient {
	out := make([]recipient, len(ids))
	for i, id := range ids {
		out[i] = recipient{id, true}
	}
	return out
}

// partiesOf returns the parties of a new message: its recipients, and its sender.
func partiesOf(msg hub.Message, to []recipient) []hub.Party {
	state := hub.PartyUnread
	if msg.Policy.HumanGate == hub.GateRequired {
		state = hub.PartyHeld
	}
	out := make([]hub.Party, 0, len(to)+1)
	self := false
	for _, r := range to {
		out = append(out, hub.Party{Agent: r.agent, State: state})
		self = self || r.agent == msg.From
	}
	if !self {
		out = append(out, hub.Party{Agent: msg.From, State: hub.PartySender})
	}
	return out
}

// addDeliveries stores the first ledger rows of a message and returns their forecasts.
func (m *Mailroom) addDeliveries(tx hub.Tx, msg hub.Message, to []recipient) (forecasts []Forecast, err error) {
	rules, err := contact.Read(tx)
	if err != nil {
		return nil, err
	}
	for _, r := range to {
		quiet, err := quietReason(tx, rules, msg.From, r.agent)
		if err != nil {
			return nil, err
		}
		rows, some, err := m.route(tx, msg, r, quiet)
		if err != nil {
			return nil, err
		}
		for _, d := range rows {
			if err := tx.AddDelivery(d); err != nil {
				return nil, err
			}
		}
		forecasts = append(forecasts, some...)
	}
	return forecasts, nil
}
