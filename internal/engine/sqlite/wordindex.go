package sqlite

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// maxOwners is up to how many agents have words of their own in the index for
// one message. A message that concerns more is found by all and then checked.
const maxOwners = 12

// indexWords adds one message to the word index, under its seq. tags holds a
// word for each party and one for the topic; body the words of the text, each
// once; mine the same words and the topic's, each joined with the prefix of
// each party. The prefixed words keep the cost of a search to the messages of
// its caller, however many other agents use the same words.
func (t *tx) indexWords(seq int64, m *hub.Message, parties []hub.Party) error {
	words := wordsOf(hub.SearchText(m.Topic, m.Payload))
	owners := []string{everyonePrefix}
	var tags []string
	for _, p := range parties {
		tags = append(tags, agentTag(p.Agent))
	}
	if len(parties) <= maxOwners {
		owners = owners[:0]
		for _, p := range parties {
			owners = append(owners, ownerPrefix(p.Agent))
		}
	}
	body := strings.Join(words, " ")
	if m.Topic != "" {
		tag := topicTag(m.Topic)
		tags, words = append(tags, tag), append(words, tag)
	}
	var mine strings.Builder
	mine.Grow(len(owners) * (len(body) + len(words)*(len(everyonePrefix)+16)))
	for _, o := range owners {
		for _, w := range words {
			mine.WriteString(o)
			mine.WriteString(w)
			mine.WriteByte(' ')
		}
	}
	q := t.c.query(stmtAddText)
	q.int(seq)
	q.text(strings.Join(tags, " "))
	q.text(body)
	q.text(mine.String())
	return q.exec()
}

// everyonePrefix stands for all whom a message to many concerns.
const everyonePrefix = "oallz"

// ownerPrefix begins the words of an agent's own. Two agents may share one:
// every message found is checked against its parties anyway.
func ownerPrefix(id hub.AgentID) string {
	h := fnv.New64a()
	h.Write([]byte(id))
	return "o" + strconv.FormatUint(h.Sum64(), 16) + "z" // z is no digit
}

// matchExpression returns the search for all words of a text and for a topic,
// among the messages of the viewer (of all if it is "") and of the agent. Words
// are quoted, so that nothing in them is syntax.
func matchExpression(op string, viewer, agent hub.AgentID, topic, text string) (string, error) {
	words := wordsOf(text)
	switch {
	case text != "" && len(words) == 0:
		return "", hub.Errorf(hub.CodeInvalid, op, "the text to search for has no word in it")
	case len(words) > maxWords:
		return "", hub.Errorf(hub.CodeInvalid, op, "the text to search for has more than %d words", maxWords)
	}
	arm := func(column, prefix string, tags ...string) string {
		var terms []string
		for _, w := range words {
			terms = append(terms, column+`:"`+prefix+w+`"`)
		}
		if topic != "" && prefix != "" {
			terms = append(terms, column+`:"`+prefix+topicTag(topic)+`"`)
		} else if topic != "" {
			tags = append(tags, topicTag(topic))
		}
		if agent != "" {
			tags = append(tags, agentTag(agent))
		}
		for _, t := range tags {
			terms = append(terms, `tags:"`+t+`"`)
		}
		return strings.Join(terms, " AND ")
	}
	if viewer == "" {
		return arm("body", ""), nil
	}
	return "(" + arm("mine", ownerPrefix(viewer)) + ") OR (" + arm("mine", everyonePrefix, agentTag(viewer)) + ")", nil
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
