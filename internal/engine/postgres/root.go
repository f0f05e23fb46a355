package postgres

import (
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

// The folders of a machine are its own: a path means another folder elsewhere. A hub
// sees the roots of its machine alone.
var (
	rootsHere  = rows.Statement(`SELECT path, added_by, added_at FROM roots WHERE machine = ?1 ORDER BY path`)
	addRoot    = rows.Statement(`INSERT INTO roots (path, added_by, added_at, machine) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING`)
	removeRoot = rows.Statement(`DELETE FROM roots WHERE path = ?1 AND machine = ?2`)
)

func rootsOf(r *rows.Reader, machine string) (all []hub.Root, err error) {
	q := r.Ask(rootsHere, machine)
	for q.Next() {
		at, err := hub.ParseTime(q.Row().ColumnText(2))
		q.Note(err)
		all = append(all, hub.Root{Path: q.Row().ColumnText(0), AddedBy: hub.AgentID(q.Row().ColumnText(1)), AddedAt: at})
	}
	return all, named("store.Roots", q.Done())
}

// Roots implements hub.RootReader.
func (r *reader) Roots() ([]hub.Root, error) { return rootsOf(r.Reader, r.machine) }

// Roots implements hub.RootReader.
func (t *tx) Roots() ([]hub.Root, error) { return rootsOf(t.Reading(), t.machine) }

// AddRoot implements hub.RootWriter.
func (t *tx) AddRoot(r hub.Root) error {
	const op = "store.AddRoot"
	n, err := t.Change(op, addRoot, r.Path, string(r.AddedBy), r.AddedAt, t.machine)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "root %s already exists", r.Path)
	}
	return err
}

// RemoveRoot implements hub.RootWriter.
func (t *tx) RemoveRoot(path string) error {
	const op = "store.RemoveRoot"
	n, err := t.Change(op, removeRoot, path, t.machine)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeNotFound, op, "%s is not a root of this machine", path)
	}
	return err
}
