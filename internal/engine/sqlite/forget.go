package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
)

var (
	stmtForgetMessage = statement(`UPDATE messages SET payload_json = ?2, payload_bytes = ?3, topic = NULL, context_json = NULL, external_refs_json = NULL WHERE id = ?1`)
	stmtForgetMeta    = statement(`UPDATE message_meta SET extra_json = NULL WHERE message_id = ?1`)
	stmtForgetWords   = statement(`DELETE FROM message_text WHERE rowid = (SELECT seq FROM message_meta WHERE message_id = ?1)`)
	stmtPlaceOf       = statement(`SELECT d.seq, m.rowid FROM messages AS m CROSS JOIN message_meta AS d ON d.message_id = m.id WHERE m.id = ?1`)
)

// namesArtifact has no index to use, and is prepared each time for that reason.
const namesArtifact = `SELECT 1 WHERE
	EXISTS (SELECT 1 FROM messages WHERE instr(payload_json, ?1) OR instr(coalesce(context_json, ''), ?1)) OR
	EXISTS (SELECT 1 FROM handoffs WHERE instr(package_json, ?1) OR instr(verification_json, ?1)) OR
	EXISTS (SELECT 1 FROM handoff_history WHERE instr(coalesce(checks_json, ''), ?1))`

// NamesArtifact reads every message and handoff: it is for removals, which are rare.
func (r *reader) NamesArtifact(sha256 string) (bool, error) {
	q := r.c.dynamic(namesArtifact)
	q.text(sha256)
	found := q.next()
	return found, engineError("sqlite.NamesArtifact", q.done())
}

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
	const op = "sqlite.ForgetText"
	return t.overwriting(func() error {
		if err := t.forgetMessage(op, id); err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		return engineError(op, t.c.db.Exec(`INSERT INTO message_text (message_text) VALUES ('optimize')`))
	})
}

// forgetMessage replaces the rows of a message.
func (t *tx) forgetMessage(op string, id hub.EnvelopeID) error {
	m, err := t.Message(id)
	if err != nil {
		return err
	}
	parties, err := t.Parties(id)
	if err != nil {
		return err
	}
	q := t.c.query(stmtPlaceOf)
	q.text(string(id))
	var seq, row int64
	for q.next() {
		seq, row = q.s.ColumnInt64(0), q.s.ColumnInt64(1)
	}
	if err := q.done(); err != nil {
		return engineError(op, err)
	}
	m.Envelope = m.Forgotten()
	if _, err := t.run(op, stmtForgetMessage, string(id), string(m.Payload), int64(len(m.Payload))); err != nil {
		return err
	}
	for _, s := range []stmtID{stmtForgetMeta, stmtForgetWords} {
		if _, err := t.run(op, s, string(id)); err != nil {
			return err
		}
	}
	if row > t.lag.indexed {
		return nil // the words that remain are indexed later
	}
	return engineError(op, t.indexWords(seq, &m, parties))
}

// EmptyLog copies the write-ahead log into the database and empties it, so that no
// replaced page is left in it. It waits for readers, and for at most a few seconds.
func (s *Store) EmptyLog(ctx context.Context) error {
	const op = "sqlite.EmptyLog"
	if !s.enter() {
		return closedError(op)
	}
	defer s.leave()
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
