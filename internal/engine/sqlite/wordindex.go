package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// indexWords adds one message to the word index, under its seq: the words of its
// text, each once, a word for each party and one for the topic.
func (t *tx) indexWords(seq int64, m *hub.Message, parties []hub.Party) error {
	words := wordsOf(hub.SearchText(m.Topic, m.Payload))
	for _, p := range parties {
		words = append(words, agentTag(p.Agent))
	}
	if m.Topic != "" {
		words = append(words, topicTag(m.Topic))
	}
	q := t.c.query(stmtAddText)
	q.int(seq)
	q.text(strings.Join(words, " "))
	return q.exec()
}

// matchExpression returns the search for all words of a text and for a topic,
// among the messages of the viewer (of all if it is "") and of the agent. Words
// are quoted, so that nothing in them is syntax. The index leaps from each
// message that has the rarest word to the next, so that a search costs the
// messages of its viewer, however many others hold the same words.
func matchExpression(op string, viewer, agent hub.AgentID, topic, text string) (string, error) {
	words := wordsOf(text)
	switch {
	case text != "" && len(words) == 0:
		return "", hub.Errorf(hub.CodeInvalid, op, "the text to search for has no word in it")
	case len(words) > maxWords:
		return "", hub.Errorf(hub.CodeInvalid, op, "the text to search for has more than %d words", maxWords)
	}
	if topic != "" {
		words = append(words, topicTag(topic))
	}
	for _, id := range []hub.AgentID{viewer, agent} {
		if id != "" {
			words = append(words, agentTag(id))
		}
	}
	return `"` + strings.Join(words, `" AND "`) + `"`, nil
}

// The word index lags behind the messages. Its cursor, stored in the table of
// cursors, is the rowid of messages up to which every message is indexed;
// rowids grow with each insert, whatever time a message claims. The writer
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

// noteMessage keeps the lag in step with a message that was stored at row. A
// row at or below the cursor is one that was given again, because the newest
// messages were removed; then the cursor goes back.
func (t *tx) noteMessage(op string, row int64) error {
	t.lag.last = row
	if row > t.lag.indexed {
		return nil
	}
	return t.putWordCursor(row - 1)
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
	q := t.c.query(stmtUnindexed)
	q.int(t.lag.indexed)
	q.int(wordBatch)
	for q.next() {
		m, seq, err := t.c.scanMessage(q.s)
		q.note(err)
		batch = append(batch, message{m, seq, q.s.ColumnInt64(messageWidth)})
	}
	if err := q.done(); err != nil {
		return engineError(op, err)
	}
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
