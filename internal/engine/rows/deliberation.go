package rows

import (
	"cmp"
	"strings"

	"github.com/parley-agents/parley/hub"
)

var deliberations = newTable("deliberations", "deliberation", "id, kind, state, team, parties_json, due_at, untold, revision, body_json",
	func(c *codec, d *hub.Deliberation) {
		c.text(&d.ID)
		c.text((*string)(&d.Kind))
		c.text((*string)(&d.State))
		c.optional(&d.Team)
		parties := append(append([]hub.AgentID{d.From}, d.Asked...), d.Deciders...)
		c.encoded(&parties, false)
		c.time(&d.DueAt)
		c.bool(&d.Untold)
		c.int64(&d.Revision)
		c.encoded(d, false)
	})

var decisions = newTable("decisions", "decision", "id, team, body_json", func(c *codec, d *hub.Decision) {
	c.text(&d.ID)
	c.optional(&d.Team)
	c.encoded(d, false)
})

var (
	deliberationByID = deliberations.query(`WHERE id = ?1`)
	putDeliberation  = deliberations.update(1, "state", ` AND revision = ?10`)
)

func (r *reader) Deliberation(id string) (hub.Deliberation, error) {
	return deliberations.one(r, id, deliberationByID, id)
}

func (r *reader) Deliberations(q hub.DeliberationQuery) ([]hub.Deliberation, error) {
	var w filter
	w.equal("kind", string(q.Kind))
	w.equal("team", q.Team)
	if q.Viewer != "" {
		w.names("parties_json", string(q.Viewer))
	}
	if q.Open {
		w.add(`state NOT IN ('accepted','declined','expired','conceded','decided','lapsed')`)
	}
	if !q.Due.IsZero() {
		w.add(`due_at <= ?`, q.Due)
	}
	if q.Untold {
		w.add(`untold = 1`)
	}
	w.add(`id < ?`, cmp.Or(q.Cursor, lastID))
	return deliberations.filtered(r, w, `ORDER BY id DESC`, q.Limit)
}

func (t *tx) PutDeliberation(d hub.Deliberation) error {
	was := d.Revision
	d.Revision++
	if was == 0 {
		return deliberations.add(t, d.ID, &d)
	}
	return deliberations.put(t, d.ID, putDeliberation, &d, was)
}

func (r *reader) Decisions(q hub.DecisionQuery) ([]hub.Decision, error) {
	var w filter
	w.equal("team", q.Team)
	w.add(`id < ?`, cmp.Or(q.Cursor, lastID))
	return decisions.filtered(r, w, `ORDER BY id DESC`, q.Limit)
}

func (t *tx) AddDecision(d hub.Decision) error { return decisions.add(t, d.ID, &d) }

// names restricts to rows in which a JSON array of names has one.
func (f *filter) names(column, name string) {
	f.add(column+` LIKE ? ESCAPE '!'`, `%"`+strings.ReplaceAll(name, "_", "!_")+`"%`)
}
