package sqlite

import (
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A tx is a hub.Tx on the writer's connection. It serves the functions of a
// batch one after the other.
type tx struct {
	reader

	head   head  // the newest journal entry of this transaction
	lag    lag   // of the word index, in this transaction
	topSeq int64 // the greatest seq of message_meta, or greater after a rollback
	wrote  bool  // the function at hand has changed something
	fault  error // spoils the function at hand, even if it returns nil

	foreign error // once the journal has a row of another program, the answer to every change
}

// newTx returns a tx on a connection.
func newTx(c *conn) *tx {
	t := new(tx)
	t.use(c)
	return t
}

// use lets the tx go on with another connection, or with none.
func (t *tx) use(c *conn) { t.reader = reader{c: c} }

// A head is the newest entry of the journal.
type head struct {
	seq  int64
	hash string
}

// change runs a statement that writes and returns how many rows it changed. An
// error other than a refusal of this one row spoils the function at hand.
func (t *tx) change(op string, q *query) (int64, error) {
	if err := q.exec(); err != nil {
		err = engineError(op, err)
		switch hub.CodeOf(err) {
		case hub.CodeConflict, hub.CodeNotFound, hub.CodeInvalid:
		default:
			t.spoil(err)
		}
		return 0, err
	}
	n := t.c.db.Changes()
	if n > 0 {
		t.wrote = true
	}
	return n, nil
}

// spoil makes sure that the function at hand fails.
func (t *tx) spoil(err error) {
	if t.fault == nil {
		t.fault = err
	}
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (t *tx) AddMessage(m hub.Message, parties []hub.Party) error {
	const op = "sqlite.AddMessage"
	if !slices.Contains(hub.MessageStatuses, m.Status) {
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a message status", m.Status)
	}
	if err := t.insertMessage(op, &m.Envelope); err != nil {
		if hub.CodeOf(err) == hub.CodeConflict {
			return hub.Errorf(hub.CodeConflict, op, "there is a message %s already", m.ID)
		}
		return err
	}
	// From here on an error leaves half a message behind.
	err := t.noteMessage(op, t.c.db.LastInsertRowID())
	if err == nil {
		err = t.fileMessage(op, &m, parties)
	}
	if err == nil {
		err = t.addShortID(hub.ShortMessage, string(m.ID))
	}
	if err != nil {
		t.spoil(err)
	}
	return err
}

func (t *tx) insertMessage(op string, e *hub.Envelope) error {
	to, err := encodeAgents(e.To)
	if err != nil {
		return engineError(op, err)
	}
	policy, err := encodePolicy(e.Policy)
	if err != nil {
		return engineError(op, err)
	}
	var context, refs string
	if e.Context != nil {
		if context, err = encodeJSON(e.Context); err != nil {
			return engineError(op, err)
		}
		if len(e.Context.ExternalRefs) > 0 {
			if refs, err = encodeJSON(e.Context.ExternalRefs); err != nil {
				return engineError(op, err)
			}
		}
	}
	q := t.c.query(stmtAddMessage)
	q.text(string(e.ID))
	q.text(e.Protocol)
	q.text(e.Version)
	q.text(string(e.From))
	q.text(to)
	q.some(e.Team)
	q.some(string(e.ReplyTo))
	q.some(e.ThreadID)
	q.text(string(e.Type))
	q.some(e.Topic)
	q.text(string(e.Priority))
	q.text(string(e.Status))
	q.text(string(e.Payload))
	q.text(policy)
	q.some(context)
	q.some(refs)
	if e.Sequence == nil {
		q.null()
	} else {
		q.int(*e.Sequence)
	}
	q.time(e.ExpiresAt)
	q.int(int64(compactLen(e.Payload)))
	q.text(e.CreatedAt.String())
	q.time(e.UpdatedAt)
	_, err = t.change(op, &q)
	return err
}

// fileMessage writes the rows that a message is found by: one of message_meta,
// and one of message_party for its sender and each recipient.
func (t *tx) fileMessage(op string, m *hub.Message, parties []hub.Party) error {
	seq, err := t.freeSeq(op, m)
	if err != nil {
		return err
	}
	q := t.c.query(stmtAddMeta)
	q.int(seq)
	q.text(string(m.ID))
	q.int(int64(m.Hop))
	q.some(string(m.Cause))
	q.some(string(m.Extra))
	if _, err := t.change(op, &q); err != nil {
		return err
	}
	return t.addParties(op, seq, m, parties)
}

func (t *tx) addParties(op string, seq int64, m *hub.Message, parties []hub.Party) error {
	for _, p := range parties {
		q := t.c.query(stmtAddParty)
		q.text(string(p.Agent))
		q.int(seq)
		q.text(string(p.State))
		q.int(int64(m.Priority.Rank()))
		q.text(string(m.Type))
		q.int(boolInt(p.State == hub.PartyHeld))
		if _, err := t.change(op, &q); err != nil {
			return err
		}
	}
	return nil
}

// freeSeq returns the seq of a new message: that of seqOf or, if it is taken,
// the next free one. A seq above topSeq needs no lookup, and nearly every new
// message has one.
func (t *tx) freeSeq(op string, m *hub.Message) (int64, error) {
	seq := seqOf(m.ID, m.CreatedAt)
	for seq <= t.topSeq {
		q := t.c.query(stmtLastSeq)
		q.int(seq)
		q.int((seq>>seqBits + 1) << seqBits)
		last, taken := int64(0), q.next()
		if taken {
			last = q.s.ColumnInt64(0)
		}
		if err := q.done(); err != nil {
			return 0, engineError(op, err)
		}
		if !taken {
			return seq, nil
		}
		seq = max(seq, last) + 1
	}
	t.topSeq = seq
	return seq, nil
}

// Query finds the words of messages of this transaction, too.
func (t *tx) Query(f hub.Query) (hub.Page, error) {
	if f.Text != "" || f.Topic != "" {
		if err := t.indexAll(); err != nil {
			t.spoil(err)
			return hub.Page{}, err
		}
	}
	return t.reader.Query(f)
}

func (t *tx) PutStatus(e hub.Envelope, was hub.MessageStatus) error {
	const op = "sqlite.PutStatus"
	q := t.c.query(stmtPutStatus)
	q.text(string(e.ID))
	q.text(string(e.Status))
	q.time(e.UpdatedAt)
	q.text(string(was))
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "message %s is not %s any more", e.ID, was)
	}
	return err
}

func (t *tx) PutParty(id hub.EnvelopeID, agent hub.AgentID, next, was hub.PartyState) error {
	const op = "sqlite.PutParty"
	q := t.c.query(stmtPutParty)
	q.text(string(id))
	q.text(string(agent))
	q.text(string(next))
	q.text(string(was))
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "message %s is not %s for %s any more", id, was, agent)
	}
	return err
}

func (t *tx) PutDelivery(d hub.Delivery) (int64, error) {
	const op = "sqlite.PutDelivery"
	if !slices.Contains(hub.DeliveryStatuses, d.Status) {
		return 0, hub.Errorf(hub.CodeInvalid, op, "%q is not a delivery status", d.Status)
	}
	id := stmtAddDelivery
	if d.ID != 0 {
		id = stmtPutDelivery
	}
	q := t.c.query(id)
	if d.ID != 0 {
		q.int(d.ID)
	} else {
		q.text(string(d.MessageID))
		q.text(string(d.Recipient))
		q.text(string(d.Channel))
	}
	q.text(string(d.Status))
	q.time(d.DeliveredAt)
	q.time(d.ReadAt)
	q.some(d.Error)
	n, err := t.change(op, &q)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return 0, notFound(op, "message", string(d.MessageID))
	case err != nil:
		return 0, err
	case d.ID == 0:
		return t.c.db.LastInsertRowID(), nil
	case n == 0:
		return 0, hub.Errorf(hub.CodeNotFound, op, "no delivery %d", d.ID)
	}
	return d.ID, nil
}

func (t *tx) MarkProcessed(id hub.EnvelopeID, agent hub.AgentID, at hub.Time) (bool, error) {
	const op = "sqlite.MarkProcessed"
	q := t.c.query(stmtMarkProcessed)
	q.text(string(id))
	q.text(string(agent))
	q.text(at.String())
	n, err := t.change(op, &q)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return false, notFound(op, "message", string(id))
	}
	return n > 0, err
}

func (t *tx) PutSessionMark(m hub.SessionMark) error {
	q := t.c.query(stmtPutSessionMark)
	q.text(string(m.Agent))
	q.text(m.Session)
	q.text(string(m.Message))
	q.int(int64(m.Hop))
	q.text(m.At.String())
	_, err := t.change("sqlite.PutSessionMark", &q)
	return err
}

func (t *tx) AddReceipt(r hub.Receipt) error {
	const op = "sqlite.AddReceipt"
	q := t.c.query(stmtAddReceipt)
	q.text(string(r.Actor))
	q.text(r.Key)
	q.text(r.Request)
	q.text(string(r.Message))
	q.text(r.At.String())
	_, err := t.change(op, &q)
	if hub.CodeOf(err) == hub.CodeConflict {
		return hub.Errorf(hub.CodeConflict, op, "%s has used the key %q already", r.Actor, r.Key)
	}
	return err
}

func (t *tx) Forget(before hub.Time, limit int) (int, error) {
	total := 0
	for _, id := range [...]stmtID{stmtForgetReceipts, stmtForgetMarks} {
		q := t.c.query(id)
		q.text(before.String())
		q.int(int64(max(limit, 0)))
		n, err := t.change("sqlite.Forget", &q)
		if err != nil {
			return total, err
		}
		total += int(n)
	}
	return total, nil
}

func (t *tx) Append(e hub.Entry) (hub.Entry, error) {
	e.Seq = t.head.seq + 1
	e.Hash = e.Chain(t.head.hash)
	q := t.c.query(stmtAppend)
	q.int(e.Seq)
	q.text(e.At.String())
	q.text(string(e.Actor))
	q.text(string(e.Action))
	q.text(e.Subject)
	q.text(string(e.Outcome))
	q.text(string(e.Facts))
	q.text(e.Hash)
	if _, err := t.change("sqlite.Append", &q); err != nil {
		if hub.CodeOf(err) == hub.CodeConflict {
			t.foreign = foreignRow(e.Seq)
			err = t.foreign
		}
		t.spoil(err)
		return hub.Entry{}, err
	}
	t.head = head{e.Seq, e.Hash}
	return e, nil
}

func (t *tx) PutCursor(consumer string, seq int64) error {
	q := t.c.query(stmtPutCursor)
	q.text(consumer)
	q.int(seq)
	_, err := t.change("sqlite.PutCursor", &q)
	return err
}

func (t *tx) PutMeta(key, value string) error {
	const op = "sqlite.PutMeta"
	if key == "schema_version" || key == "protocol_version" {
		return hub.Errorf(hub.CodeInvalid, op, "%s is not for callers to set", key)
	}
	q := t.c.query(stmtPutMeta)
	q.text(key)
	q.text(value)
	_, err := t.change(op, &q)
	return err
}
