package wake

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// Record records how far an attempt has come, in the transaction of the channel that
// learned it. An outcome for an attempt that ended changes nothing.
func (g *Machine) Record(tx hub.Tx, agent hub.AgentID, id string, o channel.Outcome) error {
	a, err := hub.ReadMeta[account](tx, accountKey(agent))
	if err != nil {
		return err
	}
	t := a.find(id)
	if t == nil || t.Closed {
		return nil
	}
	if err := g.move(tx, agent, &a, t, o); err != nil {
		return err
	}
	return hub.WriteMeta(tx, accountKey(agent), a)
}

// Started reports whether the turn of an attempt has begun: it was proven, or the
// agent has fetched a message that the attempt announced.
func (g *Machine) Started(rd hub.Reader, agent hub.AgentID, id string) (bool, error) {
	a, err := hub.ReadMeta[account](rd, accountKey(agent))
	if err != nil {
		return false, err
	}
	t := a.find(id)
	if t == nil || t.Closed {
		return false, nil
	}
	fetched, err := g.fetched(rd, agent, t)
	return t.State == channel.TurnStarted || t.State == channel.Handed && fetched, err
}

// move changes the state of an attempt, the rows of its messages and, at its end, the
// count of attempts that led to nothing.
func (g *Machine) move(tx hub.Tx, agent hub.AgentID, a *account, t *attempt, o channel.Outcome) error {
	if was, ok := rank[o.State]; ok && was < rank[t.State] {
		return nil
	}
	now, before := g.o.Clock.Now(), t.State
	t.State, t.Mechanism, t.Detail, t.Machine = o.State, cmp.Or(o.Mechanism, t.Mechanism), o.Detail, g.o.Machine
	for _, id := range t.Messages {
		rows, err := tx.Deliveries(id)
		if err != nil {
			return err
		}
		for _, d := range slices.Backward(rows) {
			if d.Recipient == agent && d.Channel == t.Channel {
				if o.State == channel.Refused && d.Status != hub.DeliveryPending {
					break // a hook has shown it
				}
				if err := g.moveRow(tx, d, t, channel.Outcome{State: o.State, Mechanism: t.Mechanism, Detail: o.Detail}); err != nil {
					return err
				}
				break
			}
		}
	}
	proof := cmp.Or(o.Proof, proofTime)
	switch o.State {
	case channel.Waiting, channel.Handed:
		t.Until = now.Add(proof)
		return nil
	case channel.TurnStarted:
		t.Proven, t.Until = now, now.Add(turnTime)
		return nil
	case channel.Offered:
		if t.Hook && t.Cost > 0 {
			t.Until = now.Add(hookProof)
			return nil
		}
	case channel.Failed:
		if t.Hook {
			a.Shown = append(a.Shown, t.Messages...)
		}
	}
	return g.close(tx, agent, a, t, before)
}

// close ends an attempt. One that was shown and led to no fetched message costs twice,
// and the third of them in a row disarms the agent.
func (g *Machine) close(tx hub.Tx, agent hub.AgentID, a *account, t *attempt, before channel.State) error {
	t.Closed, t.Until = true, hub.Time{}
	if t.Probe || t.Cost == 0 {
		t.Messages = nil
		return nil
	}
	fetched, err := g.fetched(tx, agent, t)
	if err != nil {
		return err
	}
	t.Messages = nil
	switch {
	case t.State == channel.Refused && before != channel.Handed, t.State == channel.Accepted, t.State == channel.Read:
		if t.State == channel.Refused {
			t.Cost = 0 // nothing was shown
		}
		return nil
	case fetched:
		a.Barren = 0
		return nil
	}
	t.Cost = 2
	if a.Barren++; a.Barren < maxBarren {
		return nil
	}
	a.Disarmed = fmt.Sprintf("%d wakes in a row led to no message being read", a.Barren)
	_, err = tx.Append(hub.Caller{ID: hub.Self}.Entry(g.o.Clock.Now(), hub.ActionWakeDisarmed, string(agent), map[string]any{"reason": a.Disarmed, "mechanism": t.Mechanism}))
	return err
}

// moveRow changes one row of the ledger, or adds it, with a journal entry. t is nil for a row that
// no attempt concerns.
func (g *Machine) moveRow(tx hub.Tx, d hub.Delivery, t *attempt, o channel.Outcome) error {
	now := g.o.Clock.Now()
	detail := o.Detail
	if o.Mechanism != "" {
		detail = o.Mechanism + ": " + cmp.Or(o.Detail, string(o.State))
	}
	if o.State == channel.TurnStarted || o.State == channel.TurnEnded {
		detail = map[channel.State]string{channel.TurnStarted: "turn started by ", channel.TurnEnded: "turn ended, started by "}[o.State] + cmp.Or(o.Mechanism, "the channel")
		if o.Detail != "" {
			detail += ": " + o.Detail
		}
	}
	status := words[o.State]
	if d.Status == status && d.Error == detail {
		return nil
	}
	d.Status, d.Error = status, detail
	if d.DeliveredAt.IsZero() && (status == hub.DeliveryAccepted || status == hub.DeliveryOffered) {
		d.DeliveredAt = now
	}
	if status == hub.DeliveryRead {
		d.ReadAt = now
	}
	put := tx.PutDelivery
	if d.ID == 0 {
		put = tx.AddDelivery
	}
	if err := put(d); err != nil {
		return err
	}
	facts := map[string]any{"channel": d.Channel, "recipient": d.Recipient, "status": d.Status, "state": o.State}
	for name, text := range map[string]string{"mechanism": o.Mechanism, "detail": o.Detail} {
		if text != "" {
			facts[name] = text
		}
	}
	if t != nil {
		facts["wake"] = t.ID
	}
	if t != nil && t.Interrupt {
		facts["interrupt"] = true
	}
	e := hub.Caller{ID: hub.Self}.Entry(now, hub.ActionDeliveryMoved, string(d.MessageID), facts)
	if status == hub.DeliveryFailed {
		e.Outcome = hub.OutcomeFailed
	}
	_, err := tx.Append(e)
	return err
}

// Valid reports why an attempt must not be shown any more, "" if it may be.
func (g *Machine) Valid(rd hub.Reader, agent hub.AgentID, id string) (string, error) {
	a, err := hub.ReadMeta[account](rd, accountKey(agent))
	if err != nil {
		return "", err
	}
	t := a.find(id)
	if t == nil || t.Closed {
		return "it ended before it was shown", nil
	}
	reason, err := g.blocked(rd, agent, a)
	if err != nil || reason != "" && !t.Probe {
		return reason, err
	}
	if t.Probe {
		return "", nil
	}
	if n, err := g.waiting(rd, agent, t); err != nil || n == 0 {
		return "already read", err
	}
	return "", nil
}

// Show reports whether a hook may show a batch, and records it as offered. A notice
// that makes the model go on costs a turn: it needs a message that may start one, and
// the same permissions and budgets as a wake.
func (g *Machine) Show(tx hub.Tx, b channel.Batch, mechanism string, turn bool) (bool, error) {
	a, err := hub.ReadMeta[account](tx, accountKey(b.Recipient))
	if err != nil {
		return false, err
	}
	now := g.o.Clock.Now()
	unread, err := readInbox(tx, b.Recipient, now)
	if err != nil {
		return false, err
	}
	t := &attempt{ID: b.ID, Channel: hub.ChannelSession, At: now, Mechanism: mechanism, Hook: true}
	var shown []inboxMessage
	for _, m := range unread {
		if !a.mayWake(m) || a.announced(m, hub.ChannelSession) {
			continue
		}
		if turn {
			root, looped, err := g.loop(tx, a, m.Message, b.Recipient)
			if err != nil {
				return false, err
			}
			m.root = root
			if spent, _ := g.budget(&a, now, m.From); spent != "" || looped != "" {
				continue
			}
		}
		shown = append(shown, m)
		t.carry(m)
	}
	if turn {
		reason, err := g.blocked(tx, b.Recipient, a)
		if err != nil || reason != "" || len(t.Messages) == 0 || a.open(hub.ChannelSession) != nil || g.freeAt(&a, now, shown).After(now.Time) {
			return false, err
		}
		t.Cost = 1
		a.noteAlarms(shown)
	}
	for _, m := range unread {
		row := m.newest(hub.ChannelSession)
		if slices.Contains(t.Messages, m.ID) && (row == nil || row.Status != hub.DeliveryPending) {
			if err := tx.AddDelivery(hub.Delivery{MessageID: m.ID, Recipient: b.Recipient, Channel: hub.ChannelSession, Status: hub.DeliveryPending}); err != nil {
				return false, err
			}
		}
	}
	a.add(t)
	a.show(unread, t.Messages, !turn)
	if err := g.move(tx, b.Recipient, &a, t, channel.Outcome{State: channel.Offered, Mechanism: mechanism, Detail: "shown in a turn"}); err != nil {
		return false, err
	}
	return true, hub.WriteMeta(tx, accountKey(b.Recipient), a)
}
