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

// The index of words is written for many messages at once, because that costs
// a fraction of writing it for each: rows wait in the writer's memory until
// there are textsAtOnce of them, until somebody searches, or until the store is
// closed. Then the backlog is filed with them. The cursor of textsCursor says
// how far both have come; what a killed process left out is indexed when the
// store is opened.
const (
	textsAtOnce = 2048
	textsAtMost = 4 * textsAtOnce // if they cannot be written; then nothing else is
	textsCursor = "sqlite.texts"  // its number is a rowid of messages
)

// maxOwners is up to how many agents have words of their own in the index for
// one message. A message that concerns more is found by all and then checked.
const maxOwners = 12

// A textRow is one row of the index of words.
type textRow struct {
	seq int64

	text, topic string // of the message
	parties     []hub.Party

	spelled bool   // what follows is set
	tags    string // a word for each agent concerned, and one for the topic
	body    string // the words of the text, each once
	mine    string // the same and the topic's, each joined with each owner's prefix
}

func newText(seq int64, m *hub.Message, parties []hub.Party) *textRow {
	return &textRow{seq: seq, text: m.Text, topic: m.Topic, parties: parties}
}

// spell sets the words of a row. Words of an owner's own keep the cost of its
// search to what it finds, however many others use the same words.
func (row *textRow) spell() {
	words := wordsOf(row.text)
	owners := []string{everyonePrefix}
	var tags []string
	for _, p := range row.parties {
		tags = append(tags, agentTag(p.Agent))
	}
	if len(row.parties) <= maxOwners {
		owners = owners[:0]
		for _, p := range row.parties {
			owners = append(owners, ownerPrefix(p.Agent))
		}
	}
	row.body = strings.Join(words, " ")
	if row.topic != "" {
		t := topicTag(row.topic)
		tags, words = append(tags, t), append(words, t)
	}
	var mine strings.Builder
	mine.Grow(len(owners) * (len(row.body) + len(words)*(len(everyonePrefix)+16)))
	for _, o := range owners {
		for _, w := range words {
			mine.WriteString(o)
			mine.WriteString(w)
			mine.WriteByte(' ')
		}
	}
	row.tags, row.mine, row.spelled = strings.Join(tags, " "), mine.String(), true
	row.text, row.topic, row.parties = "", "", nil
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

// index files the backlog and writes the texts that wait. They are kept until
// the transaction is committed.
func (t *tx) index() error {
	if err := t.fileAll(); err != nil {
		return err
	}
	return t.writeTexts()
}

// writeTexts writes the rows that wait.
func (t *tx) writeTexts() error {
	rows := t.texts[t.written:]
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b *textRow) int { return cmp.Compare(a.seq, b.seq) }) // the index is slow when it has to go back
	t.spelling.Wait()
	for _, row := range rows {
		if !row.spelled {
			row.spell()
		}
		q := t.c.query(stmtAddText)
		q.int(row.seq)
		q.text(row.tags)
		q.text(row.body)
		q.text(row.mine)
		if err := q.exec(); err != nil {
			return engineError("sqlite.Update", err)
		}
	}
	t.written = len(t.texts)
	t.wrote = true
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
	err := t.PutCursor(textsCursor, t.done.row)
	if err != nil {
		t.spoil(err)
	}
	return err
}

// committedTexts notes that what waits belongs to messages that are kept, and
// forgets what is in the index. New rows are spelled beside the writer.
func (t *tx) committedTexts() {
	fresh := t.texts[t.kept:]
	if t.written > 0 {
		n := copy(t.texts, t.texts[t.written:])
		clear(t.texts[n:])
		t.texts = t.texts[:n]
		t.written = 0
		fresh = t.texts // the others are in the index
	}
	if len(fresh) > 0 {
		fresh = slices.Clone(fresh)
		t.spelling.Go(func() {
			for _, row := range fresh {
				row.spell()
			}
		})
	}
	t.kept = len(t.texts)
	t.done.kept = t.done.row
}

// dropTexts forgets the rows of a transaction that was undone.
func (t *tx) dropTexts() {
	clear(t.texts[t.kept:])
	t.texts, t.written = t.texts[:t.kept], 0
	t.done.row = t.done.kept
}

// Settle implements hub.Store: it writes what waits into the index.
func (s *Store) Settle(ctx context.Context) error {
	if !s.textsWait.Load() {
		return nil
	}
	return s.Update(ctx, hub.SurvivesKill, func(t hub.Tx) error { return t.(*tx).index() })
}

// catchUp indexes messages that were kept but not indexed when a process was
// killed: a few more than textsAtOnce at most.
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
		seq, meta := seqs[i], seqs[i] != 0
		if parties != nil {
			if !meta {
				if seq, err = t.freeSeq(op, &m); err != nil {
					return err
				}
			}
			t.backlog = append(t.backlog, newUnfiled(seq, &m, parties, meta))
		} else if parties, err = t.Parties(m.ID); hub.CodeOf(err) == hub.CodeNotFound {
			continue // another program wrote it
		} else if err != nil {
			return err
		}
		m.Text = hub.SearchText(m.Topic, m.Payload)
		t.texts = append(t.texts, newText(seq, &m, parties))
	}
	if err := t.index(); err != nil {
		return err
	}
	t.committedTexts() // all is over if the commit fails
	t.committedBacklog()
	return nil
}
