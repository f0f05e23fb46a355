package wake

import (
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

const (
	maxHops    = 8 // messages that caused a message one after the other, before it starts no turn
	maxAnswers = 6 // answers of a pair to each other in a row, before the next starts no turn
	maxRounds  = 4 // the same for three agents and more: each round is a turn of every agent
)

// loop returns the message that began the conversation of a message, and why the message must
// wait for a person before it starts a turn; "" if it need not. A message knows its cause: the message that it answers, or that its sender
// read last. So each turn that a wake started lengthens the chain by one; a message
// of the operator begins a new one. The walk stays within one conversation, see together,
// and reads at most maxAnswers messages.
//
// The walk counts rounds. In one round an agent may take several turns, because answers of
// several agents come one after the other; so the turns of the recipient for the same first
// message are counted, too.
func (a *agentRecord) loop(m hub.Message) (root hub.EnvelopeID, held string, err error) {
	to := a.agent
	if released := a.account.Released; !released.IsZero() && !m.CreatedAt.After(released.Time) {
		return m.ID, "", nil
	}
	if m.Hop > maxHops {
		return m.ID, fmt.Sprintf("loop: %d messages in a row without a person", m.Hop) + released(to), nil
	}
	early := m.Hop < maxRounds && a.wakes.turnsFor("") < maxRounds
	group, err := parties(a.rd, m, to, early)
	if err != nil {
		return "", "", err
	}

	first := m
	for n := 0; first.Cause != "" && !changesTask(first.Type); n++ {
		switch {
		case len(group) > 2 && n+1 >= maxRounds:
			return m.ID, fmt.Sprintf("loop: %d agents answered each other %d times", len(group), maxRounds) + released(to), nil
		case n+1 >= maxAnswers:
			return m.ID, fmt.Sprintf("loop: %s and %s answered each other %d times", m.From, to, maxAnswers) + released(to), nil
		}
		cause, err := a.rd.Message(first.Cause)
		if hub.CodeOf(err) == hub.CodeNotFound { // archived
			break
		}
		if err != nil {
			return "", "", err
		}
		if !together(m, cause, group) {
			break
		}
		if !slices.Contains(group, cause.From) {
			group = append(group, cause.From)
		}
		first = cause
	}

	// A short chain can hide many turns of one agent in a group, so they are counted, too.
	if len(group) > 2 && first.ID != m.ID && a.wakes.turnsFor(first.ID) >= maxRounds {
		return first.ID, fmt.Sprintf("loop: %d turns of %s for one message among %d agents", maxRounds, to, len(group)) + released(to), nil
	}
	return first.ID, "", nil
}

// answerTime is the time within which messages with one cause count as one answer to
// several agents.
const answerTime = 10 * time.Minute

// parties returns the agents that an answer concerns: its sender and its recipients, and
// those of the other messages with which the sender answered the same message. A message
// early in a chain is never held for their number, so the others are not looked up.
func parties(rd hub.Reader, m hub.Message, to hub.AgentID, early bool) ([]hub.AgentID, error) {
	out := []hub.AgentID{m.From, to}
	add := func(ids []hub.AgentID) {
		for _, id := range ids {
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	add(m.To)
	if early {
		return out, nil
	}
	sent, err := rd.Query(hub.Query{Audit: true, From: m.From, Since: m.CreatedAt.Add(-answerTime), Limit: maxAnswers * maxRounds})
	for _, other := range sent.Messages {
		if other.Cause == m.Cause {
			add(other.To)
		}
	}
	return out, err
}

// together reports whether a message and one of its causes belong to one conversation: of
// one thread, of one team, or among the same agents.
func together(m, cause hub.Message, group []hub.AgentID) bool {
	sameThread := cause.ThreadID == m.ThreadID
	sameTeam := m.Team != "" && cause.Team == m.Team
	sameAgents := slices.Contains(group, cause.From) &&
		slices.ContainsFunc(cause.To, func(id hub.AgentID) bool { return slices.Contains(group, id) })
	return sameThread || sameTeam || sameAgents
}

func released(to hub.AgentID) string {
	return fmt.Sprintf("; the operator can release it: parley agent wake %s --on", to)
}

// changesTask reports whether a message of a type means that a task went on: it was
// handed over, is blocked or is done.
func changesTask(t hub.MessageType) bool {
	return t.Family() == "handoff" || t == hub.TypeStatusBlocked || t == hub.TypeStatusComplete
}

// hold holds messages that are the end of a loop for the operator, who is told, and
// returns the others.
func (v *visitor) hold(kind hub.Channel, due []inboxMessage) (out []inboxMessage, err error) {
	for _, m := range due {
		root, reason, err := v.loop(m.Message)
		if err != nil {
			return nil, err
		}
		if reason == "" {
			m.root = root
			out = append(out, m)
			continue
		}
		row := m.newest(kind)
		if row == nil || row.Status != hub.DeliveryPending {
			row = &hub.Delivery{MessageID: m.ID, Recipient: v.agent, Channel: kind}
		}
		if err := v.moveRow(v.tx, *row, nil, step{state: hub.WakeHeld, detail: reason}); err != nil {
			return nil, err
		}
		if err := v.tell(fmt.Sprintf("a message to %s is held: %s", v.agent, reason)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// release lets the held messages of an agent start turns again.
func (a *agentRecord) release() error {
	a.account.Released = a.now
	for _, w := range a.wakes {
		w.Roots = nil // conversations begin anew
	}
	unread, err := readInbox(a.tx, a.agent, a.now)
	if err != nil {
		return err
	}
	for _, m := range unread {
		for _, kind := range turnKinds {
			if row := m.newest(kind); row != nil && row.Status == hub.DeliveryHeld {
				if err := a.moveRow(a.tx, *row, nil, step{state: hub.WakeRefused, detail: "released by the operator"}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
