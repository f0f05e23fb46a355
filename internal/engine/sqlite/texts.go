package sqlite

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-agents/parley/hub"
)

// maxOwners is up to how many agents have words of their own in the index for
// one message. A message that concerns more is found by all and then checked.
const maxOwners = 12

// spelledWords are a row of the index of words.
type spelledWords struct {
	tags string // a word for each agent concerned, and one for the topic
	body string // the words of the text, each once
	mine string // the same and the topic's, each joined with each owner's prefix
}

// spell takes the text of an entry apart. Words of an owner's own keep the cost
// of its search to what it finds, however many others use the same words.
func (e *entry) spell() {
	words := wordsOf(e.text)
	owners := []string{everyonePrefix}
	var tags []string
	for _, p := range e.parties {
		tags = append(tags, agentTag(p.Agent))
	}
	if len(e.parties) <= maxOwners {
		owners = owners[:0]
		for _, p := range e.parties {
			owners = append(owners, ownerPrefix(p.Agent))
		}
	}
	body := strings.Join(words, " ")
	if e.topic != "" {
		t := topicTag(e.topic)
		tags, words = append(tags, t), append(words, t)
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
	e.words = &spelledWords{strings.Join(tags, " "), body, mine.String()}
}

// everyonePrefix stands for all whom a message to many concerns.
const everyonePrefix = "oallz"

// ownerPrefix begins the words of an agent's own. Two agents may share one:
// what is found is checked anyway.
func ownerPrefix(id hub.AgentID) string {
	h := fnv.New64a()
	h.Write([]byte(id))
	return "o" + strconv.FormatUint(h.Sum64(), 16) + "z" // z is no digit
}

// matchExpression returns the search for all words of a text and for a topic,
// among what concerns the viewer (everything if it is "") and the agent. Words
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

// index indexes everything that waits.
func (t *tx) index() error {
	for t.line.more() {
		if err := t.indexLot(); err != nil {
			return err
		}
	}
	return nil
}

// indexLot indexes what has waited longest, about lotSize messages. While they are
// filed their texts are taken apart on another processor.
func (t *tx) indexLot() error {
	const op = "sqlite.Update"
	lot, end := t.line.lot()
	if len(lot) == 0 {
		return nil
	}
	var spelling sync.WaitGroup
	spelling.Go(func() {
		for _, e := range lot {
			if e.words == nil {
				e.spell()
			}
		}
	})
	err := t.file(op, lot...)
	spelling.Wait()
	if err != nil {
		return err
	}
	if err := t.writeWords(lot); err != nil {
		return err
	}
	t.line.indexed = end
	if row, waits := t.line.behind(end); waits {
		t.done.row = row - 1
		return t.PutCursor(textsCursor, t.done.row)
	}
	return t.allDone()
}

// writeWords writes the words of some messages. The index is slow when it has to
// go back.
func (t *tx) writeWords(entries []*entry) error {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	for _, e := range entries {
		q := t.c.query(stmtAddText)
		q.int(e.seq)
		q.text(e.words.tags)
		q.text(e.words.body)
		q.text(e.words.mine)
		if err := q.exec(); err != nil {
			return engineError("sqlite.Update", err)
		}
		t.wrote = true
	}
	return nil
}

// allDone notes that all messages are indexed.
func (t *tx) allDone() error {
	q := t.c.query(stmtTextsDone)
	q.text(textsCursor)
	if q.next() {
		t.done.row = q.s.ColumnInt64(0)
	}
	return engineError("sqlite.Update", q.done())
}

// A mark is the rowid of messages up to which all are indexed.
type mark struct {
	row  int64
	kept int64 // after the last commit
}

// reopen takes the mark back if a new message is not beyond it, as happens when
// the newest were removed.
func (t *tx) reopen(op string, row int64) error {
	if row > t.done.row {
		return nil
	}
	t.done.row = row - 1
	return t.PutCursor(textsCursor, t.done.row)
}

// Settle implements hub.Store: it indexes what waits now. Others may change the
// store between two lots.
func (s *Store) Settle(ctx context.Context) error {
	for goal := s.came.Load(); s.left.Load() < goal; {
		if err := s.Update(ctx, hub.SurvivesKill, func(t hub.Tx) error { return t.(*tx).indexLot() }); err != nil {
			return err
		}
	}
	return nil
}

// catchUp indexes messages that were kept but not indexed when a process was
// killed: a few more than maxWaiting at most.
func catchUp(t *tx) (err error) {
	const op = "sqlite.Open"
	txn, err := t.c.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer txn.End(&err)
	q := t.c.query(stmtMissing)
	q.text(textsCursor)
	var found []hub.Message
	var seqs []int64
	for q.next() {
		m, seq, err := t.c.scanMessage(q.s)
		if err != nil {
			q.note(err)
			break
		}
		found, seqs = append(found, m), append(seqs, seq)
	}
	if err := q.done(); err != nil {
		return err
	}
	for i, m := range found {
		parties, err := t.unfiledParties(m.ID)
		if err != nil {
			return err
		}
		seq, meta, filed := seqs[i], seqs[i] != 0, parties == nil
		if filed {
			if parties, err = t.Parties(m.ID); hub.CodeOf(err) == hub.CodeNotFound {
				continue // another program wrote it
			} else if err != nil {
				return err
			}
		} else if !meta {
			if seq, err = t.freeSeq(op, &m); err != nil {
				return err
			}
		}
		m.Text = hub.SearchText(m.Topic, m.Payload)
		e := newEntry(seq, 0, &m, parties) // its row does not matter: all are indexed
		e.meta, e.filed = meta, filed
		t.line.add(e)
	}
	if err := t.index(); err != nil {
		return err
	}
	t.committed() // all is over if the commit fails
	return nil
}
