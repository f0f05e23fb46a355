package rows

import "github.com/parley-agents/parley/hub"

var stmtLease = statementIn(func(d Dialect) string { return `SELECT number FROM leases WHERE name = ?1` + d.untilCommit() })

// LeaseNumber returns the number of the newest lease of a name, or 0.
func (r *reader) LeaseNumber(op, name string) (n int64, err error) {
	q := r.query(stmtLease)
	q.text(name)
	if q.next() {
		n = q.s.ColumnInt64(0)
	}
	return n, engineError(op, q.done())
}

func (t *tx) CheckLease(l hub.Lease) error {
	const op = "store.CheckLease"
	n, err := t.LeaseNumber(op, l.Name)
	if err == nil && n != l.Number {
		return hub.Errorf(hub.CodeConflict, op, "the lease of %s has number %d, not %d: another process does this work now", l.Name, n, l.Number)
	}
	return err
}
