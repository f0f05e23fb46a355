package rows

import (
	"strings"

	"github.com/parley-agents/parley/hub"
)

var landingPolicies = newTable("landing_policies", "landing policy", "id, body_json", func(c *codec, p *hub.LandingPolicy) {
	id := p.ID()
	c.text(&id)
	c.encoded(p, false)
})

var landings = newTable("landings", "landing", "n, queue, state, owner, subject, undoes, revision, body_json", func(c *codec, e *hub.LandingEntry) {
	n := e.ID.Number()
	queue := e.Queue()
	subject := e.Subject()
	c.int64(&n)
	c.text(&queue)
	c.text((*string)(&e.State))
	c.text((*string)(&e.Owner))
	c.optional(&subject)
	c.optional((*string)(&e.Undoes))
	c.int64(&e.Revision)
	c.encoded(e, false)
})

var reviews = newTable("reviews", "review", "n, handoff, entry, state, revision, body_json", func(c *codec, v *hub.Review) {
	n := v.ID.Number()
	c.int64(&n)
	c.optional((*string)(&v.Handoff))
	c.optional((*string)(&v.Entry))
	c.text((*string)(&v.State))
	c.int64(&v.Revision)
	c.encoded(v, false)
})

var (
	allPolicies  = landingPolicies.query(`ORDER BY id`)
	putPolicy    = statement(`INSERT INTO landing_policies (id, body_json) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body_json = excluded.body_json`)
	removePolicy = statement(`DELETE FROM landing_policies WHERE id = ?1`)

	landingByNumber = landings.query(`WHERE n = ?1`)
	lastLanding     = statement(`SELECT n FROM landings WHERE n > 0 ORDER BY n DESC LIMIT 1`)
	putLanding      = landings.update(1, "state", ` AND revision = ?9`)

	reviewByNumber = reviews.query(`WHERE n = ?1`)
	lastReview     = statement(`SELECT n FROM reviews WHERE n > 0 ORDER BY n DESC LIMIT 1`)
	putReview      = reviews.update(1, "state", ` AND revision = ?7`)
)

// A landingReader is the hub.LandingReader of a reader.
type landingReader struct{ r *reader }

// A landingWriter is the hub.LandingWriter of a transaction.
type landingWriter struct{ t *tx }

func (r *reader) Landings() hub.LandingReader { return landingReader{r} }

func (t *tx) WriteLandings() hub.LandingWriter { return landingWriter{t} }

func (v landingReader) Policies() ([]hub.LandingPolicy, error) {
	return landingPolicies.all(v.r, allPolicies)
}

func (v landingReader) Entry(id hub.LandingID) (hub.LandingEntry, error) {
	return landings.one(v.r, string(id), landingByNumber, id.Number())
}

func (v landingReader) Entries(q hub.LandingQuery) ([]hub.LandingEntry, error) {
	var f filter
	f.equal("queue", q.Queue)
	f.equal("subject", q.Subject)
	f.equal("owner", string(q.Owner))
	f.equal("undoes", string(q.Undoes))
	oneOf(&f, "state", q.States)
	order := `ORDER BY n`
	if q.Newest {
		order = `ORDER BY n DESC`
	}
	if q.Cursor != "" && q.Newest {
		f.add(`n < ?`, q.Cursor.Number())
	} else if q.Cursor != "" {
		f.add(`n > ?`, q.Cursor.Number())
	}
	return landings.filtered(v.r, f, order, q.Limit)
}

// oneOf restricts a column to some values, unless there are none.
func oneOf[T ~string](f *filter, column string, values []T) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	f.add(column+` IN (?`+strings.Repeat(`, ?`, len(args)-1)+`)`, args...)
}

func (v landingReader) Review(id hub.ReviewID) (hub.Review, error) {
	return reviews.one(v.r, string(id), reviewByNumber, id.Number())
}

func (v landingReader) Reviews(q hub.ReviewQuery) ([]hub.Review, error) {
	var f filter
	f.equal("handoff", string(q.Handoff))
	f.equal("entry", string(q.Entry))
	oneOf(&f, "state", q.States)
	if q.Cursor != "" {
		f.add(`n < ?`, q.Cursor.Number())
	}
	return reviews.filtered(v.r, f, `ORDER BY n DESC`, q.Limit)
}

func (w landingWriter) PutPolicy(p hub.LandingPolicy) error {
	_, err := landingPolicies.write(w.t, putPolicy, &p)
	return err
}

func (w landingWriter) RemovePolicy(id string) error {
	n, err := w.t.run(landingPolicies.op(), removePolicy, id)
	if err == nil && n == 0 {
		return notFound(landingPolicies.op(), landingPolicies.noun, id)
	}
	return err
}

func (w landingWriter) PutEntry(e hub.LandingEntry) (hub.LandingID, error) {
	was := e.Revision
	e.Revision++
	if was != 0 {
		return e.ID, landings.put(w.t, string(e.ID), putLanding, &e, was)
	}
	n, err := w.t.number(landings.op(), lastLanding)
	if err != nil {
		return "", err
	}
	e.ID = hub.NewLandingID(n + 1)
	return e.ID, landings.add(w.t, string(e.ID), &e)
}

func (w landingWriter) PutReview(v hub.Review) (hub.ReviewID, error) {
	was := v.Revision
	v.Revision++
	if was != 0 {
		return v.ID, reviews.put(w.t, string(v.ID), putReview, &v, was)
	}
	n, err := w.t.number(reviews.op(), lastReview)
	if err != nil {
		return "", err
	}
	v.ID = hub.NewReviewID(n + 1)
	return v.ID, reviews.add(w.t, string(v.ID), &v)
}
