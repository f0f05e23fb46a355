package notify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// waitsKey is the key of the fact with the things that wait.
const waitsKey = "notify"

// common is the stored state of all targets together.
type common struct {
	Open    map[string]*openWait `json:"open,omitempty"`
	Batches []string             `json:"batches,omitempty"` // of the delivery channel that are in the journal, oldest first
}

// An openWait is a thing that waits, or did a moment ago.
type openWait struct {
	Seq   int64    `json:"seq"` // of the entry with its beginning
	Kind  string   `json:"kind"`
	ID    string   `json:"id"`
	Fact  string   `json:"fact"`
	Ended hub.Time `json:"ended,omitzero"` // when it waited no more; zero while it waits
}

// begin returns the first position of a new target: before everything that waits, else
// the given one.
func (c common) begin(seq int64) int64 {
	for _, o := range c.Open {
		if o.Ended.IsZero() {
			seq = min(seq, o.Seq-1)
		}
	}
	return max(seq, 1)
}

const maxBatches = 256 // of the delivery channel that are remembered

// entry returns the journal entry about a wait, without text of agents.
func entry(at hub.Time, action actions.Action, w Wait) hub.Entry {
	facts := map[string]any{"kind": w.Kind, "id": w.ID, "fact": w.Fact}
	if w.Agent != "" {
		facts["agent"] = w.Agent
	}
	if w.Command != "" {
		facts["command"] = w.Command
	}
	if w.Private {
		facts["private"] = true
	}
	if w.Urgent {
		facts["urgent"] = true
	}
	return hub.Caller{ID: hub.Self}.Entry(at, action, Subject, facts)
}

// Watch compares the waiting things with those of before, and writes an entry for each that
// began or ended to wait.
func (n *Worker) Watch(ctx context.Context, store hub.Store) error {
	now, err := n.hub.Waiting(ctx)
	if err != nil {
		return fmt.Errorf("notify: what waits: %w", err)
	}

	waits := map[string]Wait{}
	for _, w := range now.Items {
		waits[w.key()] = w
	}

	was, err := hub.Read(ctx, store, func(r hub.Reader) (common, error) { return hub.ReadMeta[common](r, waitsKey) })
	if err != nil || !n.differs(was, waits, now.Partial) {
		return err
	}

	// The state is read again in the transaction, because Deliver changes it, too.
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		c, err := hub.ReadMeta[common](tx, waitsKey)
		if err != nil {
			return err
		}
		if c.Open == nil {
			c.Open = map[string]*openWait{}
		}

		at := n.o.Clock.Now()
		for _, key := range slices.Sorted(maps.Keys(waits)) {
			w := waits[key]
			if old := c.Open[key]; old != nil {
				if old.Ended.IsZero() {
					continue
				}
				old.Ended = hub.Time{} // it flaps: people know
				continue
			}
			e, err := tx.Append(entry(at, actions.WaitBegan, w))
			if err != nil {
				return err
			}
			c.Open[key] = &openWait{Seq: e.Seq, Kind: w.Kind, ID: w.ID, Fact: w.Fact}
		}

		// A wait that ended is kept for flapTime, so that its return is not announced again.
		for _, key := range slices.Sorted(maps.Keys(c.Open)) {
			o := c.Open[key]
			if _, ok := waits[key]; ok || slices.Contains(now.Partial, o.Kind) {
				continue
			}
			switch {
			case o.Ended.IsZero():
				o.Ended = at
				if _, err := tx.Append(entry(at, actions.WaitEnded, Wait{Kind: o.Kind, ID: o.ID, Fact: o.Fact})); err != nil {
					return err
				}
			case at.Sub(o.Ended.Time) >= flapTime:
				delete(c.Open, key)
			}
		}

		return hub.WriteMeta(tx, waitsKey, c)
	})
	if err != nil {
		return fmt.Errorf("notify: record what waits: %w", err)
	}

	n.o.Bus.Publish(hub.TopicJournal)
	return nil
}

// differs reports whether something began or ended to wait, or is to be forgotten.
func (n *Notifier) differs(c common, waits map[string]Wait, partial []string) bool {
	for key := range waits {
		if o := c.Open[key]; o == nil || !o.Ended.IsZero() {
			return true
		}
	}
	now := n.o.Clock.Now()
	for key, o := range c.Open {
		_, ok := waits[key]
		isOver := !ok && !slices.Contains(partial, o.Kind)
		if isOver && (o.Ended.IsZero() || now.Sub(o.Ended.Time) >= flapTime) {
			return true
		}
	}
	return false
}

// takers returns the targets that are told of an event.
func (n *Notifier) takers(event string) (out []Target) {
	for _, t := range n.targets {
		if t.wants(event) {
			out = append(out, t)
		}
	}
	return out
}

// include puts a target that has not begun yet before an entry, so that it is told of it.
func (n *Notifier) include(tx hub.Tx, all common, event string, e hub.Entry) error {
	for _, t := range n.takers(event) {
		cursor, err := tx.Cursor(t.cursor())
		if err == nil && cursor == 0 {
			err = tx.PutCursor(t.cursor(), all.begin(e.Seq-1))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Wants reports whether a target is told of events of a kind.
func (n *Notifier) Wants(kind string) bool { return len(n.takers(kind)) > 0 }

// Tell puts an event into the journal, from which the targets that want it take it. If none
// does, nothing is written.
func (n *Notifier) Tell(tx hub.Tx, w Wait) error {
	if !n.Wants(w.Kind) {
		return nil
	}
	all, err := hub.ReadMeta[common](tx, waitsKey)
	if err != nil {
		return err
	}
	e, err := tx.Append(entry(n.o.Clock.Now(), actions.PeopleEvent, w))
	if err != nil {
		return err
	}
	return n.include(tx, all, w.Kind, e)
}

// Channel returns the delivery channel of people; nil if no target takes messages.
func (n *Notifier) Channel() channel.Channel {
	if !n.Wants(EventMessage) {
		return nil
	}
	return peopleChannel{n}
}

// A peopleChannel tells people that messages wait for an agent. A batch is put into the
// journal, from which targets take it; the ledger says that it is accepted when the
// first of them has.
type peopleChannel struct{ *Notifier }

// mechanism is the name of this way in the ledger.
const mechanism = "notify"

func (c peopleChannel) Name() hub.Channel { return hub.ChannelNotify }

// Check reports why no target can work.
func (c peopleChannel) Check(context.Context) (err error) {
	for _, t := range c.takers(EventMessage) {
		if err = c.usable(t); err == nil {
			return nil
		}
	}
	return err
}

// Reach says that people are told, now or when a target is up again.
func (c peopleChannel) Reach(context.Context, hub.AgentID) channel.Reach {
	return channel.Reach{When: hub.ReachNow, Reason: "people are notified", Mechanism: mechanism}
}

// Deliver puts a batch into the journal, once.
func (c peopleChannel) Deliver(ctx context.Context, b channel.Batch) (channel.Outcome, error) {
	w := Wait{Kind: EventMessage, ID: b.ID, Agent: b.Recipient, Fact: fact(b), Private: true, Command: fmt.Sprintf("parley inbox %s --as-operator", b.Recipient)}
	w.Urgent = slices.ContainsFunc(b.Messages, func(e hub.Envelope) bool { return e.Priority == hub.PriorityCritical })
	longest := c.takers(EventMessage)[0].GiveUp
	for _, t := range c.takers(EventMessage) {
		longest = max(longest, t.GiveUp)
	}

	err := c.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[common](tx, waitsKey)
		if err != nil || slices.Contains(all.Batches, b.ID) {
			return err
		}
		e, err := tx.Append(entry(c.o.Clock.Now(), actions.WaitBegan, w))
		if err != nil {
			return err
		}

		if err := c.include(tx, all, EventMessage, e); err != nil {
			return err
		}

		// A batch that is delivered again is recognized by its id.
		all.Batches = append(all.Batches, b.ID)
		all.Batches = all.Batches[max(0, len(all.Batches)-maxBatches):]
		return hub.WriteMeta(tx, waitsKey, all)
	})
	if err != nil {
		return channel.Outcome{}, err
	}

	c.o.Bus.Publish(hub.TopicJournal)
	return channel.Outcome{State: channel.Waiting, Mechanism: mechanism, Detail: "queued for people", Proof: longest + maxRetry}, nil
}

// fact says which messages wait, in counts.
func fact(b channel.Batch) string {
	kinds := map[string]int{}
	for _, e := range b.Messages {
		kinds[fmt.Sprintf("%s %s", e.Priority, e.Type)]++
	}
	text := ""
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", kinds[kind], kind)
	}
	return fmt.Sprintf("messages are waiting for %s: %s", b.Recipient, text)
}
