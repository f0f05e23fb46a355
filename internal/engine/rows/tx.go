package rows

import (
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A tx is a hub.Tx on a writer's connection. It serves the functions of a
// batch one after the other.
type tx struct {
	reader
	index Index

	head   head  // the newest journal entry of this transaction
	topSeq int64 // the greatest seq of message_meta, or greater after a rollback
	batch  batch
	wrote  bool  // the function at hand has changed something
	fault  error // spoils the function at hand, even if it returns nil

	unsummed map[contractKey]*coord.Contract // whose sums follow at the end of the function at hand; nil if the head is to be read

	foreign error // once the journal has a row of another program, the answer to every change
}

// A batch has the numbers that a transaction gave to its rows. The transaction is the only
// one that adds rows meanwhile, and does not read these numbers again.
type batch struct {
	before int64                  // topSeq when the transaction began
	seqs   map[int64]bool         // of messages, above before
	shorts map[string]hub.ShortID // by the ids of messages and handoffs
	counts map[string]int64       // the greatest number of a short id, by kind, once it was read
}

// begin forgets the rows of the transaction before.
func (t *tx) begin() {
	t.batch = batch{t.topSeq, map[int64]bool{}, map[string]hub.ShortID{}, map[string]int64{}}
}

// A Tx is a tx for the engines, which override some of its methods.
type Tx = tx

// An Index is the index of the words of messages, in one transaction. It may lag
// behind the messages.
type Index interface {
	// Inserted is called directly after the row of a message was inserted.
	Inserted() error
	// Filed is called when a message can be found by all but its words.
	Filed(seq int64, m *hub.Message, parties []hub.Party) error
	// Replaced is called when a message has other words than before.
	Replaced(seq int64, m *hub.Message, parties []hub.Party) error
}

// A head is the newest entry of the journal.
type head struct {
	seq  int64
	hash string
}

// Use lets the tx go on with another connection and index.
func (t *tx) Use(c Conn, index Index) {
	t.reader, t.index = *NewReader(c), index
	t.begin()
}

// Reading returns the reader of the transaction.
func (t *tx) Reading() *Reader { return &t.reader }

// Start tells the tx the newest journal entry and the greatest seq of a message.
func (t *tx) Start(newest hub.Head, topSeq int64) {
	t.head, t.topSeq = head{newest.Seq, newest.Hash}, topSeq
	t.begin()
}

// Newest returns number and hash of the newest journal entry.
func (t *tx) Newest() hub.Head { return hub.Head{Seq: t.head.seq, Hash: t.head.hash} }

// Rewind tells the tx the newest journal entry after a rollback.
func (t *tx) Rewind(newest hub.Head) { t.head = head{newest.Seq, newest.Hash} }

// Foreign returns the error after a row of the journal was found that this hub did
// not write, or nil.
func (t *tx) Foreign() error { return t.foreign }

// foreignRow returns the error after a row of the journal was found that this hub
// did not write. The chain has another end than the writer believes, so that it
// must not go on.
func foreignRow(seq int64) error {
	return hub.Errorf(hub.CodeDegraded, "store.Append", "the journal has a row %d that this hub did not write; the hub stopped writing", seq).
		WithHint("end the other program that writes to the database, run parley hub verify, and start the hub again")
}

// Change runs an engine's own statement that writes and returns how many rows it
// changed.
func (t *tx) Change(op string, id StmtID, args ...any) (int64, error) { return t.run(op, id, args...) }

// change runs a statement that writes and returns how many rows it changed. An
// error other than a refusal of this one row spoils the function at hand.
func (t *tx) change(op string, q *query) (int64, error) {
	if err := q.exec(); err != nil {
		return 0, t.refused(engineError(op, err))
	}
	n := t.c.Changes()
	if n > 0 {
		t.wrote = true
	}
	return n, nil
}

// refused returns err, and spoils the function at hand unless it is a refusal of one
// row.
func (t *tx) refused(err error) error {
	switch hub.CodeOf(err) {
	case hub.CodeConflict, hub.CodeNotFound, hub.CodeInvalid:
	default:
		t.spoil(err)
	}
	return err
}

// Later runs an engine's own statement that writes one row, whose outcome is not in
// question.
func (t *tx) Later(op string, id StmtID, args ...any) error {
	q := t.query(id)
	q.bind(args...)
	return t.later(op, &q)
}

// later runs a statement that writes one row, whose outcome is not in question. The
// engine may run it together with the next one; then an error of it spoils the
// function at hand.
func (t *tx) later(op string, q *query) error {
	t.wrote = true
	if q.err == nil {
		q.note(t.c.Later(q.s))
	}
	err := engineError(op, q.refined())
	if err != nil {
		t.spoil(err)
	}
	return err
}

// Spoil makes sure that the function at hand fails.
func (t *tx) Spoil(err error) { t.spoil(err) }

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
	const op = "store.AddMessage"
	if !slices.Contains(hub.MessageStatuses, m.Status) {
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a message status", m.Status)
	}
	if n, err := t.insertMessage(op, &m.Envelope); err != nil {
		return err
	} else if n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "message %s already exists", m.ID)
	}
	// From here on an error leaves half a message behind.
	err := t.index.Inserted()
	if err == nil {
		err = t.FileMessage(op, &m, parties)
	}
	if err == nil {
		err = t.addShortID(hub.ShortMessage, string(m.ID))
	}
	if err != nil {
		t.spoil(err)
	}
	return err
}

func (t *tx) insertMessage(op string, e *hub.Envelope) (int64, error) {
	to, err := encodeAgents(e.To)
	if err != nil {
		return 0, engineError(op, err)
	}
	policy, err := encodePolicy(e.Policy)
	if err != nil {
		return 0, engineError(op, err)
	}

	var context, refs string
	if e.Context != nil {
		if context, err = encodeJSON(e.Context); err != nil {
			return 0, engineError(op, err)
		}
		if len(e.Context.ExternalRefs) > 0 {
			if refs, err = encodeJSON(e.Context.ExternalRefs); err != nil {
				return 0, engineError(op, err)
			}
		}
	}

	// The parameters come in the order of the columns.
	q := t.query(stmtAddMessage)
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
	return t.change(op, &q)
}

// FileMessage writes the rows that a message is found by: one of message_meta,
// one of message_party for its sender and each recipient, and its words.
func (t *tx) FileMessage(op string, m *hub.Message, parties []hub.Party) error {
	seq, err := t.freeSeq(op, m)
	if err != nil {
		return err
	}
	q := t.query(stmtAddMeta)
	q.int(seq)
	q.text(string(m.ID))
	q.int(int64(m.Hop))
	q.some(string(m.Cause))
	q.some(string(m.Extra))
	if err := t.later(op, &q); err != nil {
		return err
	}
	return t.AddParties(op, seq, m, parties)
}

// AddParties writes the parties of a message that has a seq, and its words.
func (t *tx) AddParties(op string, seq int64, m *hub.Message, parties []hub.Party) error {
	var seen map[hub.AgentID]bool
	if len(parties) > 2 {
		seen = make(map[hub.AgentID]bool, len(parties))
	}
	for i, p := range parties {
		if seen[p.Agent] || (i == 1 && p.Agent == parties[0].Agent) {
			return hub.Errorf(hub.CodeConflict, op, "message %s names %s twice", m.ID, p.Agent)
		}
		if seen != nil {
			seen[p.Agent] = true
		}
		q := t.query(stmtAddParty)
		q.text(string(p.Agent))
		q.int(seq)
		q.text(string(p.State))
		q.int(int64(m.Priority.Rank()))
		q.text(string(m.Type))
		q.int(boolInt(p.State == hub.PartyHeld))
		if err := t.later(op, &q); err != nil {
			return err
		}
	}
	return t.index.Filed(seq, m, parties)
}

// freeSeq returns the seq of a new message: that of seqOf or, if it is taken,
// the next free one. Nearly every new message has a seq above those of the messages
// before the transaction, which needs no look into the database.
func (t *tx) freeSeq(op string, m *hub.Message) (int64, error) {
	seq := seqOf(m.ID, m.CreatedAt)
	for seq <= t.batch.before {
		q := t.query(stmtLastSeq)
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
	for t.batch.seqs[seq] {
		seq++
	}
	t.batch.seqs[seq] = true
	t.topSeq = max(t.topSeq, seq)
	return seq, nil
}

func (t *tx) PutStatus(e hub.Envelope, was hub.MessageStatus) error {
	const op = "store.PutStatus"
	q := t.query(stmtPutStatus)
	q.text(string(e.ID))
	q.text(string(e.Status))
	q.time(e.UpdatedAt)
	q.text(string(was))
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "message %s is no longer %s", e.ID, was)
	}
	return err
}

func (t *tx) PutParty(id hub.EnvelopeID, agent hub.AgentID, next, was hub.PartyState) error {
	const op = "store.PutParty"
	q := t.query(stmtPutParty)
	q.text(string(id))
	q.text(string(agent))
	q.text(string(next))
	q.text(string(was))
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "message %s is no longer %s for %s", id, was, agent)
	}
	return err
}

func (t *tx) AddDelivery(d hub.Delivery) error {
	const op = "store.AddDelivery"
	if !slices.Contains(hub.DeliveryStatuses, d.Status) {
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a delivery status", d.Status)
	}
	q := t.query(stmtAddDelivery)
	q.text(string(d.MessageID))
	q.text(string(d.Recipient))
	q.text(string(d.Channel))
	q.text(string(d.Status))
	q.time(d.DeliveredAt)
	q.time(d.ReadAt)
	q.some(d.Error)
	err := t.later(op, &q)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return notFound(op, "message", string(d.MessageID))
	}
	return err
}

func (t *tx) PutDelivery(d hub.Delivery) error {
	const op = "store.PutDelivery"
	if !slices.Contains(hub.DeliveryStatuses, d.Status) {
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a delivery status", d.Status)
	}
	q := t.query(stmtPutDelivery)
	q.int(d.ID)
	q.text(string(d.Status))
	q.time(d.DeliveredAt)
	q.time(d.ReadAt)
	q.some(d.Error)
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeNotFound, op, "no delivery %d", d.ID)
	}
	return err
}

func (t *tx) MarkProcessed(id hub.EnvelopeID, agent hub.AgentID, at hub.Time) (bool, error) {
	const op = "store.MarkProcessed"
	q := t.query(stmtMarkProcessed)
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
	q := t.query(stmtPutSessionMark)
	q.text(string(m.Agent))
	q.text(m.Session)
	q.text(string(m.Message))
	q.int(int64(m.Hop))
	q.text(m.At.String())
	_, err := t.change("store.PutSessionMark", &q)
	return err
}

func (t *tx) AddReceipt(r hub.Receipt) error {
	const op = "store.AddReceipt"
	q := t.query(stmtAddReceipt)
	q.text(string(r.Actor))
	q.text(r.Key)
	q.text(r.Request)
	q.text(string(r.Message))
	q.text(r.At.String())
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "%s has already used the key %q", r.Actor, r.Key)
	}
	return err
}

func (t *tx) Forget(before hub.Time, limit int) (int, error) {
	total := 0
	for _, id := range [...]StmtID{stmtForgetReceipts, stmtForgetMarks} {
		q := t.query(id)
		q.text(before.String())
		q.int(int64(max(limit, 0)))
		n, err := t.change("store.Forget", &q)
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
	q := t.query(stmtAppend)
	q.int(e.Seq)
	q.text(e.At.String())
	q.text(string(e.Actor))
	q.text(string(e.Action))
	q.text(e.Subject)
	q.text(string(e.Outcome))
	q.text(string(e.Facts))
	q.text(e.Hash)
	if err := t.later("store.Append", &q); err != nil {
		if hub.CodeOf(err) == hub.CodeConflict {
			t.foreign = foreignRow(e.Seq)
			err, t.fault = t.foreign, t.foreign
		}
		return hub.Entry{}, err
	}
	t.head = head{e.Seq, e.Hash}
	return e, nil
}

func (t *tx) PutCursor(consumer string, seq int64) error {
	q := t.query(stmtPutCursor)
	q.text(consumer)
	q.int(seq)
	_, err := t.change("store.PutCursor", &q)
	return err
}

func (t *tx) PutMeta(key, value string) error {
	const op = "store.PutMeta"
	if key == "schema_version" || key == "protocol_version" {
		return hub.Errorf(hub.CodeInvalid, op, "callers cannot set %s", key)
	}
	q := t.query(stmtPutMeta)
	q.text(key)
	q.text(value)
	_, err := t.change(op, &q)
	return err
}

// WriteTeamspaces returns the transaction as the part that writes teams.
func (t *tx) WriteTeamspaces() hub.TeamWriter { return t }

// WriteCoordination returns the transaction as the part that writes projects.
func (t *tx) WriteCoordination() coord.Writer { return t }
