package rows

import (
	"github.com/parley-agents/parley/hub"
)

var reservations = newTable("reservations", "reservation", "fence, machine, tree, repository, path, is_pattern, holder, session, shared, task, handoff, why, state, since_at, active_at, until_at, asked_at, base, digest, object, changed, left_sha256, left_lines, found, head", func(c *codec, v *hub.Reservation) {
	c.int64(&v.Fence)
	c.optional(&v.Tree.Machine)
	c.text(&v.Tree.Path)
	c.optional(&v.Tree.Repository)
	c.text(&v.Path)
	c.bool(&v.Pattern)
	c.text((*string)(&v.Holder))
	c.optional(&v.Session)
	c.bool(&v.Shared)
	c.optional((*string)(&v.Task))
	c.optional((*string)(&v.Handoff))
	c.optional(&v.Why)
	c.text((*string)(&v.State))
	c.stamp(&v.Since)
	c.stamp(&v.Active)
	c.time(&v.Until)
	c.time(&v.Asked)
	c.optional(&v.Base)
	c.optional(&v.Digest)
	c.optional(&v.Object)
	c.bool(&v.Changed)
	c.optional(&v.Left)
	c.int(&v.Lines)
	c.optional(&v.Found)
	c.optional(&v.Head)
	v.ID = hub.NewReservationID(v.Fence)
})

var fileWaits = newTable("file_waits", "wait", "tree, path, agent, since_at, told_at, warned", func(c *codec, v *hub.FileWait) {
	c.text(&v.Tree)
	c.text(&v.Path)
	c.text((*string)(&v.Agent))
	c.stamp(&v.Since)
	c.time(&v.Told)
	c.bool(&v.Warned)
})

var fileViews = newTable("file_views", "view", "tree, path, agent, digest, stale, wrote, at", func(c *codec, v *hub.FileView) {
	c.text(&v.Tree)
	c.text(&v.Path)
	c.text((*string)(&v.Agent))
	c.optional(&v.Digest)
	c.optional(&v.Stale)
	c.bool(&v.Wrote)
	c.stamp(&v.At)
})

var fileNotes = newTable("file_notes", "note", "agent, n, kind, path, other, text", func(c *codec, v *hub.FileNote) {
	c.text((*string)(&v.Agent))
	c.int64(&v.N)
	c.text(&v.Kind)
	c.text(&v.Path)
	c.optional((*string)(&v.Other))
	c.text(&v.Text)
})

var (
	reservationsOfTree = reservations.query(`WHERE tree = ?1 ORDER BY fence`)
	countReservations  = statement(`SELECT holder, count(*) FROM reservations WHERE state = 'held' AND is_pattern = 0 GROUP BY holder`)
	putReservation     = reservations.update(1, "session", ` AND state = ?26`)
	removeReservation  = statement(`DELETE FROM reservations WHERE fence = ?1 AND state = ?2`)

	putFileWait = statement(`INSERT INTO file_waits (tree, path, agent, since_at, told_at, warned) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (tree, path, agent) DO UPDATE SET since_at = excluded.since_at, told_at = excluded.told_at, warned = excluded.warned`)
	removeFileWait = statement(`DELETE FROM file_waits WHERE tree = ?1 AND path = ?2 AND agent = ?3`)

	viewsOfFile = fileViews.query(`WHERE tree = ?1 AND path = ?2 ORDER BY agent`)
	putFileView = statement(`INSERT INTO file_views (tree, path, agent, digest, stale, wrote, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
		ON CONFLICT (tree, path, agent) DO UPDATE SET digest = excluded.digest, stale = excluded.stale, wrote = excluded.wrote, at = excluded.at`)
	oldFileViews    = fileViews.query(`WHERE at < ?1 ORDER BY at LIMIT ?2`)
	removeFileView  = statement(`DELETE FROM file_views WHERE tree = ?1 AND path = ?2 AND agent = ?3`)
	notesOfAgent    = fileNotes.query(`WHERE agent = ?1 ORDER BY n`)
	removeFileNotes = statement(`DELETE FROM file_notes WHERE agent = ?1`)
)

// A reservationReader is the hub.ReservationReader of a reader.
type reservationReader struct{ r *reader }

// A reservationWriter is the hub.ReservationWriter of a transaction.
type reservationWriter struct{ t *tx }

func (r *reader) Reservations() hub.ReservationReader { return reservationReader{r} }

func (t *tx) WriteReservations() hub.ReservationWriter { return reservationWriter{t} }

func (v reservationReader) OfTree(tree string) ([]hub.Reservation, error) {
	return reservations.all(v.r, reservationsOfTree, tree)
}

func (v reservationReader) OfAgent(agent hub.AgentID) ([]hub.Reservation, error) {
	var f filter
	f.equal("holder", string(agent))
	return reservations.filtered(v.r, f, `ORDER BY fence`, maxReservations)
}

// maxReservations bounds a list of all reservations of a hub.
const maxReservations = 100_000

func (v reservationReader) Counts() (map[hub.AgentID]int, error) {
	q := v.r.query(countReservations)
	out := map[hub.AgentID]int{}
	for q.next() {
		out[hub.AgentID(q.s.ColumnText(0))] = int(q.s.ColumnInt64(1))
	}
	return out, engineError("store.Reservations.Counts", q.done())
}

func (v reservationReader) Waits(tree string) ([]hub.FileWait, error) {
	var f filter
	f.equal("tree", tree)
	return fileWaits.filtered(v.r, f, `ORDER BY since_at, agent`, maxReservations)
}

func (v reservationReader) Views(tree, path string) ([]hub.FileView, error) {
	return fileViews.all(v.r, viewsOfFile, tree, path)
}

func (v reservationReader) Notes(agent hub.AgentID) ([]hub.FileNote, error) {
	return fileNotes.all(v.r, notesOfAgent, string(agent))
}

func (w reservationWriter) Put(r hub.Reservation, was hub.ReservationState) error {
	switch {
	case was == "":
		return reservations.add(w.t, string(r.ID), &r)
	case r.State == hub.ReservationOver:
		return w.t.compareAndSet("reservation", string(r.ID), removeReservation, r.Fence, string(was))
	}
	return reservations.put(w.t, string(r.ID), putReservation, &r, string(was))
}

func (w reservationWriter) PutWait(v hub.FileWait) error {
	_, err := fileWaits.write(w.t, putFileWait, &v)
	return err
}

func (w reservationWriter) RemoveWait(tree, path string, agent hub.AgentID) error {
	_, err := w.t.run(fileWaits.op(), removeFileWait, tree, path, string(agent))
	return err
}

func (w reservationWriter) PutView(v hub.FileView) error {
	_, err := fileViews.write(w.t, putFileView, &v)
	return err
}

func (w reservationWriter) RemoveViews(before hub.Time, limit int) (int, error) {
	old, err := fileViews.all(&w.t.reader, oldFileViews, before.String(), limit)
	if err != nil {
		return 0, err
	}
	for _, v := range old {
		if _, err := w.t.run(fileViews.op(), removeFileView, v.Tree, v.Path, string(v.Agent)); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}

// AddNote gives the note the number after the last one of its agent.
func (w reservationWriter) AddNote(n hub.FileNote) error {
	have, err := reservationReader{&w.t.reader}.Notes(n.Agent)
	if err != nil {
		return err
	}
	n.N = 1
	if len(have) > 0 {
		n.N = have[len(have)-1].N + 1
	}
	return fileNotes.add(w.t, n.Path, &n)
}

func (w reservationWriter) RemoveNotes(agent hub.AgentID) error {
	_, err := w.t.run(fileNotes.op(), removeFileNotes, string(agent))
	return err
}
