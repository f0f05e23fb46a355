package deliberation

import (
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A moving is a possible message of an open deliberation while it is applied to the
// deliberation and to the pair of agents that it belongs to.
type moving struct {
	s     *Service
	tx    hub.Tx
	msg   *hub.Message
	terms terms
	by    hub.AgentID
	now   hub.Time

	d          hub.Deliberation
	p          hub.Pair
	next       hub.DeliberationState
	escalation *escalation // if the message leads to one, next is not used
}

// An escalation hands a deliberation to deciders; to is nil for those of the hub's choice.
type escalation struct {
	to     []hub.AgentID
	due    hub.Time
	reason string
}

// applications has the effect of each type of message. Any other is an answer to a challenge.
var applications = map[hub.MessageType]func(*moving) error{
	hub.TypeTaskAccept:        (*moving).accept,
	hub.TypeTaskDecline:       (*moving).decline,
	hub.TypeTaskCounter:       (*moving).counter,
	hub.TypePositionChallenge: (*moving).challenge,
	hub.TypePositionConcede:   (*moving).concede,
	hub.TypePositionEscalate:  (*moving).escalate,
}

// note enters the message in its pair: its author, and that the author has read all before.
func (m *moving) note() {
	m.p.State = m.p.After(m.msg.Type, m.by)
	m.p.Sequence = *m.msg.Sequence
	m.p.Turn = m.by
	m.p.Last = m.msg.ID
	m.p.At = m.now
	if m.by == m.d.From {
		m.p.OpenerRead = m.p.Sequence
	} else {
		m.p.AddressedRead = m.p.Sequence
	}

	m.d.DueAt = m.now.Add(m.s.response)
	if !m.d.RespondBy.IsZero() {
		m.d.DueAt = m.d.RespondBy
	}
}

// apply applies the effect of the message.
func (m *moving) apply() error {
	if do, ok := applications[m.msg.Type]; ok {
		return do(m)
	}
	m.keepPair()
	m.next = openState(m.d)
	return nil
}

func (m *moving) keepPair() { m.d = m.d.WithPair(m.p) }

// accept claims an offer, with conditions that its sender must accept first if there are any.
func (m *moving) accept() error {
	if err := m.s.offerable(m.tx, m.d, m.p.Agent); err != nil {
		return err
	}
	m.next = hub.TalkAccepted
	if m.d.ClaimedBy == "" {
		m.d.ClaimedBy = m.p.Agent
		m.d.ClaimedAt = m.now
	}
	if len(m.terms.Conditions) > 0 {
		m.next = hub.TalkConditional
		m.p.State = hub.TalkConditional
		m.d.Conditions = m.terms.Conditions
		m.d.DueAt = m.now.Add(m.s.response)
	}
	m.keepPair()
	return nil
}

// decline ends the pair. The decline of conditions ends the offer: it was claimed.
func (m *moving) decline() error {
	conditional := m.d.State == hub.TalkConditional
	m.keepPair()
	m.next = openState(m.d)
	if conditional {
		m.next = hub.TalkDeclined
	}
	return nil
}

// counter begins another round. Beyond the limit of rounds a decider ends it.
func (m *moving) counter() error {
	m.p.Rounds++
	m.keepPair()
	m.next = hub.TalkCountered
	if m.p.Rounds > m.s.rounds[m.d.Kind] {
		m.escalation = &escalation{due: m.now.Add(m.s.response), reason: "the limit on counters is reached"}
	}
	return nil
}

// challenge begins another round. A blocking one needs a decision at once.
func (m *moving) challenge() error {
	m.p.Rounds++
	if slices.Index(hub.Severities, m.terms.Severity) > slices.Index(hub.Severities, m.p.Severity) {
		m.p.Severity = m.terms.Severity
	}
	m.keepPair()
	m.next = openState(m.d)
	if m.terms.Severity == "blocking" {
		m.escalation = &escalation{due: m.now.Add(m.s.response), reason: "the challenge is blocking"}
	}
	return nil
}

// concede ends the pair. The opener concedes for all pairs.
func (m *moving) concede() error {
	m.keepPair()
	m.next = openState(m.d)
	if m.by == m.d.From {
		m.next = hub.TalkConceded
	}
	if m.next != hub.TalkConceded {
		return nil
	}
	m.d.Outcome = fmt.Sprintf("%s conceded: %s", m.by, m.terms.Changed)
	if m.terms.RevisedPosition != "" {
		m.d.Outcome += " The position is now: " + m.terms.RevisedPosition
	}
	return nil
}

// escalate asks the agent that the message names to decide.
func (m *moving) escalate() error {
	m.keepPair()
	due := m.now.Add(m.s.response)
	if !m.terms.Deadline.IsZero() {
		due = m.terms.Deadline
	}
	m.escalation = &escalation{to: []hub.AgentID{m.terms.EscalateTo}, due: due, reason: m.terms.Reason}
	return nil
}
