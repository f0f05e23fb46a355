package sqlite

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Check looks for damage: it reads the whole database, and reports
// CodeDegraded when something in it is broken.
func (s *Store) Check(ctx context.Context) error {
	return s.read(ctx, "sqlite.Check", func(r *reader) error {
		err := check(r.c, "main", `PRAGMA quick_check(1)`)
		if err == nil {
			err = check(r.c, "main", `PRAGMA foreign_key_check`)
		}
		return err
	})
}

// check runs a pragma that returns a row for damage, or one row "ok".
func check(c *conn, name, pragma string) error {
	found, err := firstText(c, pragma)
	if err != nil {
		return engineError("sqlite.Check", err)
	}
	if found != "" && found != "ok" {
		return hub.Errorf(hub.CodeDegraded, "sqlite.Check", "the database is damaged: %s: %s", name, found).WithHint(restoreHint)
	}
	return nil
}

// CheckBeside looks for damage while the store is in use, with at most half of the
// time of one processor, until ctx ends. It logs damage; Fault reports it until the
// store is closed. It goes on with one table after the other, each in a snapshot of
// its own, because the log cannot begin anew while a snapshot of it is read.
func (s *Store) CheckBeside(ctx context.Context) {
	err := s.checkTables(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	if hub.CodeOf(err) == hub.CodeDegraded {
		s.damage.Store(&err)
	}
	s.log.Error("check of the database", "err", err)
}

func (s *Store) checkTables(ctx context.Context) error {
	const op = "sqlite.CheckBeside"
	if err := s.gate.Enter(op); err != nil {
		return err
	}
	defer s.gate.Leave()
	c, err := openConn(s.path, s.busy, readerCache)
	if err != nil {
		return engineError(op, err)
	}
	defer c.close()
	c.db.SetInterrupt(&half{Context: ctx, since: time.Now()})
	tables, err := texts(c, `SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
	for _, table := range tables {
		if err == nil {
			err = check(c, "table "+table, `PRAGMA quick_check('`+table+`')`)
		}
	}
	return engineError(op, err)
}

// A half is a context for a connection that may work half of the time. The driver
// calls Err every few thousand steps of a statement, from the goroutine that runs it;
// Err then waits for as long as the statement has worked.
type half struct {
	context.Context
	since time.Time // when the work went on
}

// Err waits, and returns the error of the context.
func (h *half) Err() error {
	if worked := time.Since(h.since); worked > 10*time.Millisecond {
		select {
		case <-time.After(worked):
		case <-h.Done():
		}
		h.since = time.Now()
	}
	return h.Context.Err()
}
