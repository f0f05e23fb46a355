package wake

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Mail is the part of the mailroom that Run writes with.
type Mail interface {
	// TellOperator writes a message of the hub to the operator; Announce wakes its reader
	// after the commit.
	TellOperator(tx hub.Tx, payload any) (hub.Message, error)
	Announce(messages ...hub.Message)
	// MarkRead marks a message as read by the actor, for channels that know it.
	MarkRead(tx hub.Tx, actor hub.Caller, id hub.EnvelopeID) error
}

// A runner is a machine that makes attempts. It exists while Run does.
type runner struct {
	*Machine
	mail    Mail
	started bool // every agent was visited
}

// Cursor is the name of the cursor with which Run follows the journal.
const Cursor = "router"

// Run makes attempts until ctx ends, and returns when its attempts have. A failure is
// logged and tried again.
func (g *Machine) Run(ctx context.Context, mail Mail) {
	defer g.wg.Wait()
	r := &runner{Machine: g, mail: mail}
	hub.Follow(ctx, g.store, g.o.Bus, hub.Consumer{
		Name: Cursor, Lease: leaseTime, Kick: g.kick, Step: r.step,
		Failed: func(err error) { g.o.Log.Warn("wakes failed, they continue at their cursor", "err", err) },
	})
}

// step handles entries of the journal and visits the agents that are due. The first step
// visits all agents.
func (r *runner) step(ctx context.Context, store hub.Store) (time.Duration, error) {
	if !r.started {
		if err := r.begin(ctx, store); err != nil {
			return 0, err
		}
		r.started = true
	}
	more, err := r.work(ctx, store)
	if more || err != nil {
		return 0, err
	}

	if !r.active() { // no recipient waits for an attempt, so that one step may handle many entries
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return r.rest(), nil
}

// active reports whether any message could be announced.
func (g *Machine) active() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.common.Allowed) > 0 || g.foreign
}

// rest returns the time until the next visit. The clock of the hub may be set, so it
// is read again every second while a visit is due.
func (g *Machine) rest() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, rest := g.o.Clock.Now(), 5*time.Second
	for agent, at := range g.due {
		if !g.flying[agent] {
			rest = min(rest, time.Second, max(at.Sub(now.Time), 10*time.Millisecond))
		}
	}
	return rest
}

// begin visits every agent: wakes may have been under way when the hub stopped.
func (g *Machine) begin(ctx context.Context, store hub.Store) error {
	if err := g.refresh(ctx); err != nil {
		return err
	}
	var agents []hub.Agent
	var head hub.Head
	var from int64
	err := store.View(ctx, func(rd hub.Reader) (err error) {
		if agents, err = rd.Agents(); err != nil {
			return err
		}
		if head, err = hub.HeadOf(rd); err != nil {
			return err
		}
		from, err = rd.Cursor(Cursor)
		return err
	})
	if err == nil && from == 0 { // older entries are in the inboxes
		err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutCursor(Cursor, head.Seq) })
	}
	for _, a := range agents {
		g.visitAt(a.ID, g.o.Clock.Now())
	}
	return err
}

// work follows the journal and visits agents that are due. It reports whether there
// may be more entries.
func (r *runner) work(ctx context.Context, store hub.Store) (bool, error) {
	var entries []hub.Entry
	err := r.store.View(ctx, func(rd hub.Reader) error {
		from, err := rd.Cursor(Cursor)
		if err == nil {
			entries, err = rd.Journal(hub.JournalQuery{After: from, Limit: 256})
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if len(entries) > 0 {
		if err := r.follow(ctx, store, entries); err != nil {
			return false, err
		}
	}
	if err := r.recheck(ctx); err != nil {
		return false, err
	}
	for _, agent := range r.takeDue() {
		if err := r.visit(ctx, store, agent); err != nil {
			r.visitAt(agent, hub.At(r.o.Clock().Add(time.Second)))
			return false, err
		}
	}
	return len(entries) > 0, nil
}

// recheck reads the common state, and checks channels that failed some time ago.
func (g *Machine) recheck(ctx context.Context) error {
	now := g.o.Clock.Now()
	g.mu.Lock()
	due := now.Sub(g.checkAt.Time) >= recheckAfter
	var failed []hub.Channel
	for kind, c := range g.checked {
		if due && c.State == hub.Failed {
			failed = append(failed, kind)
		}
	}
	if due {
		g.checkAt = now
	}
	g.mu.Unlock()
	for _, kind := range failed {
		g.check(ctx, kind, g.channels[kind])
	}
	return g.refresh(ctx)
}

// takeDue returns the agents that are due now.
func (g *Machine) takeDue() (agents []hub.AgentID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.o.Clock.Now()
	for agent, at := range g.due {
		if !at.After(now.Time) && !g.flying[agent] {
			agents = append(agents, agent)
			delete(g.due, agent)
		}
	}
	slices.Sort(agents)
	return agents
}

// follow makes the recipients of new messages due, and ends the rows of messages that
// were fetched or expired before an attempt was made.
func (g *Machine) follow(ctx context.Context, store hub.Store, entries []hub.Entry) error {
	if g.active() {
		for _, e := range entries {
			if err := g.entry(ctx, store, e); err != nil {
				return err
			}
		}
	}
	last := entries[len(entries)-1].Seq
	return store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutCursor(Cursor, last) })
}

func (g *Machine) entry(ctx context.Context, store hub.Store, e hub.Entry) error {
	id := hub.EnvelopeID(e.Subject)
	switch e.Action {
	case actions.MessageSent, actions.MessageApproved:
		var msg hub.Message
		var rows []hub.Delivery
		err := store.View(ctx, func(rd hub.Reader) (err error) {
			if msg, err = rd.Message(id); err == nil {
				rows, err = rd.Deliveries(id)
			}
			return err
		})
		if hub.CodeOf(err) == hub.CodeNotFound {
			return nil // archived meanwhile
		}

		// Messages that come close together share a wake. A critical one does not wait for others.
		at := g.o.Clock.Now()
		if msg.Priority != hub.PriorityCritical {
			at = at.Add(debounce)
		}
		for _, d := range rows {
			g.visitAt(d.Recipient, at)
		}
		return err

	case actions.MessageDelivered, actions.MessageRead, actions.MessageExpired:
		return g.endRows(ctx, store, id, e)
	case actions.AgentResumed:
		g.Visit(hub.AgentID(e.Subject)) // mail waited for it
	case actions.DeliveryMoved:
		g.followMove(e)
	}

	return nil
}

// followMove makes an agent due when a notice to people about its mail was taken or given up: more
// mail may wait for that. The hub that learned it may be another one on the same store.
func (g *Machine) followMove(e hub.Entry) {
	var moved struct {
		Channel   hub.Channel   `json:"channel"`
		Recipient hub.AgentID   `json:"recipient"`
		State     channel.State `json:"state"`
		Wake      string        `json:"wake"`
	}
	isNotice := json.Unmarshal(e.Facts, &moved) == nil && moved.Channel == hub.ChannelNotify && moved.Wake != ""
	if isNotice && !stateOf[moved.State].Open() {
		g.Visit(moved.Recipient)
	}
}

// endRows skips the rows of a message that were never tried: its recipient fetched it
// first, or its time has passed.
func (g *Machine) endRows(ctx context.Context, store hub.Store, id hub.EnvelopeID, e hub.Entry) error {
	expired := e.Action == actions.MessageExpired
	reason := "already read"
	if expired {
		reason = "expired"
	}
	waits := func(d hub.Delivery) bool {
		untried := d.Channel != hub.ChannelInbox && d.Status == hub.DeliveryPending && d.Error == ""
		return untried && (expired || d.Recipient == e.Actor)
	}

	// Most entries need no change, so the rows are read before a transaction begins.
	rows, err := hub.Read(ctx, store, func(rd hub.Reader) ([]hub.Delivery, error) { return rd.Deliveries(id) })
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rows, waits) {
		if !expired {
			g.Visit(e.Actor) // it may prove a wake
		}
		return nil
	}
	return store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		rows, err := tx.Deliveries(id)
		if err != nil {
			return err
		}
		for _, d := range rows {
			if waits(d) {
				if err := g.moveRow(tx, d, nil, step{state: hub.WakeRefused, detail: reason}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
