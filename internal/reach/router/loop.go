package router

import (
	"fmt"
	"slices"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

const (
	maxHops    = 8 // messages that caused a message one after the other, before it starts no turn
	maxAnswers = 6 // answers of a pair to each other in a row, before the next starts no turn
)

// loop returns why a message must wait for a person before it starts a turn; "" if it
// need not. A message knows its cause: the message that it answers, or that its sender
// read last. So each turn that a wake started lengthens the chain by one; a message
// of the operator begins a new one. The walk reads at most maxAnswers messages.
func (r *Router) loop(rd hub.Reader, a account, m hub.Message, to hub.AgentID) (string, error) {
	if !a.Released.IsZero() && !m.CreatedAt.After(a.Released.Time) {
		return "", nil
	}
	if m.Hop > maxHops {
		return fmt.Sprintf("loop: %d messages caused each other without a person", m.Hop) + released(to), nil
	}
	pair := []hub.AgentID{m.From, to}
	for n, at := 0, m; at.Cause != "" && !changesTask(at.Type); n++ {
		if n+1 >= maxAnswers {
			return fmt.Sprintf("loop: %s and %s answered each other %d times", m.From, to, maxAnswers) + released(to), nil
		}
		cause, err := rd.Message(at.Cause)
		if hub.CodeOf(err) == hub.CodeNotFound { // archived
			break
		}
		if err != nil {
			return "", err
		}
		if !slices.Contains(pair, cause.From) || !slices.ContainsFunc(cause.To, func(id hub.AgentID) bool { return slices.Contains(pair, id) }) {
			break
		}
		at = cause
	}
	return "", nil
}

func released(to hub.AgentID) string {
	return fmt.Sprintf("; the operator lets it go on: parley wake resume %s", to)
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
		reason, err := v.loop(v.tx, v.account, m.Message, v.agent)
		if err != nil {
			return nil, err
		}
		if reason == "" {
			out = append(out, m)
			continue
		}
		row := m.newest(kind)
		if row == nil || row.Status != hub.DeliveryPending {
			row = &hub.Delivery{MessageID: m.ID, Recipient: v.agent, Channel: kind}
		}
		if err := v.moveRow(v.tx, *row, nil, channel.Outcome{State: channel.Held, Detail: reason}); err != nil {
			return nil, err
		}
		if err := v.tell(fmt.Sprintf("a message to %s is held: %s", v.agent, reason)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// release lets the held messages of an agent start turns again.
func (r *Router) release(tx hub.Tx, agent hub.AgentID, a *account) error {
	a.Released = r.o.Clock.Now()
	unread, err := readInbox(tx, agent, a.Released)
	if err != nil {
		return err
	}
	for _, m := range unread {
		for _, kind := range turnKinds {
			if row := m.newest(kind); row != nil && row.Status == hub.DeliveryHeld {
				if err := r.moveRow(tx, *row, nil, channel.Outcome{State: channel.Refused, Detail: "the operator lets it go on"}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
