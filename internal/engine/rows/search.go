package rows

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"strconv"
	"time"

	"github.com/parley-agents/parley/hub"
)

// seqBits is how many of the low bits of a message's seq count within one
// millisecond.
const seqBits = 12

// seqOf returns the seq that a message gets if it is free: the time it was
// created and, for an id of that time, the id's own counter.
func seqOf(id hub.EnvelopeID, created hub.Time) int64 {
	seq := seqAt(created)
	if id.Valid() && id.Time().Equal(created.Time) {
		if n, err := strconv.ParseUint(string(id[15:18]), 16, seqBits); err == nil {
			seq |= int64(n)
		}
	}
	return max(seq, 1)
}

// seqAt returns the least seq of a time.
func seqAt(t hub.Time) int64 {
	return min(max(t.UnixMilli(), 0), math.MaxInt64>>seqBits) << seqBits
}

// A position is a place in an ordered list: rank and seq in an inbox,
// milliseconds and seq in the answer to a query.
type position struct{ a, b int64 }

func (p position) before(q position) bool { return p.a < q.a || (p.a == q.a && p.b < q.b) }

// encodeCursor returns a position as text that is opaque to callers, bound to
// the query that it belongs to.
func encodeCursor(p position, key uint32) string {
	var b [20]byte
	binary.BigEndian.PutUint32(b[0:], key)
	binary.BigEndian.PutUint64(b[4:], uint64(p.a))
	binary.BigEndian.PutUint64(b[12:], uint64(p.b))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func decodeCursor(op, s string, key uint32) (position, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != 20 || binary.BigEndian.Uint32(b) != key {
		return position{}, hub.Errorf(hub.CodeInvalid, op, "this cursor belongs to another query").
			WithHint("repeat the query without a cursor")
	}
	return position{int64(binary.BigEndian.Uint64(b[4:])), int64(binary.BigEndian.Uint64(b[12:]))}, nil
}

// inboxKey and queryKey identify a query in its cursors. They keep honest
// callers from mistakes; they are no secret.
func inboxKey(agent hub.AgentID, f hub.InboxFilter) uint32 {
	kind := "inbox"
	if f.NewOnly {
		kind = "new"
	}
	return keyOf(kind, string(agent))
}

func queryKey(q hub.Query) uint32 {
	kind := "query"
	if q.Audit {
		kind = "audit"
	}
	return keyOf(kind, string(q.Viewer), string(q.Agent), string(q.From), string(q.To), q.Thread, q.Team, string(q.Type), string(q.Status), q.Topic,
		q.Since.String(), q.Until.String(), q.Text, strconv.FormatBool(q.Held))
}

func keyOf(parts ...string) uint32 {
	h := fnv.New32a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum32()
}

// A walk is a way through the messages: the rows it starts from, and the order
// in which an index gives them.
type walk struct {
	from      string // the tables, joined in this order; each walk exists for the sake of one index
	seq       string // the column of the seq that is nearest to the index
	byCreated bool   // ordered by time and then by seq; else by seq alone
	oldest    bool   // oldest first, not newest first
}

// walks are the ways through the messages in one dialect. Those of parties never touch
// messages of other agents, and neither do those of words; a viewer walks over others' only
// in a thread that it names.
type walks struct {
	words, party, held, thread, team, kind, status, all walk
}

var walksIn = [...]walks{SQLite: newWalks(SQLite), PostgreSQL: newWalks(PostgreSQL)}

func newWalks(d Dialect) walks {
	joinMeta := d.join(`message_meta AS d ON d.message_id = m.id`)
	joinMessages := d.join(`messages AS m ON m.id = d.message_id`)
	joinBoth := d.join(`message_meta AS d ON d.seq = p.seq`) + joinMessages
	byIndex := func(index string) walk {
		return walk{from: `messages AS m` + d.indexedBy(index) + joinMeta, seq: `d.seq`, byCreated: true}
	}
	held := `(SELECT DISTINCT seq FROM message_party` + d.indexedBy("message_party_held") + ` WHERE state = 'held') AS p`
	return walks{
		words:  walk{from: `message_text AS p` + d.join(`message_meta AS d ON d.seq = `+d.wordSeq()) + joinMessages, seq: d.wordSeq()},
		party:  walk{from: `message_party AS p` + joinBoth, seq: `p.seq`},
		held:   walk{from: held + joinBoth, seq: `d.seq`, oldest: true},
		thread: byIndex("idx_messages_thread"),
		team:   byIndex("message_teams"),
		kind:   byIndex("idx_messages_type"),
		status: byIndex("idx_messages_status"),
		all:    walk{from: `message_meta AS d` + joinMessages, seq: `d.seq`},
	}
}

// Query picks the walk that restricts most and adds the rest of the filter as
// conditions. It costs the rows walked over: those of the page, and those
// between them that a condition leaves out.
func (r *reader) Query(f hub.Query) (hub.Page, error) {
	const op = "store.Query"
	if f.Limit <= 0 {
		return hub.Page{}, hub.Errorf(hub.CodeInvalid, op, "limit must be positive, got %d", f.Limit)
	}
	if f.Audit {
		f.Viewer = ""
	} else if f.Viewer == "" {
		return hub.Page{}, nil // no agent, no message
	}

	// The key ties a cursor to its query, so that a cursor of another query is refused.
	key := queryKey(f)
	if f.Agent == f.Viewer {
		f.Agent = ""
	}

	way, where, err := r.plan(op, f)
	if err != nil {
		return hub.Page{}, err
	}
	if err := way.bounds(op, &where, f, key); err != nil {
		return hub.Page{}, err
	}

	q := r.dynamic(`SELECT ` + messageColumns + ` FROM ` + way.from + ` ` + where.where() + way.order() + ` LIMIT ?`)
	q.bind(where.args...)
	q.int(int64(f.Limit) + 1)

	// One row more than the page holds tells whether there is a next page.
	var page hub.Page
	var last position
	size := 0
	for q.next() {
		if len(page.Messages) == f.Limit || (f.Bytes > 0 && size >= f.Bytes) {
			page.Next = encodeCursor(last, key)
			break
		}
		m, seq, err := r.scanMessage(q.s)
		if err != nil {
			q.note(err)
			break
		}
		last = position{m.CreatedAt.UnixMilli(), seq}
		page.Messages = append(page.Messages, m)
		if f.Bytes > 0 {
			size += m.Size()
		}
	}

	if err := q.done(); err != nil {
		return hub.Page{}, engineError(op, err)
	}
	return page, nil
}

// readByMember is the condition that an agent reads a message as a member of its team.
const readByMember = `(m.team IS NOT NULL AND m.policy_json LIKE '%"visibility":"team"%'
	AND EXISTS (SELECT 1 FROM team_members AS t WHERE t.agent = ? AND t.team = m.team AND (t.until IS NULL OR t.since <= m.created_at AND m.created_at < t.until))
	AND NOT EXISTS (SELECT 1 FROM message_party AS h WHERE h.seq = d.seq AND h.hidden = 1))`

// plan returns the walk for a query, and the conditions that the walk does not
// fulfil by itself.
func (r *reader) plan(op string, f hub.Query) (way walk, w filter, err error) {
	viewer, agent := f.Viewer, cmp.Or(f.Agent, f.From, f.To)
	ways := walksIn[r.c.Dialect()]

	// The first case that applies restricts the walk most.
	switch {
	case f.Text != "" || f.Topic != "":
		name := viewer
		if f.Team != "" {
			name = "" // a member may be no party of the message
		}
		words, err := searchWords(op, name, agent, f.Topic, f.Text)
		if err != nil {
			return way, w, err
		}
		way = ways.words
		w.add(r.c.Dialect().hasWords(), r.c.Match(words))

	case f.Held:
		way = ways.held
	case f.Thread != "":
		way = ways.thread
	case f.Team != "":
		way = ways.team

	case viewer != "":
		way, viewer = ways.party, ""
		w.add(`p.agent = ? AND p.hidden = 0`, string(f.Viewer))
		w.equal(`p.type`, string(f.Type)) // without a look at the message
	case agent != "":
		way, agent = ways.party, ""
		w.add(`p.agent = ?`, string(cmp.Or(f.Agent, f.From, f.To)))

	case f.Type != "":
		way = ways.kind
	case f.Status != "":
		way = ways.status
	default:
		way = ways.all
	}

	// The walk has cleared viewer or agent if it fulfils that condition by itself.
	if viewer != "" {
		w.add(`EXISTS (SELECT 1 FROM message_party AS v WHERE v.agent = ? AND v.seq = d.seq AND v.hidden = 0) OR `+readByMember, string(viewer), string(viewer))
	}
	if agent != "" {
		w.add(`EXISTS (SELECT 1 FROM message_party AS a WHERE a.agent = ? AND a.seq = d.seq)`, string(agent))
	}

	w.equal(`m.from_agent`, string(f.From))
	if f.To != "" {
		w.add(`EXISTS (SELECT 1 FROM message_party AS t WHERE t.agent = ? AND t.seq = d.seq AND t.state <> 'sender')`, string(f.To))
	}
	w.equal(`m.thread_id`, f.Thread)
	w.equal(`m.team`, f.Team)
	w.equal(`m.type`, string(f.Type))
	w.equal(`m.status`, string(f.Status))
	w.equal(`m.topic`, f.Topic)
	return way, w, nil
}

// bounds restricts a walk to the times of a query and to the rows behind its
// cursor. A span of time is a span of seq.
func (way walk) bounds(op string, w *filter, f hub.Query, key uint32) error {
	if !f.Since.IsZero() && way.byCreated {
		w.add(`m.created_at >= ?`, f.Since)
	} else if !f.Since.IsZero() {
		w.add(way.seq+` >= ?`, seqAt(f.Since))
	}
	if !f.Until.IsZero() && way.byCreated {
		w.add(`m.created_at < ?`, f.Until)
	} else if !f.Until.IsZero() {
		w.add(way.seq+` < ?`, seqAt(f.Until))
	}

	if f.Cursor == "" {
		return nil
	}
	last, err := decodeCursor(op, f.Cursor, key)
	if err != nil {
		return err
	}

	behind := ` < `
	if way.oldest {
		behind = ` > `
	}
	if !way.byCreated {
		w.add(way.seq+behind+`?`, last.b)
		return nil
	}
	// The first condition bounds the walk of the index, the second the rows of
	// one millisecond.
	at := hub.At(time.UnixMilli(last.a))
	w.add(`m.created_at`+behind[:2]+`= ?`, at)
	w.add(`m.created_at`+behind+`? OR d.seq`+behind+`?`, at, last.b)
	return nil
}

// order returns the order in which a walk gives messages.
func (way walk) order() string {
	direction := ` DESC`
	if way.oldest {
		direction = ``
	}
	if way.byCreated {
		return ` ORDER BY m.created_at` + direction + `, d.seq` + direction
	}
	return ` ORDER BY ` + way.seq + direction
}
