package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

var (
	begin    = rows.Statement(`BEGIN`)
	commit   = rows.Statement(`COMMIT`)
	rollback = rows.Statement(`ROLLBACK`)

	// takeWriteLock waits until the transactions that took the lock before are over.
	// The statements after it see what those committed.
	takeWriteLock = rows.Statement(`SELECT pg_advisory_xact_lock(1886546028, hashtext(current_schema()))`)
	journalHead   = rows.Statement(`SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`)
	greatestSeq   = rows.Statement(`SELECT max(seq) FROM message_meta`)

	// noteBatch is part of every transaction, and batchOf tells afterwards whether it
	// was committed.
	noteBatch = rows.Statement(`INSERT INTO writers (id, batch, at) VALUES (?1, ?2, now())
		ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, at = excluded.at`)
	batchOf = rows.Statement(`SELECT batch FROM writers WHERE id = ?1`)
)

// A tx is a hub.Tx on the writer's connection, and the index of words in it.
type tx struct {
	rows.Tx
	machine string
}

// A writer owns the connection that changes the database. It is the rows.Engine of the
// store's writer.
//
// A transaction takes the write lock, reads the end of the journal, runs its functions,
// and notes its number beside its changes: batch in the row of this process among the
// writers. When the connection breaks during the commit, the next connection takes the
// write lock, which the old transaction holds until it is over, and reads that number:
// the commit was made if it is there.
type writer struct {
	s     *Store
	c     *conn // nil without a connection
	tx    tx
	batch int64 // the number of the newest transaction
}

// Tx implements rows.Engine.
func (w *writer) Tx() (hub.Tx, *rows.Tx) { return &w.tx, &w.tx.Tx }

// Reset implements rows.Engine. Statements are read to their end when they run.
func (w *writer) Reset() {}

// Idle implements rows.Engine.
func (w *writer) Idle() error { return nil }

// More implements rows.Engine.
func (w *writer) More() (some, urgent bool) { return false, false }

// Failed implements rows.Engine.
func (w *writer) Failed(err error) error {
	err = named("store.Update", err)
	w.s.fault.Store(&err)
	return err
}

// Succeeded implements rows.Engine.
func (w *writer) Succeeded() { w.s.fault.Store(nil) }

// Ended implements rows.Engine.
func (w *writer) Ended() error {
	switch {
	case w.c == nil || w.c.lost():
		return rows.ErrAgain
	case w.c.failed != nil:
		return w.c.failed
	}
	return nil
}

// Begin implements rows.Engine. A connection may have broken since the last
// transaction; then it is replaced once.
func (w *writer) Begin(hub.Durability) error {
	err := w.begin()
	if err != nil && (w.c == nil || w.c.lost()) {
		w.disconnect()
		err = w.begin()
	}
	if err != nil {
		w.disconnect()
	}
	return err
}

func (w *writer) begin() error {
	if w.c == nil {
		if err := w.connect(); err != nil {
			return err
		}
	}
	w.c.reset()
	w.c.pg.Conn().SetDeadline(time.Now().Add(sendLimit))
	got, err := w.c.ask(begin, takeWriteLock, journalHead, greatestSeq)
	if err != nil {
		return err
	}
	var newest hub.Head
	if rows := got[2].rows; len(rows) == 1 {
		newest = hub.Head{Seq: number(rows[0][0]), Hash: string(rows[0][1])}
	}
	w.tx.Start(newest, number(got[3].rows[0][0]))
	w.batch++
	return nil
}

// Commit implements rows.Engine.
func (w *writer) Commit() error {
	note, err := w.c.Prepared(noteBatch)
	if err != nil {
		return w.Ended()
	}
	end, err := w.c.Prepared(commit)
	if err != nil {
		return w.Ended()
	}

	// The note goes into the same transaction, and proves later that it was committed.
	if err := errors.Join(note.BindText(1, w.s.id), note.BindInt64(2, w.batch)); err != nil {
		return err
	}
	if err := w.c.Later(note); err != nil {
		return err
	}

	got, err := w.c.run(use{name: end.(*stmt).name})
	switch {
	case err == nil && got[0].tag.String() == "COMMIT":
		return nil
	case err == nil: // conn.failed ends a transaction that the database gave up, before this can be
		return hub.Errorf(hub.CodeInternal, "store.Update", "the database answered a commit with %s", got[0].tag)
	case !w.c.lost():
		return err
	}

	// The connection broke during the commit; the note, read on another one, tells whether it was
	// made.
	made, err := w.committed()
	if err != nil {
		return hub.Errorf(hub.CodeDegraded, "store.Update", "the connection to the database was lost during a commit, which may have succeeded: %v", err).
			WithHint("check for the change before you repeat it; a send with an idempotency key can be repeated safely")
	}
	if !made {
		return rows.ErrAgain
	}
	return nil
}

// committed reports whether the newest transaction was committed, on another
// connection.
func (w *writer) committed() (bool, error) {
	w.disconnect()
	if err := w.connect(); err != nil {
		return false, err
	}
	w.c.pg.Conn().SetDeadline(time.Now().Add(sendLimit))
	if _, err := w.c.ask(begin, takeWriteLock); err != nil {
		return false, err
	}
	defer w.Rollback()
	s, err := w.c.Prepared(batchOf)
	if err != nil {
		return false, err
	}
	if err := s.BindText(1, w.s.id); err != nil {
		return false, err
	}
	defer s.Reset()
	return s.Step() && s.ColumnInt64(0) == w.batch, s.Err()
}

// Rollback implements rows.Engine.
func (w *writer) Rollback() {
	if w.c == nil {
		return
	}
	w.c.reset()
	if w.c.lost() || w.c.pg.TxStatus() == 'I' {
		return
	}
	if _, err := w.c.ask(rollback); err != nil {
		w.disconnect()
	}
}

// ask runs statements without parameters in one round trip and returns their results.
func (c *conn) ask(ids ...rows.StmtID) ([]result, error) {
	var uses []use
	for _, id := range ids {
		s, err := c.Prepared(id)
		if err != nil {
			return nil, err
		}
		uses = append(uses, use{name: s.(*stmt).name})
	}
	return c.run(uses...)
}

func (w *writer) connect() error {
	c, err := w.s.connect(context.Background())
	if err != nil {
		return err
	}
	w.c = c
	w.tx.Use(c, &w.tx)
	w.tx.machine = w.s.machine
	return nil
}

func (w *writer) disconnect() {
	if w.c != nil {
		w.c.close()
		w.c = nil
	}
}
