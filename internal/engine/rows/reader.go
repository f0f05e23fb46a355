package rows

import (
	"errors"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

// A reader is a hub.Reader on a connection that is in a transaction.
type reader struct {
	c Conn

	policies  map[string]hub.Policy   // as read, by their text; see policy
	repoLists map[string][]coord.Repo // likewise; see repos
}

// A Reader is a reader for the engines.
type Reader = reader

// NewReader returns a reader on a connection.
func NewReader(c Conn) *Reader {
	return &reader{c: c, policies: map[string]hub.Policy{}, repoLists: map[string][]coord.Repo{}}
}

func (r *reader) Message(id hub.EnvelopeID) (m hub.Message, err error) {
	const op = "store.Message"
	q := r.query(stmtMessage)
	q.text(string(id))
	found := q.next()
	if found {
		m, _, err = r.scanMessage(q.s)
		q.note(err)
	}
	if err := q.done(); err != nil {
		return hub.Message{}, engineError(op, err)
	}
	if !found {
		return hub.Message{}, notFound(op, "message", string(id))
	}
	return m, nil
}

func (r *reader) Parties(id hub.EnvelopeID, only ...hub.AgentID) (all []hub.Party, err error) {
	const op = "store.Parties"
	read := func(q query, args ...any) {
		q.bind(args...)
		for q.next() {
			all = append(all, hub.Party{Agent: hub.AgentID(q.s.ColumnText(0)), State: hub.PartyState(q.s.ColumnText(1)), Hidden: q.s.ColumnInt64(2) != 0})
		}
		err = errors.Join(err, q.done())
	}
	if len(only) == 0 {
		read(r.query(stmtParties), string(id))
	}
	for _, agent := range only {
		read(r.query(stmtParty), string(id), string(agent))
	}
	switch {
	case err != nil:
		return nil, engineError(op, err)
	case len(all) == 0 && len(only) > 0:
		return nil, hub.Errorf(hub.CodeNotFound, op, "message %s does not concern %s", id, only[0])
	case len(all) == 0:
		return nil, notFound(op, "message", string(id))
	}
	return all, nil
}

// Inbox merges the unread messages with the delivered ones; the index gives
// each of the two in the order wanted.
func (r *reader) Inbox(agent hub.AgentID, f hub.InboxFilter) (hub.Page, error) {
	const op = "store.Inbox"
	if f.Limit <= 0 {
		return hub.Page{}, hub.Errorf(hub.CodeInvalid, op, "limit must be positive, got %d", f.Limit)
	}
	after := position{a: -1}
	if f.Cursor != "" {
		var err error
		if after, err = decodeCursor(op, f.Cursor, inboxKey(agent, f)); err != nil {
			return hub.Page{}, err
		}
	}

	arm := func(id StmtID) query {
		q := r.query(id)
		q.text(string(agent))
		q.int(after.a)
		q.int(after.b)
		q.text(f.Now.String())
		q.int(int64(f.Limit) + 1)
		return q
	}
	const rankColumn, seqColumn = 23, 22
	place := func(q *query) position { return position{q.s.ColumnInt64(rankColumn), q.s.ColumnInt64(seqColumn)} }

	// Each of the two statements gives its messages in order; the page takes the earlier of both.
	unread := arm(stmtInboxUnread)
	defer unread.done()
	moreUnread := unread.next()
	var delivered query
	moreDelivered := false
	if !f.NewOnly {
		delivered = arm(stmtInboxDelivered)
		defer delivered.done()
		moreDelivered = delivered.next()
	}

	var page hub.Page
	var last position
	size := 0
	for moreUnread || moreDelivered {
		if len(page.Messages) == f.Limit || (f.Bytes > 0 && size >= f.Bytes) {
			page.Next = encodeCursor(last, inboxKey(agent, f))
			break
		}

		q, more := &unread, &moreUnread
		if !moreUnread || (moreDelivered && place(&delivered).before(place(&unread))) {
			q, more = &delivered, &moreDelivered
		}
		m, _, err := r.scanMessage(q.s)
		if err != nil {
			return hub.Page{}, engineError(op, err)
		}
		last = place(q)
		page.Messages = append(page.Messages, m)
		if f.Bytes > 0 {
			size += m.Size()
		}
		*more = q.next()
	}

	if err := unread.done(); err != nil {
		return hub.Page{}, engineError(op, err)
	}
	if err := delivered.done(); err != nil {
		return hub.Page{}, engineError(op, err)
	}
	return page, nil
}

// count runs a statement that counts.
func (q *query) count(op string) (n int, err error) {
	if q.next() {
		n = int(q.s.ColumnInt64(0))
	}
	return n, engineError(op, q.done())
}

func (r *reader) CountMessages(f hub.CountFilter) (int, error) {
	const op = "store.CountMessages"
	limit := max(f.Limit, 0)
	ids, key := []StmtID{stmtThreadSize}, f.Thread
	switch {
	case f.Inbox != "":
		ids, key = []StmtID{stmtCountUnread, stmtCountDelivered}, string(f.Inbox)
	case f.Type != "":
		ids = []StmtID{stmtThreadRounds}
	}
	total := 0
	for _, id := range ids {
		q := r.query(id)
		q.bind(key, limit-total)
		if id == stmtThreadRounds {
			q.text(string(f.Type))
		}
		n, err := q.count(op)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func (r *reader) Sent(f hub.SentFilter) ([]hub.Sent, error) {
	q := r.query(stmtSentSince)
	q.bind(string(f.From), f.Since, max(f.Limit, 0))
	var all []hub.Sent
	for q.next() {
		to, err := decodeAgents(q.s.ColumnRawText(1))
		if err != nil {
			q.note(err)
			break
		}
		all = append(all, hub.Sent{
			At: columnTime(q.s, 0), To: to, Type: hub.MessageType(q.s.ColumnText(2)), Payload: columnJSON(q.s, 3),
		})
	}
	return all, engineError("store.Sent", q.done())
}

func (r *reader) Expired(now hub.Time, limit int) ([]hub.EnvelopeID, error) {
	q := r.query(stmtExpired)
	q.text(now.String())
	q.int(int64(max(limit, 0)))
	var all []hub.EnvelopeID
	for q.next() {
		all = append(all, hub.EnvelopeID(q.s.ColumnText(0)))
	}
	return all, engineError("store.Expired", q.done())
}

func (r *reader) Deliveries(id hub.EnvelopeID) ([]hub.Delivery, error) {
	q := r.query(stmtDeliveries)
	q.text(string(id))
	var all []hub.Delivery
	for q.next() {
		all = append(all, hub.Delivery{
			ID:          q.s.ColumnInt64(0),
			MessageID:   hub.EnvelopeID(q.s.ColumnText(1)),
			Recipient:   hub.AgentID(q.s.ColumnText(2)),
			Channel:     hub.Channel(q.s.ColumnText(3)),
			Status:      hub.DeliveryStatus(q.s.ColumnText(4)),
			DeliveredAt: columnTime(q.s, 5),
			ReadAt:      columnTime(q.s, 6),
			Error:       q.s.ColumnText(7),
		})
	}
	return all, engineError("store.Deliveries", q.done())
}

func (r *reader) Processed(id hub.EnvelopeID, agent hub.AgentID) (bool, error) {
	q := r.query(stmtProcessed)
	q.text(string(id))
	q.text(string(agent))
	found := q.next()
	return found, engineError("store.Processed", q.done())
}

func (r *reader) SessionMark(agent hub.AgentID, session string) (hub.SessionMark, error) {
	const op = "store.SessionMark"
	q := r.query(stmtSessionMark)
	q.text(string(agent))
	q.text(session)
	m := hub.SessionMark{Agent: agent, Session: session}
	found := q.next()
	if found {
		m.Message = hub.EnvelopeID(q.s.ColumnText(0))
		m.Hop = int(q.s.ColumnInt64(1))
		m.At = columnTime(q.s, 2)
	}
	if err := q.done(); err != nil {
		return hub.SessionMark{}, engineError(op, err)
	}
	if !found {
		return hub.SessionMark{}, notFound(op, "mark of session", session)
	}
	return m, nil
}

func (r *reader) Receipt(actor hub.AgentID, key string) (hub.Receipt, error) {
	const op = "store.Receipt"
	q := r.query(stmtReceipt)
	q.text(string(actor))
	q.text(key)
	rc := hub.Receipt{Actor: actor, Key: key}
	found := q.next()
	if found {
		rc.Request = q.s.ColumnText(0)
		rc.Message = hub.EnvelopeID(q.s.ColumnText(1))
		rc.At = columnTime(q.s, 2)
	}
	if err := q.done(); err != nil {
		return hub.Receipt{}, engineError(op, err)
	}
	if !found {
		return hub.Receipt{}, notFound(op, "receipt for key", key)
	}
	return rc, nil
}

// entries collects the rows of a query for journalColumns.
func (q *query) entries(op string) ([]hub.Entry, error) {
	var all []hub.Entry
	for q.next() {
		all = append(all, hub.Entry{
			Seq:     q.s.ColumnInt64(0),
			At:      columnTime(q.s, 1),
			Actor:   hub.AgentID(q.s.ColumnText(2)),
			Action:  actions.Action(q.s.ColumnText(3)),
			Subject: q.s.ColumnText(4),
			Outcome: hub.Outcome(q.s.ColumnText(5)),
			Facts:   columnJSON(q.s, 6),
			Hash:    q.s.ColumnText(7),
		})
	}
	return all, engineError(op, q.done())
}

func (r *reader) Journal(f hub.JournalQuery) ([]hub.Entry, error) {
	id := stmtJournal
	switch {
	case f.Subject != "" && f.Newest:
		id = stmtJournalOfNewest
	case f.Subject != "":
		id = stmtJournalOf
	case f.Newest:
		id = stmtJournalNewest
	}
	q := r.query(id)
	q.int(f.After)
	q.int(int64(max(f.Limit, 0)))
	if f.Subject != "" {
		q.text(f.Subject)
	}
	return q.entries("store.Journal")
}

func (r *reader) Cursor(consumer string) (seq int64, err error) {
	q := r.query(stmtCursor)
	q.text(consumer)
	if q.next() {
		seq = q.s.ColumnInt64(0)
	}
	return seq, engineError("store.Cursor", q.done())
}

func (r *reader) Meta(key string) (value string, err error) {
	const op = "store.Meta"
	q := r.query(stmtMeta)
	q.text(key)
	found := q.next()
	if found {
		value = q.s.ColumnText(0)
	}
	if err := q.done(); err != nil {
		return "", engineError(op, err)
	}
	if !found {
		return "", notFound(op, "fact", key)
	}
	return value, nil
}

// Teamspaces returns the reader as the part about teams.
func (r *reader) Teamspaces() hub.TeamReader { return r }

// Coordination returns the reader as the part about projects.
func (r *reader) Coordination() coord.Reader { return r }
