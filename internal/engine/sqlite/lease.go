package sqlite

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Lease implements hub.Store. The process that has the database open is the
// only one there is, so every lease is granted, and renewing it costs nothing.
// Its number is raised once in the life of a Store: a process that had the
// database open before had a smaller one.
func (s *Store) Lease(ctx context.Context, name string, _ time.Duration) (hub.Lease, error) {
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	if l, ok := s.leases[name]; ok {
		return l, nil
	}
	l := hub.Lease{Name: name}
	err := s.Update(ctx, hub.SurvivesKill, func(t hub.Tx) error {
		const op = "sqlite.Lease"
		w := t.(*tx)
		q := w.c.query(stmtRaiseLease)
		q.text(name)
		if _, err := w.change(op, &q); err != nil {
			return err
		}
		var err error
		l.Number, err = w.leaseNumber(op, name)
		return err
	})
	if err != nil {
		return hub.Lease{}, err
	}
	s.leases[name] = l
	return l, nil
}

// leaseNumber returns the number of the newest lease of a name, or 0.
func (r *reader) leaseNumber(op, name string) (n int64, err error) {
	q := r.c.query(stmtLease)
	q.text(name)
	if q.next() {
		n = q.s.ColumnInt64(0)
	}
	return n, engineError(op, q.done())
}

func (t *tx) CheckLease(l hub.Lease) error {
	const op = "sqlite.CheckLease"
	n, err := t.leaseNumber(op, l.Name)
	if err == nil && n != l.Number {
		return hub.Errorf(hub.CodeConflict, op, "the lease of %s has number %d, not %d: another process does this work now", l.Name, n, l.Number)
	}
	return err
}
