package rows

import (
	"cmp"
	"slices"

	"github.com/parley-agents/parley/hub"
)

var wakes = newTable("wakes", "wake", "agent, id, state, n, channel, mechanism, detail, machine, sessions_json, made_at, until_at, taken_at, handed_at, proven_at, messages_json, senders_json, roots_json, cost, interrupts, repeats, probe, hook", func(c *codec, w *hub.Wake) {
	c.text((*string)(&w.Agent))
	c.text(&w.ID)
	c.text((*string)(&w.State))
	c.int(&w.N)
	c.text((*string)(&w.Channel))
	c.optional(&w.Mechanism)
	c.optional(&w.Detail)
	c.optional(&w.Machine)
	c.encoded(&w.Sessions, len(w.Sessions) == 0)
	c.stamp(&w.At)
	c.time(&w.Until)
	c.time(&w.Taken)
	c.time(&w.Handed)
	c.time(&w.Proven)
	c.encoded(&w.Messages, len(w.Messages) == 0)
	c.encoded(&w.Senders, len(w.Senders) == 0)
	c.encoded(&w.Roots, len(w.Roots) == 0)
	c.int(&w.Cost)
	c.bool(&w.Interrupt)
	c.bool(&w.Repeat)
	c.bool(&w.Probe)
	c.bool(&w.Hook)
})

var (
	wakesOfAgent = wakes.query(`WHERE agent = ?1`)
	putWake      = wakes.update(2, "state", ` AND state = ?23`)
	removeWake   = statement(`DELETE FROM wakes WHERE agent = ?1 AND id = ?2`)
)

// A wakeReader is the hub.WakeReader of a reader.
type wakeReader struct{ r *reader }

// A wakeWriter is the hub.WakeWriter of a transaction.
type wakeWriter struct{ t *tx }

func (r *reader) Wakes() hub.WakeReader { return wakeReader{r} }

func (t *tx) WriteWakes() hub.WakeWriter { return wakeWriter{t} }

func (w wakeReader) OfAgent(agent hub.AgentID) ([]hub.Wake, error) {
	all, err := wakes.all(w.r, wakesOfAgent, string(agent))
	slices.SortFunc(all, func(a, b hub.Wake) int { // few, so that they need no index
		return cmp.Compare(a.N, b.N)
	})
	return all, err
}

func (w wakeWriter) Put(v hub.Wake, was hub.WakeState) error {
	if was == "" {
		return wakes.add(w.t, v.ID, &v)
	}
	return wakes.put(w.t, v.ID, putWake, &v, string(was))
}

func (w wakeWriter) Remove(agent hub.AgentID, id string) error {
	n, err := w.t.run("store.wakes", removeWake, string(agent), id)
	if err == nil && n == 0 {
		return notFound(wakes.op(), "wake", id)
	}
	return err
}
