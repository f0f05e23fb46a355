package mailroom

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Router announces messages over channels other than the inbox. The mailroom asks it
// which of them are on and writes the first rows of the ledger; the wake machine changes
// them.
type Router interface {
	// Capability returns how a channel stands.
	Capability(c hub.Channel) hub.Capability

	// Survey asks channels that are not the hub's own about recipients, all agents if
	// none is named. It is called before the transactions in which Reach is called.
	Survey(ctx context.Context, to ...hub.AgentID) error

	// Reach forecasts a message to an agent over a channel. later says that an attempt
	// waits for the end of a turn of the recipient. It is called inside transactions and
	// asks nothing but the reader and the last survey.
	Reach(r hub.Reader, c hub.Channel, to hub.AgentID, msg hub.Message) (when hub.Reach, later bool, reason string, err error)
}

// A routeStep is one channel that a message takes.
type routeStep struct {
	channel hub.Channel
	need    need
}

// A need says when a channel has a row in the ledger.
type need int

const (
	always    need = iota // also when the channel is off
	switched              // when the channel is on
	reachable             // when the channel reaches the recipient now, and none before it does
)

// routes are the channels for each priority. A message of normal priority or above may
// start a turn of an agent whose user allows that; one of low priority never does.
var routes = map[hub.Priority][]routeStep{
	hub.PriorityLow:      {{hub.ChannelInbox, always}},
	hub.PriorityNormal:   {{hub.ChannelInbox, always}, {hub.ChannelSession, switched}, {hub.ChannelWake, reachable}},
	hub.PriorityHigh:     {{hub.ChannelInbox, always}, {hub.ChannelSession, always}, {hub.ChannelNotify, switched}, {hub.ChannelWake, reachable}},
	hub.PriorityCritical: {{hub.ChannelInbox, always}, {hub.ChannelSession, always}, {hub.ChannelNotify, always}, {hub.ChannelWake, always}},
}

// steps returns the channels that a message takes. A message that may not start a turn
// takes none that would. A message of the hub itself goes to the inbox, and an alarm also
// to its recipients, but not to people; one of high sensitivity is announced to people,
// too, on a hub that has a channel for it.
func steps(e hub.Envelope) []routeStep {
	switch {
	case e.From == hub.Self && e.MayWake():
		return routes[hub.PriorityNormal]
	case e.From == hub.Self:
		return routes[hub.PriorityLow]
	}
	list := routes[e.Priority]
	if !e.MayWake() {
		list = slices.DeleteFunc(slices.Clone(list), func(s routeStep) bool { return s.channel == hub.ChannelSession || s.channel == hub.ChannelWake })
	}
	if e.Policy.Sensitivity == hub.SensitivityHigh && !slices.ContainsFunc(list, func(s routeStep) bool { return s.channel == hub.ChannelNotify }) {
		list = append(slices.Clone(list), routeStep{hub.ChannelNotify, switched})
	}
	return list
}

// route returns the first ledger rows for one recipient of a message, with their
// forecasts. quiet is why the message may not wake its recipient; "" if it may.
func (m *Mailroom) route(r hub.Reader, msg hub.Message, to recipient, quiet string) (rows []hub.Delivery, forecasts []Forecast, err error) {
	e := msg.Envelope
	held := e.Policy.HumanGate == hub.GateRequired

	for _, s := range steps(e) {
		d := hub.Delivery{MessageID: e.ID, Recipient: to.agent, Channel: s.channel, Status: hub.DeliveryPending}
		if s.channel == hub.ChannelInbox {
			d.Status = hub.DeliveryStored
		} else if c := m.capability(s.channel); !c.Enabled {
			if s.need != always {
				continue
			}
			d.Status, d.Error = hub.DeliverySkipped, fmt.Sprintf("%s delivery is off (%s): the message is in the inbox", s.channel, c.State)
		}

		// A quiet message takes neither the session nor a wake.
		if quiet != "" && (s.channel == hub.ChannelSession || s.channel == hub.ChannelWake) {
			if s.need != always {
				continue
			}
			d.Status, d.Error = hub.DeliverySkipped, quiet+": the message is in the inbox"
		}
		if held && d.Status != hub.DeliverySkipped {
			d.Status = hub.DeliveryHeld
		}

		f, err := m.forecast(r, d, msg, to.keyed)
		if err != nil {
			return nil, nil, err
		}
		if quiet != "" && s.channel == hub.ChannelInbox && f.Reach == hub.ReachOnPoll {
			f.Reason += "; " + quiet
		}

		// A step that needs a reachable recipient is left out if the session is tried, or if it
		// reaches the recipient neither now nor after an approval.
		tried := slices.ContainsFunc(rows, func(d hub.Delivery) bool { return d.Channel == hub.ChannelSession && d.Status == hub.DeliveryPending })
		reaches := f.Reach == hub.ReachNow || f.Reach == hub.ReachHeld
		if s.need == reachable && (tried || !reaches) {
			continue
		}
		if d.Status == hub.DeliveryPending && f.Status == hub.DeliverySkipped { // the wake machine holds others, and tells the operator
			d.Status, d.Error = f.Status, f.Error
		}
		rows, forecasts = append(rows, d), append(forecasts, f)
	}
	return rows, forecasts, nil
}

// forecast returns the forecast for a row of the ledger. keyed tells whether the
// recipient can log in. A pending row of a channel that does not reach the recipient
// is forecast as skipped, and one that waits for the operator as held.
func (m *Mailroom) forecast(r hub.Reader, d hub.Delivery, msg hub.Message, keyed bool) (Forecast, error) {
	l := Forecast{Recipient: d.Recipient, Channel: d.Channel, Status: d.Status, Error: d.Error}
	switch {
	case d.Status == hub.DeliveryHeld:
		l.Reach, l.Reason = hub.ReachHeld, cmp.Or(d.Error, "the operator must approve it first")
	case d.Status == hub.DeliverySkipped || d.Status == hub.DeliveryFailed:
		l.Reach, l.Reason = hub.ReachUnreachable, "not over this channel"
	case d.Status == hub.DeliveryRead:
		l.Reach, l.Reason = hub.ReachNow, "it was read"

	case !keyed:
		l.Reach, l.Reason = hub.ReachUnreachable, "it has no valid key"
	case d.Channel == hub.ChannelInbox && m.hasWaiter(d.Recipient):
		l.Reach, l.Reason = hub.ReachNow, "it waits for messages"
	case d.Channel == hub.ChannelInbox || m.router == nil:
		l.Reach, l.Reason = hub.ReachOnPoll, "when it reads its inbox"

	default:
		when, later, reason, err := m.router.Reach(r, d.Channel, d.Recipient, msg)
		if err != nil {
			return l, err
		}
		l.Reach, l.Reason = when, reason
		switch waits := d.Status == hub.DeliveryPending && d.Error == ""; {
		case waits && when == hub.ReachHeld:
			l.Status, l.Error = hub.DeliveryHeld, reason
		case waits && when != hub.ReachNow && !later:
			l.Status, l.Error = hub.DeliverySkipped, reason
		}
	}
	return l, nil
}

// survey asks the channels that are not the hub's own about agents, before a transaction
// with forecasts for them; all agents of the hub if none is named.
func (m *Mailroom) survey(ctx context.Context, agents ...hub.AgentID) error {
	if m.router == nil {
		return nil
	}
	return m.router.Survey(ctx, agents...)
}

// reach forecasts when an agent would see a message of normal priority: by the best
// channel.
func (m *Mailroom) reach(r hub.Reader, to hub.AgentID, keyed bool) (hub.Reach, error) {
	best := hub.ReachUnreachable
	for _, s := range routes[hub.PriorityNormal] {
		if s.channel != hub.ChannelInbox && !m.capability(s.channel).Enabled {
			continue
		}
		f, err := m.forecast(r, hub.Delivery{Recipient: to, Channel: s.channel, Status: hub.DeliveryPending}, hub.Message{}, keyed)
		if err != nil || f.Reach == hub.ReachNow {
			return f.Reach, err
		}
		if f.Reach == hub.ReachOnPoll {
			best = f.Reach
		}
	}
	return best, nil
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
	waits := m.waiters[agent] > 0
	m.mu.Unlock()
	return waits || (m.elsewhere != nil && m.elsewhere(agent))
}

// Waiting returns the agents with a long poll on their inbox.
func (m *Mailroom) Waiting() []hub.AgentID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.waiters))
}

// workq is the capability for queues of tasks outside the hub.
const workq = "workq"

// Capabilities returns the current state of every optional capability.
func (m *Mailroom) Capabilities() hub.Capabilities {
	out := make(hub.Capabilities, len(hub.Channels)+1)
	for _, c := range hub.Channels {
		out[string(c)] = m.capability(c)
	}
	out[workq] = hub.Capability{State: hub.Unverified}
	for name, state := range m.further {
		out[name] = state()
	}
	return out
}

func (m *Mailroom) capability(c hub.Channel) hub.Capability {
	switch {
	case c == hub.ChannelInbox:
		return hub.Capability{State: hub.Verified, Enabled: true}
	case m.router == nil:
		return hub.Capability{State: hub.Unverified}
	}
	return m.router.Capability(c)
}

// deliveryCursor is the name of the cursor with which work follows the journal.
const deliveryCursor = "delivery"

// CatchUp handles the journal entries that Run has not handled yet.
func (m *Mailroom) CatchUp(ctx context.Context) error {
	return hub.Alone(ctx, m.store, "mailroom."+deliveryCursor, leaseTime, func(store hub.Store) error {
		for {
			if more, err := m.work(ctx, store); err != nil || !more {
				return err
			}
		}
	})
}

// work handles the next journal entries: it tells coordinators about suspensions, and
// notes which agents get copies. It reports whether there were entries.
func (m *Mailroom) work(ctx context.Context, store hub.Store) (bool, error) {
	var entries []hub.Entry
	var copies []hub.Copy

	err := m.store.View(ctx, func(r hub.Reader) error {
		from, err := r.Cursor(deliveryCursor)
		if err != nil {
			return err
		}
		entries, err = r.Journal(hub.JournalQuery{After: from, Limit: 256})
		if i := slices.IndexFunc(entries, func(e hub.Entry) bool { return e.Action == actions.BreakerOpen }); i >= 0 {
			entries = entries[:max(i, 1)] // a suspension is handled alone
		}
		if err == nil {
			copies, err = matches(r, entries)
		}
		return err
	})
	if err != nil || len(entries) == 0 {
		return false, err
	}

	// The notice of a suspension moves the cursor in its own transaction.
	last := entries[len(entries)-1]
	if last.Action == actions.BreakerOpen {
		return true, m.tellCoordinators(ctx, store, last)
	}

	return true, store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		if err := expect(tx, copies); err != nil {
			return err
		}
		return tx.PutCursor(deliveryCursor, last.Seq)
	})
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
		out, err = m.system(tx, hub.Envelope{To: to, Type: hub.TypeSystemError, Priority: hub.PriorityHigh}, map[string]any{
			"code":    hub.CodeCircuitOpen,
			"message": fmt.Sprintf("%s sent the same message too often and is suspended", e.Actor),
			"agent":   e.Actor,
		})
		if err != nil {
			return err
		}
		return tx.PutCursor(deliveryCursor, e.Seq)
	})
	if err == nil {
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
		isCoordinator := a.Role == hub.RoleCoordinator && a.State == hub.AgentActive && a.ID != hub.Operator
		if isCoordinator && a.ID != except {
			out = append(out, a.ID)
		}
	}
	if len(out) == 0 {
		out = []hub.AgentID{hub.Operator}
	}
	return out, nil
}
