// Package router decides which messages are announced over which channel, when, and
// how often.
//
// The inbox of an agent is the truth: the router looks at the unread messages of a
// recipient and at the rows of the delivery ledger that say which of them were
// announced. So nothing is lost when the hub stops between a message and its wake, and
// nothing is announced twice. An announcement carries counts, never a text; see
// package channel.
//
// Turns cost the recipient's tokens. A channel that starts one (session, wake) is used
// only for agents whose user allowed it, for messages of normal priority and above,
// one attempt at a time, within budgets, and never while a turn runs unless a critical
// message of a coordinator may interrupt. A message that was announced and not fetched
// is announced once more after 15 minutes, and then only with the next message.
//
// The tests here hold its tables and bounds. What it does is tested through the
// operations of a hub: server/wake_test.go (one message, budgets, loops, forecasts),
// server/wake_rules_test.go (unlucky orders), server/ghost_linux_test.go (windows that
// were killed), server/alarm_test.go and server/channels_test.go (channels of others).
package router

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Limits bound the turns that mail may start. Zero members mean the default.
type Limits struct {
	Gap         time.Duration // between two wakes of one agent; default 30 seconds
	PerHour     int           // wakes of one agent; default 20
	PairPerHour int           // wakes of one agent for messages of one sender; default 20
}

// complete fills in the defaults.
func (l Limits) complete() (Limits, error) {
	if l.Gap < 0 || l.PerHour < 0 || l.PairPerHour < 0 {
		return l, hub.Errorf(hub.CodeInvalid, "router.New", "a limit of wakes is negative")
	}
	if l.Gap == 0 {
		l.Gap = 30 * time.Second
	}
	if l.PerHour == 0 {
		l.PerHour = 20
	}
	if l.PairPerHour == 0 {
		l.PairPerHour = 20
	}
	return l, nil
}

const (
	debounce     = 500 * time.Millisecond // a burst of messages is one attempt
	repeatAfter  = 15 * time.Minute       // an announcement that led to nothing is made again once
	turnTime     = 10 * time.Minute       // after which a turn whose end was not reported counts as over
	proofTime    = 30 * time.Second       // for an outcome that names no time
	hookProof    = 2 * time.Minute        // for a session to go on that a hook told at the end of a turn
	busyRetry    = 30 * time.Second       // between two looks at a recipient whose turn runs
	recheckAfter = 5 * time.Minute        // between two checks of a channel that failed
	toldAgain    = 24 * time.Hour         // between two messages to the operator about budgets
	maxBarren    = 3                      // wakes in a row that led to nothing, before an agent is woken no more
	maxAttempts  = 64                     // kept for one agent
	maxUnread    = 200                    // unread messages that are considered at once
	leaseTime    = time.Minute
)

// turnKinds are the channels that start turns, in the order in which they are tried.
var turnKinds = []hub.Channel{hub.ChannelSession, hub.ChannelWake}

// kinds are all channels besides the inbox, those that start turns first.
var kinds = append(slices.Clone(turnKinds), hub.ChannelNotify)

// startsTurns reports whether a channel starts turns.
func startsTurns(c hub.Channel) bool { return slices.Contains(turnKinds, c) }

// words are the words of the delivery ledger for each state of an attempt.
var words = map[channel.State]hub.DeliveryStatus{
	channel.Waiting: hub.DeliveryPending, channel.Handed: hub.DeliveryPending,
	channel.Offered:  hub.DeliveryOffered,
	channel.Accepted: hub.DeliveryAccepted, channel.TurnStarted: hub.DeliveryAccepted, channel.TurnEnded: hub.DeliveryAccepted,
	channel.Read: hub.DeliveryRead, channel.Held: hub.DeliveryHeld, channel.Refused: hub.DeliverySkipped, channel.Failed: hub.DeliveryFailed,
}

// Options changes how a Router works.
type Options struct {
	Clock  hub.Clock
	Bus    hub.Bus
	Log    *slog.Logger // default silent
	Limits Limits

	// Tell writes a message of the hub to the operator inside a transaction;
	// Announce wakes its reader after the commit.
	Tell     func(tx hub.Tx, payload any) (hub.Message, error)
	Announce func(...hub.Message)
	// MarkRead marks a message as read by the actor, for channels that know it.
	MarkRead func(tx hub.Tx, actor hub.Caller, id hub.EnvelopeID) error

	// Machine is the name of this machine where hubs of others have the same store, else
	// "". Away reports whether no hub runs on a machine; nil without a Machine.
	Machine string
	Away    func(machine string) bool
}

// A Router brings notices of messages to their recipients. It is safe for concurrent
// use.
type Router struct {
	store    hub.Store
	channels map[hub.Channel][]carrier
	foreign  bool // some channels are not the hub's own
	o        Options

	kick       chan struct{} // receives when an agent is to be visited
	wg         sync.WaitGroup
	refreshing sync.Mutex // held while common is read from the store

	mu      sync.Mutex                     // guards the fields below
	due     map[hub.AgentID]hub.Time       // agents to visit, and when
	flying  map[hub.AgentID]bool           // agents with an attempt that a goroutine makes
	checked map[hub.Channel]hub.Capability // the results of the last checks
	checkAt hub.Time                       // of channels that failed
	common  common                         // as last read
	answers map[answerKey]answer           // see Survey
}

// common is the stored state that concerns all agents.
type common struct {
	Paused  bool          `json:"paused,omitempty"`
	Allowed []hub.AgentID `json:"allowed,omitempty"` // agents that mail may wake
	Told    hub.Time      `json:"told,omitzero"`     // when the operator was last told about a budget
}

const commonKey = "router"

// New returns a router over the channels of the hub itself and those that others
// wrote. The channels of one kind are tried in order.
func New(store hub.Store, own []Own, others []channel.Channel, o Options) (*Router, error) {
	limits, err := o.Limits.complete()
	if err != nil {
		return nil, err
	}
	o.Limits = limits
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Router{
		store: store, channels: map[hub.Channel][]carrier{}, o: o, kick: make(chan struct{}, 1),
		due: map[hub.AgentID]hub.Time{}, flying: map[hub.AgentID]bool{}, checked: map[hub.Channel]hub.Capability{},
	}
	var all []carrier
	for _, c := range own {
		all = append(all, c)
	}
	for _, c := range others {
		all = append(all, c)
	}
	for _, c := range all {
		name := c.Name()
		if name == hub.ChannelInbox || !slices.Contains(hub.Channels, name) {
			return nil, hub.Errorf(hub.CodeInvalid, "router.New", "%q is not a channel that can be added", name).WithHint("the channels are %s", hub.JoinWords(hub.Channels[1:]))
		}
		r.channels[name] = append(r.channels[name], c)
	}
	r.foreign = len(others) > 0
	return r, nil
}

// Check checks every channel and reads the state of all agents. The hub calls it when
// it starts; a channel that cannot work stays off.
func (r *Router) Check(ctx context.Context) error {
	for kind, list := range r.channels {
		r.check(ctx, kind, list)
	}
	return r.refresh(ctx)
}

// check checks the channels of one kind. The kind works if one of them does.
func (r *Router) check(ctx context.Context, kind hub.Channel, list []carrier) {
	result := hub.Capability{}
	for _, c := range list {
		err := safely(c, func() error { return c.Check(ctx) })
		if err == nil {
			result = hub.Capability{State: hub.Verified, Detail: "checked " + r.o.Clock.Now().String()}
			break
		}
		result = hub.Capability{State: hub.Failed, Detail: err.Error()}
		r.o.Log.Warn("channel is not usable, messages stay in the inbox", "channel", kind, "err", err)
	}
	r.mu.Lock()
	r.checked[kind] = result
	r.mu.Unlock()
}

// safely calls a method of a channel. One that panics has failed.
func safely(c carrier, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("channel %s panicked: %v", c.Name(), p)
		}
	}()
	return f()
}

// refresh reads the common state again: another hub on the same store may have
// changed it. One call at a time does, so that an older state never replaces a newer
// one.
func (r *Router) refresh(ctx context.Context) error {
	r.refreshing.Lock()
	defer r.refreshing.Unlock()
	got, err := hub.Read(ctx, r.store, func(rd hub.Reader) (common, error) { return hub.ReadMeta[common](rd, commonKey) })
	if err != nil {
		return fmt.Errorf("router: read its state: %w", err)
	}
	r.mu.Lock()
	r.common = got
	r.mu.Unlock()
	return nil
}

// Capability returns how the channels of a kind stand. Those of the hub itself are on
// while an agent may be woken; those of others are on while their last check is good
// and their last attempt did not fail.
func (r *Router) Capability(kind hub.Channel) hub.Capability {
	list := r.channels[kind]
	if len(list) == 0 {
		return hub.Capability{State: hub.Unverified}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out, ok := r.checked[kind]
	switch {
	case !ok:
		return hub.Capability{State: hub.Unverified, Detail: "not checked yet"}
	case startsTurns(kind) && len(r.common.Allowed) == 0:
		return hub.Capability{State: hub.Unverified, Detail: "no agent may be woken yet: parley wake allow NAME"}
	case startsTurns(kind) && r.common.Paused:
		out.Detail = "paused by the operator" // each row of the ledger says so
	}
	out.Enabled = out.State == hub.Verified
	return out
}

// Recheck makes Run check the channels that failed: one of them may work now.
func (r *Router) Recheck() {
	r.mu.Lock()
	r.checkAt = hub.Time{}
	r.mu.Unlock()
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Visit makes the router consider an agent at once.
func (r *Router) Visit(agent hub.AgentID) { r.visitAt(agent, r.o.Clock.Now()) }

// visitAt makes the router consider an agent at a time, or earlier if it is due.
func (r *Router) visitAt(agent hub.AgentID, at hub.Time) {
	r.mu.Lock()
	if was, ok := r.due[agent]; !ok || at.Before(was.Time) {
		r.due[agent] = at
	}
	r.mu.Unlock()
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Cursor is the name of the cursor with which Run follows the journal.
const Cursor = "router"

// Run works until ctx ends, and returns when its attempts have. A failure is logged
// and tried again.
func (r *Router) Run(ctx context.Context) {
	defer r.wg.Wait()
	hints, cancel := r.o.Bus.Subscribe(hub.TopicJournal)
	defer cancel()
	started := false
	for ctx.Err() == nil {
		more := false
		err := hub.Alone(ctx, r.store, "router", leaseTime, func(store hub.Store) (err error) {
			if !started {
				if err := r.begin(ctx, store); err != nil {
					return err
				}
				started = true
			}
			more, err = r.work(ctx, store)
			return err
		})
		if err != nil && ctx.Err() == nil {
			r.o.Log.Warn("router failed, it continues at its cursor", "err", err)
		}
		if more && err == nil {
			continue
		}
		rest := time.NewTimer(r.rest())
		select {
		case <-hints:
		case <-r.kick:
		case <-rest.C:
		case <-ctx.Done():
		}
		rest.Stop()
		if !r.active() { // no recipient waits for an attempt
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// active reports whether any message could be announced.
func (r *Router) active() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.common.Allowed) > 0 || r.foreign
}

// rest returns the time until the next visit. The clock of the hub may be set, so it
// is read again every second while a visit is due.
func (r *Router) rest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, rest := r.o.Clock.Now(), 5*time.Second
	for agent, at := range r.due {
		if !r.flying[agent] {
			rest = min(rest, time.Second, max(at.Sub(now.Time), 10*time.Millisecond))
		}
	}
	return rest
}

// begin visits every agent: attempts may have been under way when the hub stopped.
func (r *Router) begin(ctx context.Context, store hub.Store) error {
	if err := r.refresh(ctx); err != nil {
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
		r.visitAt(a.ID, r.o.Clock.Now())
	}
	return err
}

// work follows the journal and visits agents that are due. It reports whether there
// may be more entries.
func (r *Router) work(ctx context.Context, store hub.Store) (bool, error) {
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
func (r *Router) recheck(ctx context.Context) error {
	now := r.o.Clock.Now()
	r.mu.Lock()
	due := now.Sub(r.checkAt.Time) >= recheckAfter
	var failed []hub.Channel
	for kind, c := range r.checked {
		if due && c.State == hub.Failed {
			failed = append(failed, kind)
		}
	}
	if due {
		r.checkAt = now
	}
	r.mu.Unlock()
	for _, kind := range failed {
		r.check(ctx, kind, r.channels[kind])
	}
	return r.refresh(ctx)
}

// takeDue returns the agents that are due now.
func (r *Router) takeDue() (agents []hub.AgentID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Clock.Now()
	for agent, at := range r.due {
		if !at.After(now.Time) && !r.flying[agent] {
			agents = append(agents, agent)
			delete(r.due, agent)
		}
	}
	slices.Sort(agents)
	return agents
}

// follow makes the recipients of new messages due, and ends the rows of messages that
// were fetched or expired before an attempt was made.
func (r *Router) follow(ctx context.Context, store hub.Store, entries []hub.Entry) error {
	if r.active() {
		for _, e := range entries {
			if err := r.entry(ctx, store, e); err != nil {
				return err
			}
		}
	}
	last := entries[len(entries)-1].Seq
	return store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutCursor(Cursor, last) })
}

func (r *Router) entry(ctx context.Context, store hub.Store, e hub.Entry) error {
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
		at := r.o.Clock.Now()
		if msg.Priority != hub.PriorityCritical {
			at = at.Add(debounce)
		}
		for _, d := range rows {
			r.visitAt(d.Recipient, at)
		}
		return err
	case actions.MessageDelivered, actions.MessageRead, actions.MessageExpired:
		return r.endRows(ctx, store, id, e)
	case actions.AgentResumed:
		r.Visit(hub.AgentID(e.Subject)) // mail waited for it
	}
	return nil
}

// endRows skips the rows of a message that were never tried: its recipient fetched it
// first, or its time has passed.
func (r *Router) endRows(ctx context.Context, store hub.Store, id hub.EnvelopeID, e hub.Entry) error {
	expired := e.Action == actions.MessageExpired
	reason := "already read"
	if expired {
		reason = "expired"
	}
	waits := func(d hub.Delivery) bool {
		untried := d.Channel != hub.ChannelInbox && d.Status == hub.DeliveryPending && d.Error == ""
		return untried && (expired || d.Recipient == e.Actor)
	}
	rows, err := hub.Read(ctx, store, func(rd hub.Reader) ([]hub.Delivery, error) { return rd.Deliveries(id) })
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rows, waits) {
		if !expired {
			r.Visit(e.Actor) // it may prove an attempt
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
				if err := r.moveRow(tx, d, nil, channel.Outcome{State: channel.Refused, Detail: reason}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
