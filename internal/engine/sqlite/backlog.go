package sqlite

import (
	"cmp"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// Rows of message_meta and message_party are there to find messages by. For an
// ordinary message they say nothing that its own row does not say, so they are
// not written with it but later, for many at once and in the order of the
// index: that is to file a message. Until then readers find it in the backlog,
// and need not wait.

// ordinaryParties returns whom a message concerns if nothing has happened to it
// yet, and nobody must let it pass. It reports false if its own row does not
// tell.
func ordinaryParties(from hub.AgentID, to []hub.AgentID) ([]hub.Party, bool) {
	parties := make([]hub.Party, 1, 1+len(to))
	parties[0] = hub.Party{Agent: from, State: hub.PartySender}
	for _, id := range to {
		p := hub.Party{Agent: id, State: hub.PartyUnread}
		if id == from || id == hub.Everyone || slices.Contains(parties, p) {
			return nil, false
		}
		parties = append(parties, p)
	}
	return parties, true
}

// sameParties reports whether two lists without repetitions hold the same.
func sameParties(a, b []hub.Party) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p hub.Party) bool { return !slices.Contains(b, p) })
}

// enqueue lets a message wait to be indexed. It is filed at once if its own row
// does not tell whom it concerns.
func (t *tx) enqueue(op string, seq, row int64, m *hub.Message, parties []hub.Party) error {
	e := newEntry(seq, row, m, parties)
	usual, ordinary := ordinaryParties(m.From, m.To)
	ordinary = ordinary && sameParties(usual, parties)
	if ordinary {
		e.parties = usual
	}
	if e.meta = !ordinary || m.Hop != 0 || m.Cause != "" || len(m.Extra) > 0; e.meta {
		if err := t.addMeta(op, seq, m); err != nil {
			return err
		}
	}
	if e.filed = !ordinary; e.filed {
		if err := t.addParties(op, []*entry{e}); err != nil {
			return err
		}
	}
	t.line.add(e)
	return nil
}

// addMeta writes a message's row of message_meta.
func (t *tx) addMeta(op string, seq int64, m *hub.Message) error {
	q := t.c.query(stmtAddMeta)
	q.int(seq)
	q.text(string(m.ID))
	q.int(int64(m.Hop))
	q.some(string(m.Cause))
	q.some(string(m.Extra))
	_, err := t.change(op, &q)
	t.top.filed = max(t.top.filed, seq)
	return err
}

// rowsAtOnce is how many rows one statement writes.
const rowsAtOnce = 32

// addMetas writes the rows of message_meta that some messages lack. It returns
// those messages that are there: another program may have removed others.
func (t *tx) addMetas(op string, messages []*entry) ([]*entry, error) {
	there := make([]*entry, 0, len(messages))
	var rest []*entry
	for _, e := range messages {
		if e.meta {
			there = append(there, e)
		} else {
			rest = append(rest, e)
		}
	}
	alone := 0 // so many are written one by one, because one of them is gone
	for len(rest) > 0 {
		id, n := stmtAddPlainMeta, 1
		if len(rest) >= rowsAtOnce && alone == 0 {
			id, n = stmtAddPlainMetas, rowsAtOnce
		}
		q := t.c.query(id)
		for _, e := range rest[:n] {
			q.int(e.seq)
			q.text(string(e.id))
			t.top.filed = max(t.top.filed, e.seq)
		}
		_, err := t.change(op, &q)
		switch gone := hub.CodeOf(err) == hub.CodeNotFound; {
		case gone && n > 1:
			alone = n
			continue
		case err != nil && !gone:
			return nil, err
		case !gone:
			there = append(there, rest[:n]...)
		}
		alone = max(alone-n, 0)
		rest = rest[n:]
	}
	return there, nil
}

// addParties writes the rows of message_party of some messages.
func (t *tx) addParties(op string, messages []*entry) error {
	type row struct {
		*entry
		hub.Party
	}
	var rows []row
	for _, e := range messages {
		for _, p := range e.parties {
			rows = append(rows, row{e, p})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.seq, b.seq)) })
	for len(rows) > 0 {
		id, n := stmtAddParty, 1
		if len(rows) >= rowsAtOnce {
			id, n = stmtAddParties, rowsAtOnce
		}
		q := t.c.query(id)
		for _, r := range rows[:n] {
			q.text(string(r.Agent))
			q.int(r.seq)
			q.text(string(r.State))
			q.int(r.rank)
			q.text(string(r.kind))
			q.int(boolInt(r.State == hub.PartyHeld))
		}
		if _, err := t.change(op, &q); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// file files messages that wait. Readers learn of it when the transaction is
// committed.
func (t *tx) file(op string, messages ...*entry) error {
	var due []*entry
	for _, e := range messages {
		if !e.filed {
			due = append(due, e)
		}
	}
	there, err := t.addMetas(op, due)
	if err != nil {
		return err
	}
	for _, e := range due {
		e.filed = true
	}
	t.line.filing = append(t.line.filing, due...)
	return t.addParties(op, there)
}

// fileMessage files one message and reports whether it had to be.
func (t *tx) fileMessage(op string, id hub.EnvelopeID) (bool, error) {
	e := t.line.unfiled[id]
	if e == nil || e.filed {
		return false, nil
	}
	err := t.file(op, e)
	if err != nil {
		t.spoil(err)
	}
	return true, err
}

// A summit is the greatest seq there is.
type summit struct {
	filed int64 // in message_meta
	any   int64 // or in the backlog
}

// freeSeq returns the seq for a message: the one it asks for or, if that is
// taken, the next free one.
func (t *tx) freeSeq(op string, m *hub.Message) (int64, error) {
	seq := seqOf(m.ID, m.CreatedAt)
	for seq <= t.top.any {
		instant := seq >> seqBits
		last, taken := t.line.latest[instant], t.line.seqs[seq]
		if seq <= t.top.filed {
			q := t.c.query(stmtLastSeq)
			q.int(seq)
			q.int((instant + 1) << seqBits)
			if q.next() {
				last, taken = max(last, q.s.ColumnInt64(0)), true
			}
			if err := q.done(); err != nil {
				return 0, engineError(op, err)
			}
		}
		if !taken {
			return seq, nil
		}
		seq = max(seq, last) + 1
	}
	t.top.any = seq
	return seq, nil
}

// unfiledMessage returns a message of the backlog as it is in the reader's
// snapshot, if it is there and not filed.
func (r *reader) unfiledMessage(e *entry) (m hub.Message, found bool, err error) {
	q := r.lookUp(stmtUnfiled, e)
	if found = q.next(); found {
		m, _, err = r.c.scanMessage(q.s)
		q.note(err)
	}
	return m, found, q.done()
}

// isUnfiled reports whether there would be one.
func (r *reader) isUnfiled(e *entry) (bool, error) {
	q := r.lookUp(stmtIsUnfiled, e)
	found := q.next()
	return found, q.done()
}

func (r *reader) lookUp(id stmtID, e *entry) query {
	q := r.c.query(id)
	q.text(string(e.id))
	q.text(string(e.parties[0].Agent))
	q.int(e.seq)
	return q
}

// unfiledParties returns the parties of a message that is not filed; none if it
// is filed or not there.
func (r *reader) unfiledParties(id hub.EnvelopeID) ([]hub.Party, error) {
	q := r.c.query(stmtUnfiledParties)
	q.text(string(id))
	var parties []hub.Party
	if q.next() {
		to, err := decodeAgents(q.s.ColumnRawText(1))
		q.note(err)
		parties, _ = ordinaryParties(hub.AgentID(q.s.ColumnText(0)), to)
	}
	return parties, q.done()
}

// An overlay gives the messages of the backlog that belong into a list, in the
// list's order.
type overlay struct {
	r       *reader
	entries []*entry
	place   func(*entry) position
	keep    func(*hub.Message) bool
	head    hub.Message // the first, if more
	at      position    // its place
	more    bool
	err     error
}

// overlay picks from what concerns an agent, or from all if it is "", in the
// order of place. keep decides about what a snapshot may have changed.
func (r *reader) overlay(agent hub.AgentID, pick func(*entry) bool, place func(*entry) position, keep func(*hub.Message) bool) *overlay {
	o := &overlay{r: r, place: place, keep: keep}
	r.backlog.each(agent, func(e *entry) {
		if pick(e) {
			o.entries = append(o.entries, e)
		}
	})
	slices.SortFunc(o.entries, func(a, b *entry) int {
		p, q := place(a), place(b)
		return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b))
	})
	o.next()
	return o
}

// next moves to the next message.
func (o *overlay) next() {
	for o.more = false; !o.more && o.err == nil && len(o.entries) > 0; o.entries = o.entries[1:] {
		var found bool
		o.head, found, o.err = o.r.unfiledMessage(o.entries[0])
		o.at = o.place(o.entries[0])
		o.more = found && o.err == nil && o.keep(&o.head)
	}
}
