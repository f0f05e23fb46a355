package mailroom

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Channel delivers messages by another way than the inbox. It is used only after
// its Probe has succeeded and the operator has switched it on.
type Channel interface {
	Name() hub.Channel

	// Probe checks whether the channel works. It must not show anything to a
	// recipient.
	Probe(ctx context.Context) error

	// Reaches reports whether the recipient can be reached now; if not, the
	// reason goes into the ledger. It must not block.
	Reaches(agent hub.AgentID) (ok bool, reason string)

	// Deliver makes one attempt. It returns DeliveryAccepted only when the
	// recipient's runtime has accepted the message, and DeliveryOffered when it
	// was shown where the recipient may not notice it.
	Deliver(ctx context.Context, n Notice) (hub.DeliveryStatus, error)
}

// A Notice is the content of one attempt over a channel. Its envelope has no payload
// if the message is of high sensitivity and others can read the channel.
type Notice struct {
	Recipient hub.AgentID
	Envelope  hub.Envelope
}

// A routeStep is one channel that a message takes. One that is not optional has a row
// in the ledger even when the channel is off.
type routeStep struct {
	channel  hub.Channel
	optional bool
}

// routes are the channels for each priority.
var routes = map[hub.Priority][]routeStep{
	hub.PriorityLow:      {{hub.ChannelInbox, false}},
	hub.PriorityNormal:   {{hub.ChannelInbox, false}, {hub.ChannelSession, true}},
	hub.PriorityHigh:     {{hub.ChannelInbox, false}, {hub.ChannelSession, false}, {hub.ChannelNotify, true}},
	hub.PriorityCritical: {{hub.ChannelInbox, false}, {hub.ChannelSession, false}, {hub.ChannelNotify, false}, {hub.ChannelWake, false}},
}

// route returns the first ledger rows for one recipient of e.
func (m *Mailroom) route(e hub.Envelope, to hub.AgentID) []hub.Delivery {
	held := e.Policy.HumanGate == hub.GateRequired
	var rows []hub.Delivery
	for _, s := range routes[e.Priority] {
		d := hub.Delivery{MessageID: e.ID, Recipient: to, Channel: s.channel, Status: hub.DeliveryPending}
		c := m.capability(s.channel)
		switch {
		case s.channel == hub.ChannelInbox:
			d.Status = hub.DeliveryStored
		case !c.Enabled && s.optional:
			continue
		case !c.Enabled:
			d.Status, d.Error = hub.DeliverySkipped, fmt.Sprintf("%s delivery is off (%s): the message is in the inbox", s.channel, c.State)
		}
		if held && d.Status != hub.DeliverySkipped {
			d.Status = hub.DeliveryHeld
		}
		rows = append(rows, d)
	}
	return rows
}

// forecast returns the forecast for a row of the ledger. keyed tells whether the
// recipient can log in.
func (m *Mailroom) forecast(d hub.Delivery, keyed bool) Forecast {
	l := Forecast{Recipient: d.Recipient, Channel: d.Channel, Status: d.Status, Error: d.Error}
	switch {
	case d.Status == hub.DeliveryHeld:
		l.Reach, l.Reason = hub.ReachHeld, "the operator must approve it first"
	case d.Status == hub.DeliverySkipped || d.Status == hub.DeliveryFailed:
		l.Reach, l.Reason = hub.ReachUnreachable, "not over this channel"
	case d.Status == hub.DeliveryRead:
		l.Reach, l.Reason = hub.ReachNow, "it was read"
	case !keyed:
		l.Reach, l.Reason = hub.ReachUnreachable, "it has no valid key"
	case m.hasWaiter(d.Recipient):
		l.Reach, l.Reason = hub.ReachNow, "it waits for messages"
	default:
		l.Reach, l.Reason = hub.ReachOnPoll, "when it reads its inbox"
		if d.Channel == hub.ChannelInbox {
			break
		}
		if ok, why := m.reaches(d.Channel, d.Recipient); ok {
			l.Reach, l.Reason = hub.ReachNow, "it can be reached over "+string(d.Channel)
		} else {
			l.Reach, l.Reason = hub.ReachUnreachable, why
		}
	}
	return l
}

// reaches reports whether a channel reaches a recipient now. The channel of an old
// row may not exist any more.
func (m *Mailroom) reaches(c hub.Channel, to hub.AgentID) (bool, string) {
	if m.channels[c] == nil {
		return false, "this hub does not have the channel any more"
	}
	return m.channels[c].Reaches(to)
}

// addWaiter registers a long poll on an inbox; remove unregisters it.
func (m *Mailroom) addWaiter(agent hub.AgentID) (remove func()) {
	m.mu.Lock()
	m.waiters[agent]++
	m.mu.Unlock()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.waiters[agent]--; m.waiters[agent] == 0 {
			delete(m.waiters, agent)
		}
	}
}

func (m *Mailroom) hasWaiter(agent hub.AgentID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiters[agent] > 0
}

// workq is the capability for queues of tasks outside the hub. No part of the hub
// supports it yet.
const workq = "workq"

// Capabilities returns the current state of every optional capability.
func (m *Mailroom) Capabilities() hub.Capabilities {
	out := make(hub.Capabilities, len(hub.Channels)+1)
	for _, c := range hub.Channels {
		out[string(c)] = m.capability(c)
	}
	out[workq] = hub.Capability{State: hub.Unverified}
	return out
}

func (m *Mailroom) capability(c hub.Channel) hub.Capability {
	if c == hub.ChannelInbox {
		return hub.Capability{State: hub.Verified, Enabled: true}
	}
	if m.channels[c] == nil {
		out := hub.Capability{State: hub.Unverified}
		if m.enabled[c] {
			out.Detail = "switched on in the configuration, but this hub has no such channel"
		}
		return out
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out, ok := m.probed[c]
	if !ok {
		out = hub.Capability{State: hub.Unverified, Detail: "not probed yet"}
	}
	out.Enabled = out.State == hub.Verified && m.enabled[c]
	return out
}

// Probe probes every channel and records the results. A channel stays off until it
// is verified.
func (m *Mailroom) Probe(ctx context.Context) error {
	results := map[hub.Channel]hub.Capability{}
	for name, c := range m.channels {
		results[name] = hub.Capability{State: hub.Verified, Detail: "probed " + m.clock.Now().String()}
		if err := c.Probe(ctx); err != nil {
			results[name] = hub.Capability{State: hub.Failed, Detail: err.Error()}
			m.log.Warn("channel is not usable, messages stay in the inbox", "channel", name, "err", err)
		}
	}
	if len(results) == 0 {
		return nil
	}
	err := m.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		for name, c := range results {
			raw, err := json.Marshal(c)
			if err != nil {
				return err
			}
			if err := tx.PutMeta("capability."+string(name), string(raw)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mailroom: record probes: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(m.probed, results)
	return nil
}

// deliveryCursor is the name of the cursor with which work follows the journal.
const deliveryCursor = "delivery"

// work handles the next journal entries: it makes the attempts over channels, and
// tells coordinators about suspensions. It reports whether there were entries.
func (m *Mailroom) work(ctx context.Context, store hub.Store) (bool, error) {
	var entries []hub.Entry
	err := m.store.View(ctx, func(r hub.Reader) error {
		from, err := r.Cursor(deliveryCursor)
		if err != nil {
			return err
		}
		entries, err = r.Journal(hub.JournalQuery{After: from, Limit: 256})
		return err
	})
	if err != nil || len(entries) == 0 {
		return false, err
	}
	for _, e := range entries {
		switch e.Action {
		case hub.ActionMessageSent, hub.ActionMessageApproved:
			if err := m.attempt(ctx, store, hub.EnvelopeID(e.Subject)); err != nil {
				return false, err
			}
		case hub.ActionBreakerOpen:
			if err := m.tellCoordinators(ctx, store, e); err != nil {
				return false, err
			}
		}
	}
	last := entries[len(entries)-1].Seq
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutCursor(deliveryCursor, last) })
	return true, err
}

// attempt tries every channel on which a message is still pending. After a crash
// between an attempt and its record the attempt is repeated; the recipient recognizes
// a message that it has processed.
func (m *Mailroom) attempt(ctx context.Context, store hub.Store, id hub.EnvelopeID) error {
	if len(m.channels) == 0 {
		return nil
	}
	var msg hub.Message
	var ledger []hub.Delivery
	err := m.store.View(ctx, func(r hub.Reader) (err error) {
		if msg, err = r.Message(id); err != nil {
			return err
		}
		ledger, err = r.Deliveries(id)
		return err
	})
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil // archived meanwhile
	}
	if err != nil {
		return err
	}
	for _, d := range ledger {
		if d.Status != hub.DeliveryPending {
			continue
		}
		if err := m.deliver(ctx, store, msg, d); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mailroom) deliver(ctx context.Context, store hub.Store, msg hub.Message, d hub.Delivery) error {
	e := msg.Envelope
	if e.Policy.Sensitivity == hub.SensitivityHigh && d.Channel == hub.ChannelNotify {
		e.Payload, e.Topic = json.RawMessage("{}"), ""
	}
	outcome := hub.OutcomeOK
	if ok, why := m.reaches(d.Channel, d.Recipient); !ok {
		d.Status, d.Error = hub.DeliverySkipped, why
	} else if status, err := m.tryChannel(ctx, m.channels[d.Channel], Notice{d.Recipient, e}); err != nil {
		d.Status, d.Error, outcome = hub.DeliveryFailed, err.Error(), hub.OutcomeFailed
		m.log.Warn("channel failed, the message stays in the inbox", "envelope", msg.ID, "channel", d.Channel, "err", err)
	} else {
		d.Status = status
	}
	err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		now := m.clock.Now()
		d := d
		if d.Status == hub.DeliveryAccepted || d.Status == hub.DeliveryOffered {
			d.DeliveredAt = now
		}
		if _, err := tx.PutDelivery(d); err != nil {
			return err
		}
		facts, err := json.Marshal(map[string]any{"channel": d.Channel, "recipient": d.Recipient, "status": d.Status})
		if err != nil {
			return err
		}
		if _, err := tx.Append(hub.Entry{At: now, Actor: hub.Self, Action: hub.ActionChannelTried, Subject: string(msg.ID), Outcome: outcome, Facts: facts}); err != nil {
			return err
		}
		if d.Status != hub.DeliveryAccepted {
			return nil
		}
		p, err := party(tx, msg.ID, d.Recipient)
		if err != nil || p.State != hub.PartyUnread {
			return err
		}
		if err := tx.PutParty(msg.ID, d.Recipient, hub.PartyDelivered, p.State); err != nil {
			return err
		}
		return updateStatus(tx, msg.ID, now)
	})
	if err == nil {
		m.bus.Publish(hub.TopicJournal)
	}
	return err
}

// tryChannel makes one attempt. A channel that panics or hangs fails the attempt.
func (m *Mailroom) tryChannel(ctx context.Context, c Channel, n Notice) (status hub.DeliveryStatus, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("channel %s panicked: %v", c.Name(), p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return c.Deliver(ctx, n)
}

// tellCoordinators sends the coordinators a message about a suspension. The cursor
// moves in the same transaction, so that the message is sent once.
func (m *Mailroom) tellCoordinators(ctx context.Context, store hub.Store, e hub.Entry) error {
	var out sendResult
	err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		to, err := coordinators(tx, e.Actor)
		if err != nil {
			return err
		}
		out, err = m.system(tx, to, hub.TypeSystemError, "", "", map[string]any{
			"code":    hub.CodeCircuitOpen,
			"message": fmt.Sprintf("%s sent the same message too often and is suspended", e.Actor),
			"agent":   e.Actor,
		})
		if err != nil {
			return err
		}
		return tx.PutCursor(deliveryCursor, e.Seq)
	})
	if err == nil && out.message.ID != "" {
		m.announce(out)
	}
	return err
}

// coordinators returns the active agents in the role of a coordinator, except the
// given one; if there are none, the operator.
func coordinators(r hub.Reader, except hub.AgentID) ([]hub.AgentID, error) {
	all, err := r.Agents()
	if err != nil {
		return nil, err
	}
	var out []hub.AgentID
	for _, a := range all {
		if a.Role == hub.RoleCoordinator && a.State == hub.AgentActive && a.ID != hub.Operator && a.ID != except {
			out = append(out, a.ID)
		}
	}
	if len(out) == 0 {
		out = []hub.AgentID{hub.Operator}
	}
	return out, nil
}
