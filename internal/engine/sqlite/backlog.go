package sqlite

import (
	"cmp"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// Rows of message_meta and message_party are there to find messages by. For an
// ordinary message they say nothing that its own row does not say, so they are
// not written with it but later, for many at once and in the order of the
// index, which costs a fraction: that is to file a message. Until then it
// stands in the backlog, where readers look, too.
//
// Nobody can tell whether a message is filed. Readers never wait for it, and
// what a killed process did not file is filed when the store is opened.

// filedAtOnce is how many messages are filed together. More than that wait only
// while the writer is busy with a batch.
const filedAtOnce = 512

// An unfiled message is kept, but not filed. It never changes: whoever changes
// its parties files it first.
type unfiled struct {
	seq     int64
	id      hub.EnvelopeID
	thread  string
	kind    hub.MessageType
	rank    int64
	created hub.Time
	parties []hub.Party

	meta bool // has its row of message_meta: something in it is not ordinary
}

func newUnfiled(seq int64, m *hub.Message, parties []hub.Party, meta bool) *unfiled {
	return &unfiled{
		seq: seq, id: m.ID, thread: m.ThreadID, kind: m.Type, rank: int64(m.Priority.Rank()), created: m.CreatedAt,
		parties: parties, meta: meta,
	}
}

// concerns reports whether the agent is the sender or a recipient.
func (u *unfiled) concerns(agent hub.AgentID) bool {
	return slices.ContainsFunc(u.parties, func(p hub.Party) bool { return p.Agent == agent })
}

// awaits reports whether the message lies in the agent's inbox.
func (u *unfiled) awaits(agent hub.AgentID) bool {
	return slices.Contains(u.parties, hub.Party{Agent: agent, State: hub.PartyUnread})
}

// A backlog holds all messages that are not filed and, so that it need not be
// exact, maybe some that are filed or not committed: readers check each in
// their snapshot.
type backlog struct {
	turn int // rises when messages leave
	rows []*unfiled
}

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

// shelve puts a message into the backlog, or files it at once if its own row
// does not tell whom it concerns.
func (t *tx) shelve(op string, seq int64, m *hub.Message, parties []hub.Party) error {
	usual, ordinary := ordinaryParties(m.From, m.To)
	ordinary = ordinary && sameParties(usual, parties)
	meta := !ordinary || m.Hop != 0 || m.Cause != "" || len(m.Extra) > 0
	if meta {
		if err := t.addMeta(op, seq, m); err != nil {
			return err
		}
	}
	if !ordinary {
		return t.addParties(op, []*unfiled{newUnfiled(seq, m, parties, meta)})
	}
	t.backlog = append(t.backlog, newUnfiled(seq, m, usual, meta))
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
func (t *tx) addMetas(op string, messages []*unfiled) ([]*unfiled, error) {
	there := make([]*unfiled, 0, len(messages))
	var rest []*unfiled
	for _, u := range messages {
		if u.meta {
			there = append(there, u)
		} else {
			rest = append(rest, u)
		}
	}
	alone := 0 // so many are written one by one, because one of them is gone
	for len(rest) > 0 {
		id, n := stmtAddPlainMeta, 1
		if len(rest) >= rowsAtOnce && alone == 0 {
			id, n = stmtAddPlainMetas, rowsAtOnce
		}
		q := t.c.query(id)
		for _, u := range rest[:n] {
			q.int(u.seq)
			q.text(string(u.id))
			t.top.filed = max(t.top.filed, u.seq)
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
func (t *tx) addParties(op string, messages []*unfiled) error {
	type row struct {
		*unfiled
		hub.Party
	}
	var rows []row
	for _, u := range messages {
		for _, p := range u.parties {
			rows = append(rows, row{u, p})
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

// file files messages of the backlog. They leave it when the transaction is
// committed.
func (t *tx) file(op string, messages ...*unfiled) error {
	if t.filed == nil {
		t.filed = map[*unfiled]bool{}
	}
	due := make([]*unfiled, 0, len(messages))
	for _, u := range messages {
		if !t.filed[u] {
			due = append(due, u)
		}
	}
	there, err := t.addMetas(op, due)
	if err != nil {
		return err
	}
	for _, u := range due {
		t.filed[u] = true
	}
	return t.addParties(op, there)
}

// fileAll files the whole backlog.
func (t *tx) fileAll() error { return t.file("sqlite.Update", t.backlog...) }

// fileMessage files one message and reports whether it had to be.
func (t *tx) fileMessage(op string, id hub.EnvelopeID) (bool, error) {
	i := slices.IndexFunc(t.backlog, func(u *unfiled) bool { return u.id == id })
	if i < 0 || t.filed[t.backlog[i]] {
		return false, nil
	}
	err := t.file(op, t.backlog[i])
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
		end := (seq>>seqBits + 1) << seqBits
		last, taken := int64(0), false // within the same millisecond
		for _, u := range t.backlog {
			if u.seq >= seq && u.seq < end {
				last, taken = max(last, u.seq), taken || u.seq == seq
			}
		}
		if seq <= t.top.filed {
			q := t.c.query(stmtLastSeq)
			q.int(seq)
			q.int(end)
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
		seq = last + 1
	}
	t.top.any = seq
	return seq, nil
}

// committedBacklog takes off what is filed now. It reports whether anything
// was.
func (t *tx) committedBacklog() bool {
	changed := len(t.filed) > 0
	if changed {
		t.backlog = slices.DeleteFunc(slices.Clone(t.backlog), func(u *unfiled) bool { return t.filed[u] })
		clear(t.filed)
	}
	t.shelved = len(t.backlog)
	return changed
}

// dropBacklog forgets the messages of a transaction that was undone. Readers
// may hold the list, so that nothing in it is written over.
func (t *tx) dropBacklog() {
	t.backlog = slices.Clip(t.backlog[:t.shelved])
	clear(t.filed)
}

// unfiledMessage returns a message of the backlog as it is in the reader's
// snapshot, if it is there and not filed.
func (r *reader) unfiledMessage(u *unfiled) (m hub.Message, found bool, err error) {
	q := r.c.query(stmtUnfiled)
	q.text(string(u.id))
	q.text(string(u.parties[0].Agent))
	q.int(u.seq)
	if found = q.next(); found {
		m, _, err = r.c.scanMessage(q.s)
		q.note(err)
	}
	return m, found, q.done()
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
	r     *reader
	rows  []*unfiled
	place func(*unfiled) position
	keep  func(*hub.Message) bool
	head  hub.Message // the first, if more
	at    position    // its place
	more  bool
	err   error
}

// overlay picks from the backlog, in the order of place. keep decides about
// what a snapshot may have changed.
func (r *reader) overlay(pick func(*unfiled) bool, place func(*unfiled) position, keep func(*hub.Message) bool) *overlay {
	o := &overlay{r: r, place: place, keep: keep}
	for _, u := range r.backlog {
		if pick(u) {
			o.rows = append(o.rows, u)
		}
	}
	slices.SortFunc(o.rows, func(a, b *unfiled) int {
		p, q := place(a), place(b)
		return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b))
	})
	o.next()
	return o
}

// next moves to the next message.
func (o *overlay) next() {
	for o.more = false; !o.more && o.err == nil && len(o.rows) > 0; o.rows = o.rows[1:] {
		var found bool
		o.head, found, o.err = o.r.unfiledMessage(o.rows[0])
		o.at = o.place(o.rows[0])
		o.more = found && o.err == nil && o.keep(&o.head)
	}
}
