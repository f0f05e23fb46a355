package rows

import "github.com/parley-agents/parley/hub"

var continuations = newTable("continuations", "continuation", "n, handoff, next_handoff, task, of_agent, state, revision, body_json", func(c *codec, k *hub.Continuation) {
	n := k.ID.Number()
	c.int64(&n)
	c.text((*string)(&k.Handoff))
	c.optional((*string)(&k.Next))
	c.text(&k.Task)
	c.text((*string)(&k.Of))
	c.text((*string)(&k.State))
	c.int64(&k.Revision)
	c.encoded(k, false)
})

var rescues = newTable("rescues", "rescue", "n, agent, body_json", func(c *codec, r *hub.Rescue) {
	n := r.ID.Number()
	c.int64(&n)
	c.text((*string)(&r.Agent))
	c.encoded(r, false)
})

var (
	continuationByNumber = continuations.query(`WHERE n = ?1`)
	lastContinuation     = statement(`SELECT n FROM continuations WHERE n > 0 ORDER BY n DESC LIMIT 1`)
	putContinuation      = continuations.update(1, "next_handoff", ` AND revision = ?9`)

	rescueByNumber = rescues.query(`WHERE n = ?1`)
	removeRescue   = statement(`DELETE FROM rescues WHERE n = ?1`)
)

// rescueKey is where the number of the newest rescue is stored: a number is not given again after
// its rescue was dropped.
const rescueKey = "rescue/last"

// A continuationReader is the hub.ContinuationReader of a reader.
type continuationReader struct{ r *reader }

// A continuationWriter is the hub.ContinuationWriter of a transaction.
type continuationWriter struct{ t *tx }

func (r *reader) Continuations() hub.ContinuationReader { return continuationReader{r} }

func (t *tx) WriteContinuations() hub.ContinuationWriter { return continuationWriter{t} }

func (v continuationReader) Continuation(id hub.ContinuationID) (hub.Continuation, error) {
	return continuations.one(v.r, string(id), continuationByNumber, id.Number())
}

func (v continuationReader) Continuations(q hub.ContinuationQuery) ([]hub.Continuation, error) {
	var f filter
	f.equal("of_agent", string(q.Of))
	f.equal("task", q.Task)
	f.equal("handoff", string(q.Handoff))
	f.equal("next_handoff", string(q.Next))
	oneOf(&f, "state", q.States)
	if q.Cursor != "" {
		f.add(`n < ?`, q.Cursor.Number())
	}
	return continuations.filtered(v.r, f, `ORDER BY n DESC`, q.Limit)
}

func (v continuationReader) Rescue(id hub.RescueID) (hub.Rescue, error) {
	return rescues.one(v.r, string(id), rescueByNumber, id.Number())
}

func (v continuationReader) Rescues(limit int) ([]hub.Rescue, error) {
	return rescues.filtered(v.r, filter{}, `ORDER BY n DESC`, limit)
}

func (w continuationWriter) PutContinuation(c hub.Continuation) (hub.ContinuationID, error) {
	was := c.Revision
	c.Revision++
	if was != 0 {
		return c.ID, continuations.put(w.t, string(c.ID), putContinuation, &c, was)
	}
	n, err := w.t.number(continuations.op(), lastContinuation)
	if err != nil {
		return "", err
	}
	c.ID = hub.NewContinuationID(n + 1)
	return c.ID, continuations.add(w.t, string(c.ID), &c)
}

func (w continuationWriter) AddRescue(r hub.Rescue) (hub.RescueID, error) {
	last, err := hub.ReadMeta[int64](w.t, rescueKey)
	if err != nil {
		return "", err
	}
	if err := hub.WriteMeta(w.t, rescueKey, last+1); err != nil {
		return "", err
	}
	r.ID = hub.NewRescueID(last + 1)
	return r.ID, rescues.add(w.t, string(r.ID), &r)
}

func (w continuationWriter) RemoveRescue(id hub.RescueID) error {
	n, err := w.t.run(rescues.op(), removeRescue, id.Number())
	if err == nil && n == 0 {
		return notFound(rescues.op(), rescues.noun, string(id))
	}
	return err
}
