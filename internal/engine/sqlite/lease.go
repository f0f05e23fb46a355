package sqlite

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

var stmtRaiseLease = rows.Statement(`INSERT INTO leases (name, number) VALUES (?1, 1)
	ON CONFLICT (name) DO UPDATE SET number = number + 1`)

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
		if _, err := w.Change(op, stmtRaiseLease, name); err != nil {
			return err
		}
		var err error
		l.Number, err = w.LeaseNumber(op, name)
		return err
	})
	if err != nil {
		return hub.Lease{}, err
	}
	s.leases[name] = l
	return l, nil
}
