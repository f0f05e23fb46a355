package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

var (
	stmtForgetWords = rows.Statement(`DELETE FROM message_text WHERE rowid = ?1`)
	stmtRowOf       = rows.Statement(`SELECT rowid FROM messages WHERE id = ?1`)
)

// overwriting calls f, and has SQLite overwrite every byte that f frees.
func (t *tx) overwriting(f func() error) error {
	if err := t.c.db.Exec(`PRAGMA secure_delete = ON`); err != nil {
		return engineError("sqlite.overwriting", err)
	}
	defer t.c.db.Exec(`PRAGMA secure_delete = OFF`)
	return f()
}

// ForgetText overwrites the bytes that it frees. The word index keeps the words of a
// removed row until its parts are merged, so they are all merged: that reads and writes
// the whole index once.
func (t *tx) ForgetText(id hub.EnvelopeID) error {
	return t.overwriting(func() error {
		if err := t.Tx.ForgetText(id); err != nil {
			return err
		}
		return engineError("sqlite.ForgetText", t.c.db.Exec(`INSERT INTO message_text (message_text) VALUES ('optimize')`))
	})
}

// Replaced implements rows.Index.
func (t *tx) Replaced(seq int64, m *hub.Message, parties []hub.Party) error {
	if _, err := t.Change("sqlite.ForgetText", stmtForgetWords, seq); err != nil {
		return err
	}
	var row int64
	q := t.Ask(stmtRowOf, string(m.ID))
	for q.Next() {
		row = q.Row().ColumnInt64(0)
	}
	if err := q.Done(); err != nil || row > t.lag.indexed {
		return err // the words that remain are indexed later
	}
	return t.indexWords(seq, m, parties)
}

// Prune overwrites the rows that it removes: an archive holds the text now, and may have to
// lose it.
func (t *tx) Prune(limit int) (n int, err error) {
	err = t.overwriting(func() (err error) {
		n, err = t.Tx.Prune(limit)
		return err
	})
	return n, err
}

// EmptyLog copies the write-ahead log into the database and empties it, so that no
// replaced page is left in it. It waits for readers, and for at most a few seconds.
func (s *Store) EmptyLog(ctx context.Context) error {
	const op = "sqlite.EmptyLog"
	if err := s.gate.Enter(op); err != nil {
		return err
	}
	defer s.gate.Leave()
	c, err := openConn(s.path, s.busy, readerCache)
	if err != nil {
		return engineError(op, err)
	}
	// A checkpoint that is under way refuses another at once, without a wait.
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for attempt := 0; ; attempt++ {
		if err = sqlite3.BUSY; s.logMu.TryLock() {
			_, _, err = c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
			s.logMu.Unlock()
		}
		if !errors.Is(err, sqlite3.BUSY) || attempt == 20 || ctx.Err() != nil {
			break
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return engineError(op, errors.Join(err, c.close()))
}
