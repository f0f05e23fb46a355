package sqlite

import (
	"slices"
	"sync/atomic"

	"github.com/parley-agents/parley/hub"
)

// A message that was kept waits to be indexed: to be filed (backlog.go), and to
// be found by its words (texts.go). For many at once that costs a fraction, and
// nobody has to wait for it. So the writer does it when it has nothing else to
// do, when somebody searches, when too many wait, and before the store is
// closed.
//
// Nobody can tell whether a message is filed. The cursor of textsCursor says how
// far all are indexed; what a killed process left out is indexed when the store
// is opened.
const (
	shelfSize   = 512
	lotSize     = 4 * shelfSize // so many are indexed together
	maxWaiting  = 16 * lotSize  // more wait only while the writer is busy with a batch
	maxTexts    = 16 << 20      // and not more than so many bytes of their texts
	textsCursor = "sqlite.texts"
)

// An entry is a message that waits. All but its words and gone belongs to the
// writer or never changes.
type entry struct {
	seq     int64
	row     int64 // rowid of messages
	id      hub.EnvelopeID
	thread  string
	kind    hub.MessageType
	rank    int64
	created hub.Time
	parties []hub.Party
	topic   string
	text    string

	meta  bool          // has its row of message_meta
	filed bool          // has its rows of message_party, too
	gone  atomic.Int64  // from this turn on readers find it filed; 0 if it is not
	words *spelledWords // of the text, once it was taken apart
}

func newEntry(seq, row int64, m *hub.Message, parties []hub.Party) *entry {
	return &entry{
		seq: seq, row: row, id: m.ID, thread: m.ThreadID, kind: m.Type, rank: int64(m.Priority.Rank()), created: m.CreatedAt,
		parties: parties, topic: m.Topic, text: m.Text,
	}
}

// alwaysGone is the turn of an entry that was filed with its message.
const alwaysGone = -1

// concerns reports whether the agent is the sender or a recipient.
func (e *entry) concerns(agent hub.AgentID) bool {
	return slices.ContainsFunc(e.parties, func(p hub.Party) bool { return p.Agent == agent })
}

// awaits reports whether the message lies in the agent's inbox.
func (e *entry) awaits(agent hub.AgentID) bool {
	return slices.Contains(e.parties, hub.Party{Agent: agent, State: hub.PartyUnread})
}

// A shelf holds shelfSize entries, in the order in which they came, and knows
// whom those that are not filed concern. It never changes.
type shelf struct {
	entries []*entry
	of      map[hub.AgentID][]*entry
}

func newShelf(entries []*entry) *shelf {
	s := &shelf{entries, map[hub.AgentID][]*entry{}}
	for _, e := range entries {
		if e.filed {
			continue
		}
		for _, p := range e.parties {
			s.of[p.Agent] = append(s.of[p.Agent], e)
		}
	}
	return s
}

// A backlog is a list of what waits. To a reader it holds all messages that are
// not filed in its snapshot and, so that it need not be exact, maybe some that
// are filed, or not committed: each has to be looked up.
type backlog struct {
	turn    int64 // rises when messages were filed
	shelves []*shelf
	tail    []*entry // what came after them
}

// size returns how many wait.
func (b *backlog) size() int { return len(b.shelves)*shelfSize + len(b.tail) }

// each calls fn with the entries that concern an agent, or with all if it is "",
// save those that are surely filed.
func (b *backlog) each(agent hub.AgentID, fn func(*entry)) {
	visit := func(e *entry) {
		if gone := e.gone.Load(); gone == 0 || gone > b.turn {
			fn(e)
		}
	}
	for _, s := range b.shelves {
		entries := s.entries
		if agent != "" {
			entries = s.of[agent]
		}
		for _, e := range entries {
			visit(e)
		}
	}
	for _, e := range b.tail {
		if agent == "" || e.concerns(agent) {
			visit(e)
		}
	}
}

// A line is the backlog as the writer has it. Changes of a transaction are
// undone by drop, or made to last by keep.
type line struct {
	backlog
	kept    int      // so many of the tail belong to earlier transactions
	filing  []*entry // that this transaction has filed
	indexed prefix   // what this transaction has indexed
	bytes   int      // of texts
	came    int64    // how many have come since the store was opened
	left    int64    // and how many have left, indexed

	unfiled map[hub.EnvelopeID]*entry
	seqs    map[int64]bool  // of the unfiled
	latest  map[int64]int64 // greatest of them, for each millisecond
}

// A prefix is the beginning of a backlog. If it ends in the tail it has all
// shelves.
type prefix struct{ shelves, tail int }

// add puts an entry at the end.
func (l *line) add(e *entry) {
	l.tail = append(l.tail, e)
	l.bytes += len(e.text)
	if e.filed {
		e.gone.Store(alwaysGone)
		return
	}
	if l.unfiled == nil {
		l.unfiled, l.seqs, l.latest = map[hub.EnvelopeID]*entry{}, map[int64]bool{}, map[int64]int64{}
	}
	l.unfiled[e.id], l.seqs[e.seq] = e, true
	l.latest[e.seq>>seqBits] = max(l.latest[e.seq>>seqBits], e.seq)
}

// forget takes an entry that is filed, or was never there, out of the indexes.
func (l *line) forget(e *entry) {
	delete(l.unfiled, e.id)
	delete(l.seqs, e.seq)
	if l.latest[e.seq>>seqBits] == e.seq {
		delete(l.latest, e.seq>>seqBits)
	}
}

// grew reports whether the transaction has added something.
func (l *line) grew() bool { return len(l.tail) > l.kept }

// more reports whether something is not indexed.
func (l *line) more() bool { return l.indexed.shelves < len(l.shelves) || l.indexed.tail < len(l.tail) }

// crowded reports whether too much waits.
func (l *line) crowded() bool { return l.size() >= maxWaiting || l.bytes >= maxTexts }

// lot returns the oldest entries that are not indexed, about lotSize of them,
// and where they end.
func (l *line) lot() (lot []*entry, end prefix) {
	end = l.indexed
	for ; end.shelves < len(l.shelves) && len(lot) < lotSize; end.shelves++ {
		lot = append(lot, l.shelves[end.shelves].entries...)
	}
	if len(lot) < lotSize {
		lot = append(lot, l.tail[end.tail:]...)
		end.tail = len(l.tail)
	}
	return lot, end
}

// behind returns the least row of messages that wait behind a prefix; false if
// none do.
func (l *line) behind(end prefix) (row int64, any bool) {
	look := func(entries []*entry) {
		for _, e := range entries {
			if !any || e.row < row {
				row, any = e.row, true
			}
		}
	}
	for _, s := range l.shelves[end.shelves:] {
		look(s.entries)
	}
	look(l.tail[end.tail:])
	return row, any
}

// keep makes the changes of a transaction last that was committed. It reports
// whether messages were filed.
func (l *line) keep() bool {
	changed := len(l.filing) > 0
	if changed {
		l.turn++
		for i, e := range l.filing {
			e.gone.Store(l.turn)
			l.forget(e)
			l.filing[i] = nil
		}
		l.filing = l.filing[:0]
	}
	l.came += int64(len(l.tail) - l.kept)
	for _, s := range l.shelves[:l.indexed.shelves] {
		l.leave(s.entries)
	}
	l.leave(l.tail[:l.indexed.tail])
	l.shelves, l.tail, l.indexed = l.shelves[l.indexed.shelves:], l.tail[l.indexed.tail:], prefix{}
	for len(l.tail) >= shelfSize {
		l.shelves = append(l.shelves, newShelf(l.tail[:shelfSize:shelfSize]))
		l.tail = l.tail[shelfSize:]
	}
	l.kept = len(l.tail)
	return changed
}

// leave counts entries that are indexed.
func (l *line) leave(entries []*entry) {
	l.left += int64(len(entries))
	for _, e := range entries {
		l.bytes -= len(e.text)
	}
}

// drop forgets the changes of a transaction that was undone. Readers may hold
// the lists, so that nothing in them is written over.
func (l *line) drop() {
	for _, e := range l.tail[l.kept:] {
		l.bytes -= len(e.text)
		l.forget(e)
	}
	l.tail = slices.Clip(l.tail[:l.kept])
	for i, e := range l.filing {
		e.filed = false
		l.filing[i] = nil
	}
	l.filing, l.indexed = l.filing[:0], prefix{}
}
