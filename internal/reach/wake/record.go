package wake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// An agentRecord is everything that is stored about the wakes of one agent, as one
// transaction reads it: its permission, the presence of its sessions, and its wakes. It is
// changed in memory and written by save.
type agentRecord struct {
	*Machine
	rd    hub.Reader
	tx    hub.Tx // nil in a snapshot, which is not written
	agent hub.AgentID
	now   hub.Time

	account  account
	presence document
	wakes    history
	stored   map[string]hub.Wake // as read, by id
}

// load reads the record of an agent.
func (g *Machine) load(rd hub.Reader, agent hub.AgentID) (*agentRecord, error) {
	a := &agentRecord{Machine: g, rd: rd, agent: agent, now: g.o.Clock.Now(), stored: map[string]hub.Wake{}}
	var err error
	if a.account, err = hub.ReadMeta[account](rd, accountKey(agent)); err != nil {
		return nil, err
	}
	if a.presence, err = hub.ReadMeta[document](rd, sessionsKey(agent)); err != nil {
		return nil, err
	}
	rows, err := rd.Wakes().OfAgent(agent)
	if err != nil {
		return nil, err
	}
	for _, w := range rows {
		a.stored[w.ID] = w
		w.Sessions = slices.Clone(w.Sessions) // changed in place, see ensure
		a.wakes = append(a.wakes, &w)
	}
	a.takeOver()
	return a, nil
}

// save writes the parts of the record that were changed.
func (a *agentRecord) save() error {
	if err := a.saveWakes(); err != nil {
		return err
	}
	if err := writeChanged(a.tx, accountKey(a.agent), a.account); err != nil {
		return err
	}
	return writeChanged(a.tx, sessionsKey(a.agent), a.presence)
}

// saveWakes writes the wakes that were changed, and removes those that were forgotten.
func (a *agentRecord) saveWakes() error {
	table := a.tx.WriteWakes()
	for id := range a.stored {
		if a.wakes.find(id) == nil {
			if err := table.Remove(a.agent, id); err != nil {
				return err
			}
		}
	}
	for _, w := range a.wakes {
		old := a.stored[w.ID]
		if reflect.DeepEqual(*w, old) {
			continue
		}
		if err := table.Put(*w, old.State); err != nil {
			return err
		}
	}
	return nil
}

// writeChanged stores a document unless it is stored as it is. An empty one is not stored
// for the first time.
func writeChanged(tx hub.Tx, key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	old, err := tx.Meta(key)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	if old == string(raw) || (err != nil && string(raw) == "{}") {
		return nil
	}
	return tx.PutMeta(key, string(raw))
}

// edit changes the record of an agent inside a transaction.
func (g *Machine) edit(tx hub.Tx, agent hub.AgentID, change func(*agentRecord) error) error {
	a, err := g.load(tx, agent)
	if err != nil {
		return err
	}
	a.tx = tx
	if err := change(a); err != nil {
		return err
	}
	return a.save()
}

// update changes the record of an agent for a waiter, a hook or a channel of its sessions,
// and hints at it. Sessions whose process has ended are ended first.
func (g *Machine) update(ctx context.Context, agent hub.AgentID, change func(*agentRecord) error) error {
	err := g.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		return g.edit(tx, agent, func(a *agentRecord) error {
			if err := a.endDead(); err != nil {
				return err
			}
			return change(a)
		})
	})
	if err == nil {
		g.o.Bus.Publish(topic(agent))
	}
	return err
}

// Record records how far a wake has come, in the transaction of the channel that learned
// it. An outcome for a wake that ended changes nothing.
func (g *Machine) Record(tx hub.Tx, agent hub.AgentID, id string, o channel.Outcome) error {
	return g.edit(tx, agent, func(a *agentRecord) error {
		w := a.wakes.find(id)
		if w == nil {
			return nil
		}
		return a.move(w, step{stateOf[o.State], o.Mechanism, o.Detail, o.Proof})
	})
}

// A step is a move of a wake.
type step struct {
	state     hub.WakeState
	mechanism string        // "" leaves that of the wake
	detail    string        // for people
	proof     time.Duration // that the recipient has for the next move; 0 means proofTime
}

// move is the only writer of wakes: it moves a wake by the state machine, with the rows of
// the ledger and the journal entries of its messages, and ends it if the state is final. A
// step that the state machine does not have changes nothing: a report has come late.
func (a *agentRecord) move(w *hub.Wake, s step) error {
	moved, err := w.Advance(s.state, a.now)
	if err != nil {
		return nil
	}
	before := w.State
	*w = moved
	w.Mechanism = cmp.Or(s.mechanism, w.Mechanism)
	w.Detail = s.detail
	w.Machine = a.o.Machine

	s.mechanism = w.Mechanism
	for _, id := range w.Messages {
		if err := a.moveMessage(w, id, s); err != nil {
			return err
		}
	}

	// An open wake ends when its time passes without another report.
	switch w.State {
	case hub.WakeWaiting, hub.WakeTaken, hub.WakeHanded:
		w.Until = a.now.Add(cmp.Or(s.proof, proofTime))
		return nil
	case hub.WakeOffered:
		w.Until = a.now.Add(hookProof)
		return nil
	case hub.WakeStarted:
		w.Until = a.now.Add(turnTime)
		return nil
	}
	return a.end(w, before)
}

// moveMessage moves the newest row of a message of a wake. A row that a hook has shown stays
// when the wake is refused.
func (a *agentRecord) moveMessage(w *hub.Wake, id hub.EnvelopeID, s step) error {
	rows, err := a.tx.Deliveries(id)
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(rows) {
		if d.Recipient != a.agent || d.Channel != w.Channel {
			continue
		}
		if s.state == hub.WakeRefused && d.Status != hub.DeliveryPending {
			return nil
		}
		return a.moveRow(a.tx, d, w, s)
	}
	return nil
}

// end counts a wake that has ended. One that was shown and led to no fetched message costs
// twice, and the third of them in a row disarms the agent.
func (a *agentRecord) end(w *hub.Wake, before hub.WakeState) error {
	fetched, err := a.fetched(w)
	if err != nil {
		return err
	}
	if w.State == hub.WakeFailed && w.Hook {
		a.account.Shown = append(a.account.Shown, w.Messages...)
	}
	w.Messages = nil

	// Only a wake that showed something tells whether the agent reads its messages.
	written := before == hub.WakeTaken || before == hub.WakeHanded
	shownBefore := before == hub.WakeWaiting && w.State == hub.WakeShown // by an earlier notice, see give
	switch {
	case w.Probe || w.Cost == 0 || w.State == hub.WakeAccepted || w.State == hub.WakeRead:
		return nil
	case shownBefore || (w.State == hub.WakeRefused && !written):
		w.Cost = 0 // it showed nothing
		return nil
	case fetched:
		a.account.Barren = 0
		return nil
	}

	w.Cost = 2
	if a.account.Barren++; a.account.Barren < maxBarren {
		return nil
	}
	a.account.Disarmed = fmt.Sprintf("%d wakes in a row led to no message being read", a.account.Barren)
	facts := map[string]any{"reason": a.account.Disarmed, "mechanism": w.Mechanism}
	_, err = a.tx.Append(hub.Caller{ID: hub.Self}.Entry(a.now, actions.WakeDisarmed, string(a.agent), facts))
	return err
}

// moveRow changes one row of the ledger, or adds it, with a journal entry. w is nil for a
// row that no wake concerns.
func (g *Machine) moveRow(tx hub.Tx, d hub.Delivery, w *hub.Wake, s step) error {
	now := g.o.Clock.Now()
	detail := s.text()
	status := statusOf[s.state]
	if d.Status == status && d.Error == detail {
		return nil
	}
	d.Status = status
	d.Error = detail
	if d.DeliveredAt.IsZero() && (status == hub.DeliveryAccepted || status == hub.DeliveryOffered) {
		d.DeliveredAt = now
	}
	if status == hub.DeliveryRead {
		d.ReadAt = now
	}

	// A row without an id is new.
	put := tx.PutDelivery
	if d.ID == 0 {
		put = tx.AddDelivery
	}
	if err := put(d); err != nil {
		return err
	}

	facts := map[string]any{"channel": d.Channel, "recipient": d.Recipient, "status": d.Status, "state": outcomeOf(s.state)}
	for name, text := range map[string]string{"mechanism": s.mechanism, "detail": s.detail} {
		if text != "" {
			facts[name] = text
		}
	}
	if w != nil {
		facts["wake"] = w.ID
	}
	if w != nil && w.Interrupt {
		facts["interrupt"] = true
	}
	e := hub.Caller{ID: hub.Self}.Entry(now, actions.DeliveryMoved, string(d.MessageID), facts)
	if status == hub.DeliveryFailed {
		e.Outcome = hub.OutcomeFailed
	}
	_, err := tx.Append(e)
	return err
}

// text returns the words of a step in a row of the ledger.
func (s step) text() string {
	switch {
	case s.state == hub.WakeStarted || s.state == hub.WakeEnded:
		text := "turn started by "
		if s.state == hub.WakeEnded {
			text = "turn ended, started by "
		}
		text += cmp.Or(s.mechanism, "the channel")
		if s.detail != "" {
			text += ": " + s.detail
		}
		return text
	case s.mechanism != "":
		return s.mechanism + ": " + cmp.Or(s.detail, string(outcomeOf(s.state)))
	}
	return s.detail
}

// invalid reports why a wake must not be shown any more, "" if it may be: its messages still
// wait, and its recipient may be woken.
func (a *agentRecord) invalid(w *hub.Wake) (string, error) {
	if w.Probe {
		return "", nil
	}
	reason, err := a.blocked()
	if err != nil || reason != "" {
		return reason, err
	}
	if n, err := a.waiting(w); err != nil || n == 0 {
		return "already read", err
	}
	return "", nil
}

// fetched reports whether the agent has fetched a message of a wake.
func (a *agentRecord) fetched(w *hub.Wake) (bool, error) {
	n, err := a.waiting(w)
	return err == nil && n < len(w.Messages), err
}

// waiting counts the messages of a wake that the agent has not fetched and that have not
// expired.
func (a *agentRecord) waiting(w *hub.Wake) (n int, err error) {
	for _, id := range w.Messages {
		p, err := a.rd.Parties(id, a.agent)
		if hub.CodeOf(err) == hub.CodeNotFound {
			continue
		}
		if err != nil {
			return 0, err
		}
		m, err := a.rd.Message(id)
		if err != nil {
			return 0, err
		}
		if p[0].State == hub.PartyUnread && (m.ExpiresAt.IsZero() || a.now.Before(m.ExpiresAt.Time)) {
			n++
		}
	}
	return n, nil
}
