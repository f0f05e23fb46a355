package rows

import (
	"math"

	"github.com/parley-agents/parley/hub"
)

var subscriptions = newTable("subscriptions", "subscription", "agent, id, created_at, filter_json", func(c *codec, s *hub.Subscription) {
	c.text((*string)(&s.Agent))
	c.text(&s.ID)
	c.stamp(&s.CreatedAt)
	c.encoded(&s.Filter, false)
})

var copies = newTable("copies", "copy", "agent, message_id, made_by, status, at, due_at, copy_id", func(c *codec, v *hub.Copy) {
	c.text((*string)(&v.Agent))
	c.text((*string)(&v.Message))
	c.text(&v.By)
	c.optional(&v.Text)
	c.stamp(&v.At)
	c.stamp(&v.DueAt)
	c.optional((*string)(&v.Copy))
})

var (
	removeSubscription = statement(`DELETE FROM subscriptions WHERE agent = ?1 AND id = ?2`)
	putCopy            = statement(`UPDATE copies SET copy_id = ?3 WHERE agent = ?1 AND message_id = ?2 AND copy_id IS NULL`)
	removeCopy         = statement(`DELETE FROM copies WHERE agent = ?1 AND message_id = ?2 AND copy_id IS NULL`)
)

func (r *reader) Subscriptions(agent hub.AgentID) ([]hub.Subscription, error) {
	var w filter
	w.equal("agent", string(agent))
	return subscriptions.filtered(r, w, `ORDER BY agent, created_at, id`, math.MaxInt32)
}

func (r *reader) Copies(q hub.CopyQuery) ([]hub.Copy, error) {
	var w filter
	w.equal("agent", string(q.Agent))
	w.equal("message_id", string(q.Message))
	w.equal("status", q.Text)
	if !q.Since.IsZero() {
		w.add("at > ?", q.Since.String())
	}
	if q.Waiting {
		w.add("copy_id IS NULL")
	}
	if !q.Due.IsZero() {
		w.add("due_at <= ?", q.Due.String())
	}
	return copies.filtered(r, w, `ORDER BY agent, at, message_id`, q.Limit)
}

func (t *tx) AddSubscription(s hub.Subscription) error { return subscriptions.add(t, s.ID, &s) }

func (t *tx) RemoveSubscription(agent hub.AgentID, id string) error {
	n, err := t.run("store.RemoveSubscription", removeSubscription, string(agent), id)
	if err == nil && n == 0 {
		return notFound(subscriptions.op(), "subscription", id)
	}
	return err
}

func (t *tx) AddCopy(c hub.Copy) error {
	return copies.add(t, string(c.Message)+" for "+string(c.Agent), &c)
}

func (t *tx) PutCopy(agent hub.AgentID, message, copied hub.EnvelopeID) error {
	if copied == "" {
		return t.compareAndSet("copy", string(message), removeCopy, string(agent), string(message))
	}
	return t.compareAndSet("copy", string(message), putCopy, string(agent), string(message), string(copied))
}
