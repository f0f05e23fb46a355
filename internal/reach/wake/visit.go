package wake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/contact"
	"github.com/parley-agents/parley/internal/ground/spans"
)

// An inboxMessage is an unread message with its rows of the ledger.
type inboxMessage struct {
	hub.Message
	rows []hub.Delivery // of its recipient, without the inbox, oldest first
	root hub.EnvelopeID // the message that began its conversation, see loop; set for one that starts a turn

	quiet bool // its sender may not wake the recipient
}

// newest returns the newest row of a kind; nil if there is none.
func (m inboxMessage) newest(kind hub.Channel) *hub.Delivery {
	for i, d := range slices.Backward(m.rows) {
		if d.Channel == kind {
			return &m.rows[i]
		}
	}
	return nil
}

// readInbox returns the unread messages of an agent with their rows.
func readInbox(r hub.Reader, agent hub.AgentID, now hub.Time) ([]inboxMessage, error) {
	page, err := r.Inbox(agent, hub.InboxFilter{NewOnly: true, Limit: maxUnread, Now: now})
	if err != nil {
		return nil, err
	}
	rules, err := contact.Read(r)
	if err != nil {
		return nil, err
	}
	out := make([]inboxMessage, 0, len(page.Messages))
	for _, m := range page.Messages {
		rows, err := r.Deliveries(m.ID)
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(d hub.Delivery) bool { return d.Recipient != agent || d.Channel == hub.ChannelInbox })
		wakes, err := rules.MayWake(r, m.From, agent)
		if err != nil {
			return nil, err
		}
		out = append(out, inboxMessage{Message: m, rows: rows, quiet: !wakes})
	}
	return out, nil
}

// A flight is the delivery of a wake that is to be made now.
type flight struct {
	over     carrier
	batch    channel.Batch
	messages []hub.EnvelopeID // that it announces
}

// visit considers one agent: it ends wakes whose time has passed, chooses the
// messages that are to be announced, reserves a wake for them in the same
// transaction, and makes it in a goroutine. After a crash in between, the reserved
// wake is found again and delivered under the same id.
func (r *runner) visit(ctx context.Context, store hub.Store, agent hub.AgentID) error {
	if idle, err := r.idle(ctx, agent); err != nil || idle {
		return err
	}
	if err := r.Survey(ctx, agent); err != nil {
		return err
	}

	var flights []flight
	var next hub.Time
	var told []hub.Message
	err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		return r.edit(tx, agent, func(a *agentRecord) error {
			v := &visitor{agentRecord: a, mail: r.mail}
			err := v.visit()
			flights = v.flights
			next = v.next
			told = v.told
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("wake: visit %s: %w", agent, err)
	}

	// Messages are announced, and channels used, only after the commit.
	if len(told) > 0 {
		r.mail.Announce(told...)
	}
	r.o.Bus.Publish(hub.TopicJournal)
	if !next.IsZero() {
		r.visitAt(agent, next)
	}
	r.launch(ctx, store, agent, flights)
	return nil
}

// idle reports whether there is nothing to do for an agent, without a change.
func (g *Machine) idle(ctx context.Context, agent hub.AgentID) (idle bool, err error) {
	err = g.store.View(ctx, func(rd hub.Reader) error {
		a, err := g.load(rd, agent)
		if err != nil || slices.ContainsFunc(a.wakes, func(w *hub.Wake) bool { return w.State.Open() }) {
			return err
		}
		page, err := rd.Inbox(agent, hub.InboxFilter{NewOnly: true, Limit: 1, Now: g.o.Clock.Now()})
		idle = len(page.Messages) == 0
		return err
	})
	return idle, err
}

// launch makes attempts in a goroutine, so that a slow channel delays no other agent.
func (r *runner) launch(ctx context.Context, store hub.Store, agent hub.AgentID, flights []flight) {
	if len(flights) == 0 {
		return
	}
	r.mu.Lock()
	r.flying[agent] = true
	r.mu.Unlock()
	r.wg.Go(func() {
		for _, f := range flights {
			if err := r.fly(ctx, store, f, r.mail); err != nil && ctx.Err() == nil {
				r.o.Log.Warn("the outcome of an attempt was not recorded", "agent", agent, "err", err)
			}
		}
		r.mu.Lock()
		delete(r.flying, agent)
		r.mu.Unlock()
		r.Visit(agent)
	})
}

// fly makes one attempt and records its outcome. A channel that hangs, panics or
// reports an error has failed. mail marks messages that the recipient has processed; it is
// nil for a probe, which has none.
func (g *Machine) fly(ctx context.Context, store hub.Store, f flight, mail Mail) error {
	var o channel.Outcome
	kind := f.over.Name()
	ctx, span := spans.Work(ctx, "deliver "+string(kind))
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()

	err := safely(f.over, func() (err error) {
		o, err = f.over.Deliver(bounded, f.batch)
		return err
	})
	defer func() {
		span.Count("parley.messages", len(f.batch.Messages))
		span.Set("parley.outcome", string(statusOf[stateOf[o.State]]))
		span.End(err)
	}()

	if ctx.Err() != nil {
		return ctx.Err() // the next start makes it again
	}
	if err == nil && stateOf[o.State] == "" {
		err = fmt.Errorf("channel %s returned the unknown state %q", kind, o.State)
	}
	if err != nil {
		o = channel.Outcome{State: channel.Failed, Detail: err.Error()}
		g.o.Log.Warn("channel failed, the messages stay in the inbox", "channel", kind, "err", err)
		g.mu.Lock()
		if g.foreign {
			g.checked[kind] = hub.Capability{State: hub.Failed, Detail: err.Error()}
		}
		g.mu.Unlock()
	}

	// Messages that the recipient has processed are marked as read.
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		if err := g.Record(tx, f.batch.Recipient, f.batch.ID, o); err != nil || o.State != channel.Read {
			return err
		}
		for _, id := range f.messages {
			if err := mail.MarkRead(tx, hub.Caller{ID: f.batch.Recipient}, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		g.o.Bus.Publish(hub.TopicJournal)
	}
	return err
}

// A visitor considers one agent inside a transaction.
type visitor struct {
	*agentRecord
	mail   Mail
	unread []inboxMessage
	block  string    // why the agent must not be woken
	busy   *hub.Wake // that starts a turn and was under way before the visit
	bests  map[hub.Channel]choice
	chosen []hub.EnvelopeID

	flights []flight
	next    hub.Time // of the next visit; zero for none
	told    []hub.Message
}

// visit reads the state of the agent, and announces over each kind of channel the messages
// that can be announced now.
func (v *visitor) visit() error {
	if err := v.read(); err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := v.consider(kind, v.bests[kind]); err != nil {
			return err
		}
	}
	return v.repeat()
}

// read ends wakes whose time has passed, and reads the inbox and the forecasts.
func (v *visitor) read() (err error) {
	for _, w := range v.wakes {
		if !w.State.Open() {
			continue
		}
		if err := v.expire(w); err != nil {
			return err
		}
	}
	v.busy = v.wakes.open(hub.ChannelSession)
	if v.block, err = v.blocked(); err != nil {
		return err
	}

	if v.unread, err = readInbox(v.tx, v.agent, v.now); err != nil {
		return err
	}
	v.bests = map[hub.Channel]choice{}
	for _, kind := range kinds {
		if v.bests[kind], err = v.best(v.tx, kind, v.agent); err != nil {
			return err
		}
	}
	return nil
}

// expire ends an open wake without a proof in time, and takes it as a proof that the
// recipient fetched one of its messages.
func (v *visitor) expire(w *hub.Wake) error {
	waiting, err := v.waiting(w)
	if err != nil {
		return err
	}
	next := v.overdue(w, waiting)
	if next.state == "" {
		v.later(w.Until)
		return nil
	}

	err = v.move(w, next)
	if w.State.Open() {
		v.later(w.Until)
	}
	return err
}

// overdue returns the step that an open wake takes by itself: because its recipient fetched
// one of its messages, of which so many wait, or because its time has passed. The step is
// empty if neither is so.
func (v *visitor) overdue(w *hub.Wake, waiting int) step {
	fetched := waiting < len(w.Messages)
	written := w.State == hub.WakeTaken || w.State == hub.WakeHanded
	switch {
	case w.State == hub.WakeReserved && waiting == 0 && !w.Probe: // for channels of others; a session looks again
		return step{state: hub.WakeRefused, detail: "already read"}
	case fetched && (written || w.State == hub.WakeOffered):
		return step{state: hub.WakeStarted, detail: "it read its inbox"}
	case w.State == hub.WakeReserved || v.now.Before(w.Until.Time):
		return step{}
	}

	switch w.State {
	case hub.WakeOffered:
		return step{state: hub.WakeFailed, detail: "the session did not continue"}
	case hub.WakeWaiting:
		return step{state: hub.WakeRefused, detail: "its session's waiter did not fetch it"}
	case hub.WakeStarted:
		return step{state: hub.WakeEnded, detail: "the end of the turn was not reported"}
	}
	return step{state: hub.WakeFailed, detail: "no turn showed the notice in time"}
}

func (v *visitor) later(at hub.Time) {
	if v.next.IsZero() || at.Before(v.next.Time) {
		v.next = at
	}
}

// consider announces messages over the channels of one kind if that can be done now.
func (v *visitor) consider(kind hub.Channel, c choice) error {
	if left := v.wakes.left(kind, v.now); len(left) > 0 { // reserved before a crash
		for _, w := range left {
			if err := v.retry(w, c); err != nil {
				return err
			}
		}
		return nil
	}
	due, err := v.due(kind)
	if err != nil || len(due) == 0 {
		return err
	}
	if state := v.Capability(kind); !state.Enabled {
		return v.skip(kind, due, cmp.Or(state.Detail, "the channel is off"))
	}
	if startsTurns(kind) {
		return v.considerTurn(kind, c, due)
	}

	// People get one notice after the other, and the next visit is when one was taken. A critical
	// message does not wait for the notice before it.
	if v.wakes.open(kind) != nil {
		due = slices.DeleteFunc(due, func(m inboxMessage) bool { return m.Priority != hub.PriorityCritical })
	}
	if len(due) == 0 {
		return nil
	}
	ready, interrupt, err := v.ready(kind, c, due)
	if err != nil || !ready {
		return err
	}
	return v.reserve(kind, c.over, due, interrupt, false)
}

// considerTurn starts a turn for messages, unless one is under way already, the messages are
// the end of a loop, a budget is spent, no session can take it now, or the gap between turns is
// in the way.
func (v *visitor) considerTurn(kind hub.Channel, c choice, due []inboxMessage) error {
	if v.busy != nil {
		return nil // one at a time; the next visit is when it ends
	}
	due, err := v.hold(kind, due)
	if err != nil || len(due) == 0 {
		return err
	}
	if due, err = v.affordable(kind, due); err != nil || len(due) == 0 {
		return err
	}
	ready, interrupt, err := v.ready(kind, c, due)
	if err != nil || !ready {
		return err
	}

	if end := burstEnd(due); v.now.Before(end.Time) {
		v.later(end)
		return nil
	}
	if free := v.freeAt(due); v.now.Before(free.Time) {
		v.later(free)
		return nil
	}
	return v.reserve(kind, c.over, due, interrupt, false)
}

// burstEnd returns when a burst of events from outside is taken as over: burstGap after the newest
// of them, and at most burstTime after the oldest. So one turn serves the results, comments and
// pushes that belong together. A message of an agent or a person among them does not wait.
func burstEnd(due []inboxMessage) hub.Time {
	var oldest, newest hub.Time
	for _, m := range due {
		if _, isEvent := m.From.Source(); !isEvent {
			return hub.Time{}
		}
		if oldest.IsZero() || m.CreatedAt.Before(oldest.Time) {
			oldest = m.CreatedAt
		}
		if m.CreatedAt.After(newest.Time) {
			newest = m.CreatedAt
		}
	}
	end, most := newest.Add(burstGap), oldest.Add(burstTime)
	if end.After(most.Time) {
		return most
	}
	return end
}

// ready reports whether a channel takes messages now, and whether it must interrupt a turn
// for them. Messages that it cannot take at all are skipped; for others there is a later visit.
func (v *visitor) ready(kind hub.Channel, c choice, due []inboxMessage) (ready, interrupt bool, err error) {
	if c.over == nil {
		return false, false, v.skip(kind, due, c.reach.Reason)
	}
	if !c.reach.Later {
		return true, false, nil
	}
	if interrupt, err = v.interrupts(due); err == nil && !interrupt {
		v.later(v.now.Add(busyRetry))
	}
	return interrupt, interrupt, err
}

// due returns the unread messages that a kind of channel has not announced yet, and skips
// those that it never will.
func (v *visitor) due(kind hub.Channel) ([]inboxMessage, error) {
	turns := startsTurns(kind)
	var due, known, quiet []inboxMessage
	for _, m := range v.unread {
		row := m.newest(kind)
		elsewhere := m.Priority != hub.PriorityCritical && slices.Contains(v.chosen, m.ID)
		switch {
		case v.account.announced(m, kind), v.wakes.announces(m.ID, kind), elsewhere:
		case turns && m.quiet:
			quiet = append(quiet, m)
		case turns && !v.account.mayWake(m):
			known = append(known, m)
		case turns, row != nil && row.Status == hub.DeliveryPending:
			due = append(due, m)
		}
	}
	if err := v.skip(kind, quiet, fmt.Sprintf("its sender may not wake %s", v.agent)); err != nil {
		return nil, err
	}
	if err := v.skip(kind, known, "an alarm about the same subject was already announced"); err != nil {
		return nil, err
	}
	if turns && v.block != "" {
		return nil, v.skip(kind, due, v.block)
	}
	return due, nil
}

// interrupts reports whether the turn that runs may be interrupted: a critical message
// of a coordinator or of the operator waits, and the recipient's policy allows it.
func (v *visitor) interrupts(due []inboxMessage) (bool, error) {
	if !v.account.Interrupt {
		return false, nil
	}
	for _, m := range due {
		if m.Priority != hub.PriorityCritical {
			continue
		}
		from, err := v.tx.Agent(m.From)
		if err != nil {
			return false, err
		}
		if from.ID == hub.Operator || from.Role == hub.RoleCoordinator {
			return true, nil
		}
	}
	return false, nil
}

// affordable returns the messages for which a turn may be started within the budgets.
// The rows of the others say why they wait.
func (v *visitor) affordable(kind hub.Channel, due []inboxMessage) (out []inboxMessage, err error) {
	for _, m := range due {
		reason, until := v.budget(m.From)
		if reason == "" {
			out = append(out, m)
			continue
		}
		v.later(until)
		if err := v.skip(kind, []inboxMessage{m}, reason); err != nil {
			return nil, err
		}
		if err := v.tell(fmt.Sprintf("%s reached its wake limit: %s", v.agent, reason)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// tell tells the operator about spent budgets, once a day for the whole hub: one loop
// of agents spends the budgets of all that take part in it.
func (v *visitor) tell(text string) error {
	all, err := hub.ReadMeta[common](v.tx, commonKey)
	if err != nil || (!all.Told.IsZero() && v.now.Sub(all.Told.Time) < toldAgain) {
		return err
	}
	all.Told = v.now
	if err := hub.WriteMeta(v.tx, commonKey, all); err != nil {
		return err
	}
	msg, err := v.mail.TellOperator(v.tx, map[string]any{"code": hub.CodeRateLimited, "message": text + "; run \"parley agent sessions\" to list all agents", "agent": v.agent})
	if err == nil && msg.ID != "" {
		v.told = append(v.told, msg)
	}
	return err
}

// skip says in the ledger why messages are not announced over a kind of channel now.
// A message without a row for it stays without one.
func (v *visitor) skip(kind hub.Channel, due []inboxMessage, reason string) error {
	for _, m := range due {
		row := m.newest(kind)
		staysUnchanged := row == nil || row.Status == hub.DeliveryOffered || (row.Status != hub.DeliveryPending && row.Error == reason)
		if staysUnchanged {
			continue
		}
		if err := v.moveRow(v.tx, *row, nil, step{state: hub.WakeRefused, detail: reason}); err != nil {
			return err
		}
	}
	return nil
}

// reserve stores a wake and prepares it.
func (v *visitor) reserve(kind hub.Channel, over carrier, due []inboxMessage, interrupt, repeat bool) error {
	newest := slices.MaxFunc(due, func(a, b inboxMessage) int { return cmp.Compare(a.ID, b.ID) })
	w := &hub.Wake{
		ID:    channel.NewID(string(v.agent), string(kind), string(newest.ID), fmt.Sprint(repeat)),
		Agent: v.agent, Channel: kind, State: hub.WakeReserved, At: v.now, Until: v.now.Add(proofTime), Interrupt: interrupt, Repeat: repeat,
	}
	if startsTurns(kind) {
		w.Cost = 1
	}
	for _, m := range due {
		carry(w, m)
		if row := m.newest(kind); row == nil || row.Status != hub.DeliveryPending {
			if err := v.tx.AddDelivery(hub.Delivery{MessageID: m.ID, Recipient: v.agent, Channel: kind, Status: hub.DeliveryPending}); err != nil {
				return err
			}
		}
	}
	v.wakes.add(w)
	v.account.show(v.unread, w.Messages, false)
	v.account.noteAlarms(due)
	v.chosen = append(v.chosen, w.Messages...)
	v.prepare(w, over)
	return nil
}

// retry makes a wake that was reserved when the hub stopped, under its id.
func (v *visitor) retry(w *hub.Wake, c choice) error {
	reason := v.block
	if c.over == nil {
		reason = cmp.Or(reason, c.reach.Reason)
	}
	if reason != "" && !w.Probe {
		return v.move(w, step{state: hub.WakeRefused, detail: reason})
	}
	v.prepare(w, c.over)
	return nil
}

// prepare makes the batch of a reserved wake.
func (v *visitor) prepare(w *hub.Wake, over carrier) {
	b := channel.Batch{ID: w.ID, Recipient: v.agent, Interrupt: w.Interrupt, Repeat: w.Repeat}
	for _, m := range v.unread {
		if !startsTurns(w.Channel) && !slices.Contains(w.Messages, m.ID) {
			continue // people are told about these messages, not about the inbox of the agent
		}
		e := m.Envelope
		e.Payload = nil
		e.Context = nil
		e.Extra = nil
		if e.Policy.Sensitivity == hub.SensitivityHigh {
			e.Topic = ""
		}
		b.Messages = append(b.Messages, e)
	}
	v.flights = append(v.flights, flight{over, b, slices.Clone(w.Messages)})
}

// repeat announces messages once more that were announced some time ago and are still
// unread.
func (v *visitor) repeat() error {
	last := v.wakes.last()
	mayAnnounce := v.block == "" && len(v.flights) == 0 && v.busy == nil
	if !mayAnnounce || last == nil || last.Repeat {
		return nil
	}

	var due []inboxMessage
	for _, m := range v.unread {
		if v.account.mayWake(m) && v.account.announced(m, last.Channel) {
			due = append(due, m)
		}
	}
	if len(due) == 0 {
		return nil
	}

	// A repetition waits some time after the last wake, and keeps to the budgets.
	if at := last.At.Add(repeatAfter); v.now.Before(at.Time) {
		v.later(at)
		return nil
	}
	if reason, until := v.budget(""); reason != "" {
		v.later(until)
		return nil
	}

	for _, kind := range kinds {
		if c := v.bests[kind]; startsTurns(kind) && c.over != nil && c.reach.When == hub.ReachNow {
			return v.reserve(kind, c.over, due, false, true)
		}
	}
	v.later(v.now.Add(busyRetry))
	return nil
}
