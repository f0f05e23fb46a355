package rows

import "github.com/parley-agents/parley/hub"

var keptWorks = newTable("kept_works", "kept work", "n, tree, repository, agent, revision, body_json", func(c *codec, k *hub.KeptWork) {
	n := k.ID.Number()
	c.int64(&n)
	c.text(&k.Tree.Path)
	c.optional(&k.Tree.Repository)
	c.optional((*string)(&k.Agent))
	c.int64(&k.Revision)
	c.encoded(k, false)
})

var (
	keptByNumber = keptWorks.query(`WHERE n = ?1`)
	putKept      = keptWorks.update(1, "agent", ` AND revision = ?7`)
	removeKept   = statement(`DELETE FROM kept_works WHERE n = ?1`)
)

// A keptReader is the hub.KeptReader of a reader.
type keptReader struct{ r *reader }

// A keptWriter is the hub.KeptWriter of a transaction.
type keptWriter struct{ t *tx }

func (r *reader) Kept() hub.KeptReader { return keptReader{r} }

func (t *tx) WriteKept() hub.KeptWriter { return keptWriter{t} }

func (v keptReader) KeptWork(id hub.KeptID) (hub.KeptWork, error) {
	return keptWorks.one(v.r, string(id), keptByNumber, id.Number())
}

func (v keptReader) KeptWorks(q hub.KeptQuery) ([]hub.KeptWork, error) {
	var f filter
	f.equal("tree", q.Tree)
	f.equal("repository", q.Repository)
	f.equal("agent", string(q.Agent))
	if q.Cursor != "" {
		f.add(`n < ?`, q.Cursor.Number())
	}
	return keptWorks.filtered(v.r, f, `ORDER BY n DESC`, q.Limit)
}

func (w keptWriter) PutKeptWork(k hub.KeptWork) (hub.KeptID, error) {
	was := k.Revision
	k.Revision++
	if was != 0 {
		return k.ID, keptWorks.put(w.t, string(k.ID), putKept, &k, was)
	}
	last, err := hub.ReadMeta[int64](w.t, rescueKey)
	if err != nil {
		return "", err
	}
	if err := hub.WriteMeta(w.t, rescueKey, last+1); err != nil {
		return "", err
	}
	k.ID = hub.NewKeptID(last + 1)
	return k.ID, keptWorks.add(w.t, string(k.ID), &k)
}

func (w keptWriter) RemoveKeptWork(id hub.KeptID) error {
	n, err := w.t.run(keptWorks.op(), removeKept, id.Number())
	if err == nil && n == 0 {
		return notFound(keptWorks.op(), keptWorks.noun, string(id))
	}
	return err
}
