package rows

import (
	"bytes"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// columnTime reads a stored time; NULL is the zero time. A time that another
// program wrote in a form of its own is the zero time, too.
func columnTime(s Stmt, col int) hub.Time {
	b := s.ColumnRawText(col)
	if len(b) == 0 {
		return hub.Time{}
	}
	t, _ := hub.ParseTime(string(b))
	return t
}

// columnJSON reads stored JSON; NULL is nil.
func columnJSON(s Stmt, col int) json.RawMessage {
	b := s.ColumnRawText(col)
	if len(b) == 0 {
		return nil
	}
	return append(json.RawMessage(nil), b...)
}

// ScanMessage reads a row of MessageColumns and returns its seq, too.
func (r *reader) ScanMessage(s Stmt) (hub.Message, int64, error) { return r.scanMessage(s) }

// scanMessage reads a row of messageColumns and returns its seq, too.
func (r *reader) scanMessage(s Stmt) (m hub.Message, seq int64, err error) {
	m.ID = hub.EnvelopeID(s.ColumnText(0))
	m.Protocol = columnConst(s, 1, hub.Protocol)
	m.Version = columnConst(s, 2, hub.Version)
	m.From = hub.AgentID(s.ColumnText(3))
	if m.To, err = decodeAgents(s.ColumnRawText(4)); err != nil {
		return m, 0, hub.Errorf(hub.CodeDegraded, "store.Message", "message %s has broken recipients: %v", m.ID, err)
	}

	m.Team = s.ColumnText(5)
	m.ThreadID = s.ColumnText(6)
	m.ReplyTo = hub.EnvelopeID(s.ColumnText(7))
	m.Type = hub.MessageType(s.ColumnText(8))
	m.Topic = s.ColumnText(9)
	m.Priority = hub.Priority(columnConst(s, 10, string(hub.PriorityNormal)))
	m.Status = hub.MessageStatus(columnConst(s, 11, string(hub.StatusPending)))
	if len(s.ColumnRawText(12)) > 0 {
		n := s.ColumnInt64(12)
		m.Sequence = &n
	}

	m.ExpiresAt = columnTime(s, 13)
	m.Payload = columnJSON(s, 14)
	if m.Policy, err = r.policy(s.ColumnRawText(15)); err != nil {
		return m, 0, hub.Errorf(hub.CodeDegraded, "store.Message", "message %s has a broken policy: %v", m.ID, err)
	}

	if b := s.ColumnRawText(16); len(b) > 0 {
		m.Context = new(hub.Context)
		if err := json.Unmarshal(b, m.Context); err != nil {
			return m, 0, hub.Errorf(hub.CodeDegraded, "store.Message", "message %s has a broken context: %v", m.ID, err)
		}
	}

	m.CreatedAt = columnTime(s, 17)
	m.UpdatedAt = columnTime(s, 18)
	m.Hop = int(s.ColumnInt64(19))
	m.Cause = hub.EnvelopeID(s.ColumnText(20))
	m.Extra = columnJSON(s, 21)
	return m, s.ColumnInt64(22), nil
}

// columnConst is ColumnText without an allocation for the usual value.
func columnConst(s Stmt, col int, usual string) string {
	if b := s.ColumnRawText(col); string(b) != usual {
		return string(b)
	}
	return usual
}

// maxPolicies bounds how many decoded policies a reader remembers; the
// protocol has 18.
const maxPolicies = 64

// policy decodes a stored policy, of which there are few different ones.
func (r *reader) policy(b []byte) (p hub.Policy, err error) {
	if p, ok := r.policies[string(b)]; ok {
		return p, nil
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, err
	}
	if len(r.policies) < maxPolicies {
		r.policies[string(b)] = p
	}
	return p, nil
}

// encodeJSON is json.Marshal without escapes for HTML.
func encodeJSON(v any) (string, error) {
	raw, err := strictjson.Encode(v)
	return string(raw), err
}

// encodePolicy returns the policy as stored.
func encodePolicy(p hub.Policy) (string, error) {
	if p == hub.DefaultPolicy {
		return defaultPolicy, nil
	}
	return encodeJSON(p)
}

const defaultPolicy = `{"visibility":"private","sensitivity":"low","human_gate":"none"}`

// plainName reports whether s needs no escape in JSON.
func plainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		isPlain := c >= 0x20 && c < 0x7f && c != '"' && c != '\\'
		if !isPlain {
			return false
		}
	}
	return true
}

// encodeAgents returns recipients as stored.
func encodeAgents(to []hub.AgentID) (string, error) {
	n := 2
	for _, id := range to {
		if !plainName(string(id)) {
			return encodeJSON(to)
		}
		n += len(id) + 3
	}
	b := make([]byte, 0, n)
	b = append(b, '[')
	for i, id := range to {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, id...)
		b = append(b, '"')
	}
	return string(append(b, ']')), nil
}

// decodeAgents reads stored recipients; the form that encodeAgents writes is
// read without a JSON decoder.
func decodeAgents(b []byte) ([]hub.AgentID, error) {
	if to, ok := splitAgents(b); ok {
		return to, nil
	}
	var to []hub.AgentID
	err := json.Unmarshal(b, &to)
	return to, err
}

// splitAgents reads ["a","b"] without white space or escapes.
func splitAgents(b []byte) (to []hub.AgentID, ok bool) {
	if len(b) < len(`["a"]`) || b[0] != '[' || b[len(b)-1] != ']' {
		return nil, false
	}
	rest := b[1 : len(b)-1]
	to = make([]hub.AgentID, 0, bytes.Count(rest, []byte{','})+1)
	for {
		if len(rest) < 2 || rest[0] != '"' {
			return nil, false
		}
		end := bytes.IndexByte(rest[1:], '"')
		if end < 0 || bytes.IndexByte(rest[1:1+end], '\\') >= 0 {
			return nil, false
		}
		to = append(to, hub.AgentID(rest[1:1+end]))
		rest = rest[end+2:]
		if len(rest) == 0 {
			return to, true
		}
		if rest[0] != ',' {
			return nil, false
		}
		rest = rest[1:]
	}
}

// compactLen returns how many bytes a JSON text has without the white space
// between its tokens.
func compactLen(b []byte) int {
	n := 0
	inString := false
	escaped := false
	for _, c := range b {
		switch {
		case inString:
			n++
			switch {
			case escaped:
				escaped = false
			case c == '\\':
				escaped = true
			case c == '"':
				inString = false
			}
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		default:
			n++
			inString = c == '"'
		}
	}
	return n
}
