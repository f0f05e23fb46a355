package mailroom

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Limits are the limits of one sender and of one conversation. They may be tightened,
// never loosened; zero means the default.
type Limits struct {
	DirectPerMinute  int // messages to named recipients, per sender
	BroadcastPerHour int // messages to everyone, per sender
	Recipients       int // named in one message
	ThreadHops       int // messages in one thread, and causes behind one message

	// Repeats is how many messages with the same recipients, type and content
	// a sender may send within RepeatWindow. One more suspends it for
	// SuspendFor, and TripsPerDay suspensions last until the operator acts.
	Repeats      int
	RepeatWindow time.Duration
	SuspendFor   time.Duration
	TripsPerDay  int

	// SameType is like Repeats, for any content; 0 means no such limit.
	SameType int

	// CauseWindow is the time in which the last message that a session read counts
	// as the cause of a message that names none.
	CauseWindow time.Duration

	// Unsafe turns rates and the breaker off, for measurements. Hops stay limited.
	Unsafe bool
}

// DefaultLimits are the limits of the protocol.
var DefaultLimits = Limits{
	DirectPerMinute: 10, BroadcastPerHour: 5, Recipients: 10,
	ThreadHops: 50,
	Repeats:    3, RepeatWindow: time.Minute, SuspendFor: 5 * time.Minute, TripsPerDay: 3,
	CauseWindow: 10 * time.Minute,
}

// Limits returns the limits that hold, defaults filled in.
func (m *Mailroom) Limits() Limits { return m.limits }

// complete fills in defaults and refuses looser limits.
func (l Limits) complete() (Limits, error) {
	def := DefaultLimits

	// A count has an upper bound and a duration a lower one: limits can only be tightened.
	for _, f := range []struct {
		name  string
		value *int
		most  int
	}{
		{"direct_per_minute", &l.DirectPerMinute, def.DirectPerMinute},
		{"broadcast_per_hour", &l.BroadcastPerHour, def.BroadcastPerHour},
		{"recipients", &l.Recipients, def.Recipients},
		{"thread_hops", &l.ThreadHops, def.ThreadHops},
		{"repeats", &l.Repeats, def.Repeats},
		{"trips_per_day", &l.TripsPerDay, def.TripsPerDay},
	} {
		if *f.value == 0 {
			*f.value = f.most
		}
		if *f.value < 0 || *f.value > f.most {
			return l, hub.Errorf(hub.CodeInvalid, "mailroom.New", "limits.%s must be between 1 and %d, got %d", f.name, f.most, *f.value).
				WithHint("limits can be tightened, not loosened")
		}
	}

	for _, f := range []struct {
		name  string
		value *time.Duration
		least time.Duration
	}{
		{"repeat_window", &l.RepeatWindow, def.RepeatWindow},
		{"suspend_for", &l.SuspendFor, def.SuspendFor},
		{"cause_window", &l.CauseWindow, def.CauseWindow},
	} {
		if *f.value == 0 {
			*f.value = f.least
		}
		if *f.value < f.least {
			return l, hub.Errorf(hub.CodeInvalid, "mailroom.New", "limits.%s must be at least %s, got %s", f.name, f.least, *f.value).
				WithHint("limits can be tightened, not loosened")
		}
	}

	if l.SameType < 0 {
		return l, hub.Errorf(hub.CodeInvalid, "mailroom.New", "limits.same_type must not be negative, got %d", l.SameType)
	}
	return l, nil
}

// guard enforces the rates, the breaker, and the length of conversations. It sets
// the cause and the hop of the message.
func (m *Mailroom) guard(tx hub.Tx, op string, actor hub.Caller, msg *hub.Message) error {
	if !m.limits.Unsafe {
		if err := m.suspended(tx, op, actor, msg.CreatedAt); err != nil {
			return err
		}
		if err := m.rates(tx, op, actor, msg.Envelope); err != nil {
			return err
		}
	}
	if actor.IsOperator() {
		return nil // a message of a person starts a new chain
	}
	return m.loops(tx, op, actor, msg)
}

// handoffs is the family of messages that the hub writes when a handoff moves. They
// are counted apart: an agent may start as many handoffs in a minute as it may send
// messages.
const handoffs = "handoff"

// rates limits the messages of a sender. It counts the stored messages, so that a
// restart does not reset the count.
func (m *Mailroom) rates(tx hub.Tx, op string, actor hub.Caller, e hub.Envelope) error {
	now := e.CreatedAt
	if wide(e.To) {
		sent, err := sentWide(tx, actor, now)
		if err != nil {
			return err
		}
		if n := m.limits.BroadcastPerHour; len(sent) >= n {
			return tooFast(op, actor, "to everyone or to a large team", n, "hour", sent[n-1].At.Add(time.Hour).Sub(now.Time))
		}
	}

	// One query serves two limits: the rate of direct messages and the repeats.
	window := max(time.Minute, m.limits.RepeatWindow)
	recent, err := tx.Sent(hub.SentFilter{From: actor.ID, Since: now.Add(-window + time.Millisecond), Limit: 1000})
	if err != nil {
		return err
	}

	var direct []hub.Time
	repeats, sameType := 0, 0
	for _, s := range recent {
		if s.Type != e.Type && (s.Type.Family() == handoffs || e.Type.Family() == handoffs) {
			continue // handoffs and other messages have separate counts
		}
		age := now.Sub(s.At.Time)
		if !wide(s.To) && age < time.Minute {
			direct = append(direct, s.At)
		}
		if age < m.limits.RepeatWindow && s.Type == e.Type && slices.Equal(s.To, e.To) {
			sameType++
			if bytes.Equal(s.Payload, e.Payload) {
				repeats++
			}
		}
	}

	if repeats >= m.limits.Repeats || (m.limits.SameType > 0 && sameType >= m.limits.SameType) {
		return &repeatError{envelope: e, repeats: repeats + 1}
	}
	if n := m.limits.DirectPerMinute; !wide(e.To) && len(direct) >= n {
		return tooFast(op, actor, "to named recipients", n, "minute", direct[n-1].Add(time.Minute).Sub(now.Time))
	}
	return nil
}

// wide reports whether recipients are everyone, or a team with more members than a
// message may name.
func wide(to []hub.AgentID) bool {
	return len(to) > DefaultLimits.Recipients || slices.Contains(to, hub.Everyone)
}

// sentWide returns the messages of the last hour to everyone or to a large team, newest
// first.
func sentWide(r hub.Reader, actor hub.Caller, now hub.Time) ([]hub.Sent, error) {
	sent, err := r.Sent(hub.SentFilter{From: actor.ID, Since: now.Add(-time.Hour + time.Millisecond), Limit: 1000}) // more than the other rates allow
	return slices.DeleteFunc(sent, func(s hub.Sent) bool { return !wide(s.To) }), err
}

func tooFast(op string, actor hub.Caller, what string, n int, unit string, wait time.Duration) error {
	return hub.Errorf(hub.CodeRateLimited, op, "%s reached the limit of %d messages per %s %s", actor.ID, n, unit, what).
		WithHint("try again in %s; put several points into one message", wait.Round(time.Second)).
		WithRetry(wait)
}

// loops limits hops, per thread and along the chain of causes: a circle
// over several threads and agents ends as well.
func (m *Mailroom) loops(tx hub.Tx, op string, actor hub.Caller, msg *hub.Message) error {
	cause, hop, err := m.cause(tx, actor, msg)
	if err != nil {
		return err
	}
	if cause != "" {
		msg.Cause, msg.Hop = cause, hop+1
	}
	if msg.Hop >= m.limits.ThreadHops {
		return hub.Errorf(hub.CodeLoop, op, "agents answered each other %d times in a row; this message was not sent", msg.Hop).
			WithHint("stop and report to the operator; a message from the operator resets the count")
	}
	if msg.ThreadID == string(msg.ID) || msg.Type.Negotiates() {
		return nil // it starts its thread, or the rounds of each pair are bounded
	}
	n, err := tx.CountMessages(hub.CountFilter{Thread: msg.ThreadID, Limit: m.limits.ThreadHops})
	if err != nil {
		return err
	}
	if n >= m.limits.ThreadHops {
		return hub.Errorf(hub.CodeLoop, op, "thread %s is full (%d messages)", msg.ThreadID, n).
			WithHint("summarize in a new thread, or leave the decision to the operator")
	}
	return nil
}

// cause returns the message that caused this one, and its hop: the message it
// replies to, else the last message that the same session read. For a command, which has no
// session, it is the last message that the agent read.
func (m *Mailroom) cause(tx hub.Tx, actor hub.Caller, msg *hub.Message) (hub.EnvelopeID, int, error) {
	if msg.ReplyTo != "" {
		parent, err := tx.Message(msg.ReplyTo)
		return parent.ID, parent.Hop, err
	}
	mark, err := tx.SessionMark(actor.ID, actor.Session)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return "", 0, nil
	case err != nil:
		return "", 0, err
	case msg.CreatedAt.Sub(mark.At.Time) >= m.limits.CauseWindow:
		return "", 0, nil
	}
	return mark.Message, mark.Hop, nil
}

// A repeatError reports that the sender sent the same message too often and must be
// suspended.
type repeatError struct {
	envelope hub.Envelope
	repeats  int
}

func (t *repeatError) Error() string { return "the same message was sent too often" }

// As makes the error a hub.Error with CodeCircuitOpen for the surface.
func (t *repeatError) As(target any) bool {
	e, ok := target.(**hub.Error)
	if !ok {
		return false
	}
	*e = hub.Errorf(hub.CodeCircuitOpen, "mailroom.Send", "%s sent the same message %d times in a row and is suspended", t.envelope.From, t.repeats).
		WithHint("do not send it again: read the inbox, or wait; to end the suspension, {agent.reset} %s", t.envelope.From)
	return true
}

// openBreaker suspends the sender. A suspension is an entry of the journal: a refused
// send changes no other table.
func (m *Mailroom) openBreaker(ctx context.Context, actor hub.Caller, t *repeatError) error {
	facts := struct {
		Type    hub.MessageType `json:"type"`
		To      []hub.AgentID   `json:"to"`
		Payload string          `json:"payload_sha256"`
		Repeats int             `json:"repeats"`
	}{t.envelope.Type, t.envelope.To, digest(t.envelope.Payload), t.repeats}
	err := m.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		now := m.clock.Now()
		if m.suspended(tx, "mailroom.openBreaker", actor, now) != nil {
			return nil // another send suspended it
		}
		return record(tx, now, actor, actions.BreakerOpen, breaker(actor.ID), facts)
	})
	if err == nil {
		m.bus.Publish(hub.TopicJournal)
	}
	return err
}

// breaker is the subject of journal entries about the suspensions of an agent.
func breaker(agent hub.AgentID) string { return "breaker/" + string(agent) }

// suspended reports CodeCircuitOpen while the sender is suspended. The newest
// TripsPerDay entries decide: an agent that was suspended so often within a day
// is suspended no further time before a reset, so that those entries stay the
// newest.
func (m *Mailroom) suspended(tx hub.Reader, op string, actor hub.Caller, now hub.Time) error {
	entries, err := tx.Journal(hub.JournalQuery{Subject: breaker(actor.ID), Newest: true, Limit: m.limits.TripsPerDay})
	if err != nil || len(entries) == 0 {
		return err
	}
	var trips []hub.Time // since the last reset, newest first
	for _, e := range entries {
		if e.Action == actions.BreakerReset {
			break
		}
		trips = append(trips, e.At)
	}
	locked := len(trips) > 0 && len(trips) == m.limits.TripsPerDay && trips[0].Sub(trips[len(trips)-1].Time) < 24*time.Hour
	if locked {
		return hub.Errorf(hub.CodeCircuitOpen, op, "%s was suspended %d times within a day and stays suspended", actor.ID, m.limits.TripsPerDay).
			WithHint("only the operator can end the suspension; {agent.reset} %s", actor.ID)
	}
	if len(trips) == 0 {
		return nil
	}
	if wait := m.limits.SuspendFor - now.Sub(trips[0].Time); wait > 0 {
		return hub.Errorf(hub.CodeCircuitOpen, op, "%s is suspended because it sent the same message too often", actor.ID).
			WithHint("wait %s and do not send it again; reading is still possible", wait.Round(time.Second)).WithRetry(wait)
	}
	return nil
}

// Reset ends the suspension of an agent. Only the operator may.
func (m *Mailroom) Reset(ctx context.Context, actor hub.Caller, agent hub.AgentID) (hub.Agent, error) {
	if !actor.IsOperator() {
		return hub.Agent{}, hub.Errorf(hub.CodeDenied, "mailroom.Reset", "only the operator can end a suspension")
	}
	var got hub.Agent
	err := m.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if got, err = tx.Agent(agent); err != nil {
			return err
		}
		return record(tx, m.clock.Now(), actor, actions.BreakerReset, breaker(agent), nil)
	})
	if err != nil {
		return hub.Agent{}, fmt.Errorf("mailroom: reset %s: %w", agent, err)
	}
	m.bus.Publish(hub.TopicJournal)
	return got, nil
}
