package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

var (
	stmtAddText   = rows.Statement(`INSERT INTO message_text (rowid, words) VALUES (?1, ?2)`)
	stmtUnindexed = rows.Statement(`SELECT ` + rows.MessageColumns + `, m.rowid FROM messages AS m CROSS JOIN message_meta AS d ON d.message_id = m.id
		WHERE m.rowid > ?1 ORDER BY m.rowid LIMIT ?2`)
)

// indexWords adds one message to the word index, under its seq.
func (t *tx) indexWords(seq int64, m *hub.Message, parties []hub.Party) error {
	q := t.Ask(stmtAddText, seq, strings.Join(rows.WordsOf(m, parties), " "))
	return q.Exec()
}

// The word index lags behind the messages. Its cursor, stored in the table of
// cursors, is the rowid of messages up to which every message is indexed;
// rowids grow with each insert, independent of the time of a message. The writer
// advances the cursor in batches (see writer.go), each in one transaction with
// the words it adds, so that a process killed at any instant leaves the index
// exactly as far as its cursor says.
const (
	wordCursor = "sqlite.texts"
	wordBatch  = 128  // messages indexed in one transaction: a few milliseconds, for which changes wait
	maxLag     = 2048 // unindexed messages from which the writer indexes a batch after each commit
)

// A lag is the distance between the word index and the messages, in rowids of
// messages.
type lag struct {
	indexed int64 // every message up to here is indexed
	last    int64 // the newest message
}

func (l lag) count() int64 { return l.last - l.indexed }

// Inserted implements rows.Index: it keeps the lag in step with a message that was
// stored. A row at or below the cursor is one that was given again, because the newest
// messages were removed; then the cursor goes back.
func (t *tx) Inserted() error {
	row := t.c.db.LastInsertRowID()
	t.lag.last = row
	if row > t.lag.indexed {
		return nil
	}
	return t.putWordCursor(row - 1)
}

// Filed implements rows.Index. The words follow later.
func (t *tx) Filed(int64, *hub.Message, []hub.Party) error { return nil }

// Query finds the words of messages of this transaction, too.
func (t *tx) Query(f hub.Query) (hub.Page, error) {
	if f.Text != "" || f.Topic != "" {
		if err := t.indexAll(); err != nil {
			t.Spoil(err)
			return hub.Page{}, err
		}
	}
	return t.Tx.Query(f)
}

func (t *tx) putWordCursor(row int64) error {
	t.lag.indexed = row
	return t.PutCursor(wordCursor, row)
}

// indexBatch indexes the oldest messages that are not indexed yet, at most
// wordBatch of them. Messages without parties were written by another program
// and are passed over.
func (t *tx) indexBatch() error {
	const op = "sqlite.IndexText"
	type message struct {
		hub.Message
		seq, row int64
	}
	var batch []message
	q := t.Ask(stmtUnindexed, t.lag.indexed, wordBatch)
	for q.Next() {
		m, seq, err := t.ScanMessage(q.Row())
		q.Note(err)
		batch = append(batch, message{m, seq, q.Row().ColumnInt64(rows.MessageWidth)})
	}
	if err := q.Done(); err != nil {
		return engineError(op, err)
	}

	// The cursor moves to the last message of the batch, or past all messages if there are no more.
	next := t.lag.last
	if len(batch) == wordBatch {
		next = batch[wordBatch-1].row
	}
	slices.SortFunc(batch, func(a, b message) int { return cmp.Compare(a.seq, b.seq) }) // the index is slow when it goes back

	for _, m := range batch {
		parties, err := t.Parties(m.ID)
		if hub.CodeOf(err) == hub.CodeNotFound {
			continue
		}
		if err == nil {
			err = engineError(op, t.indexWords(m.seq, &m.Message, parties))
		}
		if err != nil {
			return err
		}
	}

	return t.putWordCursor(next)
}

// indexAll indexes every message.
func (t *tx) indexAll() error {
	for t.lag.count() > 0 {
		if err := t.indexBatch(); err != nil {
			return err
		}
	}
	return nil
}

// IndexText implements hub.Store. Other changes run between two batches.
func (s *Store) IndexText(ctx context.Context) error {
	for goal := s.lastRow.Load(); s.indexedRow.Load() < goal; {
		if err := s.Update(ctx, hub.SurvivesKill, func(t hub.Tx) error { return t.(*tx).indexBatch() }); err != nil {
			return err
		}
	}
	return nil
}
