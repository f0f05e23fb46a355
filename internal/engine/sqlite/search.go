package sqlite

import (
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

func (p position) before(q position) bool { return p.a < q.a || p.a == q.a && p.b < q.b }

// encodeCursor returns a position as text for callers, who must not look
// inside, bound to the question that it belongs to.
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
		return position{}, hub.Errorf(hub.CodeInvalid, op, "this cursor does not belong to this question").
			WithHint("ask again without a cursor")
	}
	return position{int64(binary.BigEndian.Uint64(b[4:])), int64(binary.BigEndian.Uint64(b[12:]))}, nil
}

// inboxKey and queryKey tell questions apart. They keep honest callers from
// mistakes; they are not a secret.
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
	return keyOf(kind, string(q.Viewer), string(q.Agent), q.Thread, string(q.Type), string(q.Status), q.Topic,
		q.Since.String(), q.Until.String(), q.Text)
}

func keyOf(parts ...string) uint32 {
	h := fnv.New32a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum32()
}

// Query answers from the index that fits the filter best. What a viewer may
// see decides first: no statement for one walks over other agents' messages,
// save those of a thread that was asked for by name.
func (r *reader) Query(f hub.Query) (hub.Page, error) {
	const op = "sqlite.Query"
	if f.Limit <= 0 {
		return hub.Page{}, hub.Errorf(hub.CodeInvalid, op, "limit %d is not positive", f.Limit)
	}
	key := queryKey(f)
	var below position
	if f.Cursor != "" {
		var err error
		if below, err = decodeCursor(op, f.Cursor, key); err != nil {
			return hub.Page{}, err
		}
	}

	viewer, agent := f.Viewer, f.Agent
	if f.Audit {
		viewer = ""
	} else if viewer == "" {
		return hub.Page{}, nil // nobody has seen anything
	}
	if agent == viewer {
		agent = ""
	}

	var match string
	id := stmtQueryAll
	switch {
	case f.Text != "" || f.Topic != "":
		var err error
		if match, err = matchExpression(op, viewer, agent, f.Topic, f.Text); err != nil {
			return hub.Page{}, err
		}
		id = stmtQueryText
	case f.Thread != "":
		id = stmtQueryThread
	case viewer != "" && f.Type != "":
		id = stmtQueryPartyType
	case viewer != "":
		id = stmtQueryParty
	case agent != "":
		id = stmtQueryAgent
	case f.Type != "":
		id = stmtQueryType
	case f.Status != "":
		id = stmtQueryStatus
	}

	q := r.c.query(id)
	q.some(string(viewer))
	q.some(string(agent))
	q.some(f.Thread)
	q.some(string(f.Type))
	q.some(string(f.Status))
	q.some(f.Topic)
	least, end := int64(0), int64(math.MaxInt64)
	if !f.Since.IsZero() {
		least = seqAt(f.Since)
	}
	if !f.Until.IsZero() {
		end = seqAt(f.Until)
	}
	byCreated := id == stmtQueryThread || id == stmtQueryType || id == stmtQueryStatus
	switch {
	case f.Cursor == "":
	case byCreated:
		end = below.b // of its own millisecond; since and until are times here
	default:
		end = min(end, below.b)
	}
	q.int(least)
	q.int(end)
	q.int(int64(f.Limit) + 1)
	// Not every statement has the rest.
	if id == stmtQueryText {
		q.text(match)
	}
	if byCreated {
		q.n++ // ?10
		if f.Cursor == "" {
			q.null()
		} else {
			q.text(hub.At(time.UnixMilli(below.a)).String())
		}
		since, until := "", "~" // "~" comes after every digit
		if !f.Since.IsZero() {
			since = f.Since.String()
		}
		if !f.Until.IsZero() {
			until = f.Until.String()
		}
		q.text(since)
		q.text(until)
	}

	var page hub.Page
	var last position
	for q.next() {
		if len(page.Messages) == f.Limit {
			page.Next = encodeCursor(last, key)
			break
		}
		m, seq, err := r.c.scanMessage(q.s)
		if err != nil {
			q.note(err)
			break
		}
		last = position{m.CreatedAt.UnixMilli(), seq}
		page.Messages = append(page.Messages, m)
	}
	if err := q.done(); err != nil {
		return hub.Page{}, engineError(op, err)
	}
	return page, nil
}
