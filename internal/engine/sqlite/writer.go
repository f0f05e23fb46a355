package sqlite

import (
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

var (
	stmtBegin    = rows.Statement(`BEGIN IMMEDIATE`)
	stmtCommit   = rows.Statement(`COMMIT`)
	stmtRollback = rows.Statement(`ROLLBACK`)
	stmtSnapshot = rows.Statement(`SELECT 1 FROM sqlite_schema LIMIT 1`)
)

// A tx is a hub.Tx on the writer's connection, and the index of words in it.
type tx struct {
	rows.Tx
	c   *conn
	lag lag // of the word index, in this transaction
}

// newTx returns a tx on a connection.
func newTx(c *conn) *tx {
	t := new(tx)
	t.use(c)
	return t
}

// use lets the tx go on with another connection, or with none.
func (t *tx) use(c *conn) {
	t.c = c
	t.Use(c, t)
}

// A writer owns the connection that changes the database. It is the rows.Engine of
// the store's writer. head, lag and topSeq of the transaction are those of the
// database after a commit, and go back with it after a rollback (topSeq may stay too
// high). After an error that leaves the connection in doubt it is closed; the next
// transaction opens another. While no function is queued it indexes words, a batch at
// a time; see wordindex.go.
type writer struct {
	s      *Store
	c      *conn // nil after a failure that it cannot be trusted after
	tx     tx
	strict bool // commits are synced right now

	// The newest journal entry and the lag after the newest commit.
	committed    hub.Head
	committedLag lag
}

// Tx implements rows.Engine.
func (w *writer) Tx() (hub.Tx, *rows.Tx) { return &w.tx, &w.tx.Tx }

// Reset implements rows.Engine.
func (w *writer) Reset() { w.c.reset() }

// Failed implements rows.Engine.
func (w *writer) Failed(err error) error { return w.s.failed(err) }

// Succeeded implements rows.Engine.
func (w *writer) Succeeded() { w.s.succeeded() }

// Idle implements rows.Engine.
func (w *writer) Idle() error { return w.tx.indexBatch() }

// More implements rows.Engine.
func (w *writer) More() (some, urgent bool) {
	n := w.tx.lag.count()
	return n > 0, n >= maxLag
}

// Ended implements rows.Engine: some errors end the transaction on the spot.
func (w *writer) Ended() error {
	if w.c.db.GetAutocommit() {
		return hub.Errorf(hub.CodeDegraded, "store.Update", "the engine undid the change")
	}
	return nil
}

// Commit implements rows.Engine.
func (w *writer) Commit() error {
	if err := w.c.exec(stmtCommit); err != nil {
		return engineError("store.Update", err)
	}
	w.committed, w.committedLag = w.tx.Newest(), w.tx.lag
	w.s.lastRow.Store(w.tx.lag.last)
	w.s.indexedRow.Store(w.tx.lag.indexed)
	w.relax()
	return nil
}

// Begin implements rows.Engine.
func (w *writer) Begin(level hub.Durability) error {
	const op = "store.Update"
	if err := w.tx.Foreign(); err != nil {
		return err
	}
	if w.c == nil {
		if err := w.connect(); err != nil {
			return engineError(op, err)
		}
	}
	if level == hub.SurvivesPowerLoss && !w.s.full {
		if err := w.c.db.Exec(`PRAGMA synchronous = FULL`); err != nil {
			return engineError(op, err)
		}
		w.strict = true
	}
	if err := w.c.exec(stmtBegin); err != nil {
		w.relax()
		return engineError(op, err)
	}
	return nil
}

// connect opens the writer's connection.
func (w *writer) connect() error {
	c, err := openConn(w.s.path, w.s.busy, writerCache)
	if err != nil {
		return err
	}
	c.db.WALHook(w.s.walGrew)
	if w.s.full {
		if err := c.db.Exec(`PRAGMA synchronous = FULL`); err != nil {
			c.close()
			return err
		}
	}

	w.c = c
	w.tx.use(c)
	newest, err := hub.HeadOf(&w.tx)
	if err != nil {
		w.disconnect()
		return err
	}
	w.committed = newest

	// The counters of the transaction continue behind the newest rows.
	topSeq, err := c.number(`SELECT coalesce(max(seq), 0) FROM message_meta`)
	w.tx.Start(newest, topSeq)
	if err == nil {
		w.tx.lag.last, err = c.number(`SELECT coalesce(max(rowid), 0) FROM messages`)
	}
	if err == nil {
		w.tx.lag.indexed, err = w.tx.Cursor(wordCursor)
	}
	if err != nil {
		w.disconnect()
		return err
	}

	w.committedLag = w.tx.lag
	w.s.lastRow.Store(w.tx.lag.last)
	w.s.indexedRow.Store(w.tx.lag.indexed)
	return nil
}

// disconnect closes the writer's connection; the next transaction opens
// another.
func (w *writer) disconnect() {
	if w.c == nil {
		return
	}
	w.c.reset()
	if err := w.c.close(); err != nil {
		w.s.log.Warn("closing the writer's connection", "err", err)
	}
	w.c, w.strict = nil, false
	w.tx.use(nil)
}

// Rollback implements rows.Engine. The engine may have discarded the transaction itself.
func (w *writer) Rollback() {
	w.tx.Rewind(w.committed)
	w.tx.lag = w.committedLag
	if w.c == nil {
		return
	}
	if !w.c.db.GetAutocommit() {
		if err := w.c.exec(stmtRollback); err != nil {
			w.s.log.Error("rollback failed, connecting again", "err", err)
		}
		if !w.c.db.GetAutocommit() {
			w.disconnect()
			return
		}
	}
	w.relax()
}

// relax ends the syncing of commits that begin turned on.
func (w *writer) relax() {
	if !w.strict {
		return
	}
	if err := w.c.db.Exec(`PRAGMA synchronous = NORMAL`); err != nil {
		w.disconnect()
		return
	}
	w.strict = false
}
