package comply

import "github.com/parley-agents/parley/jsonrpc"

// A limit is the message that ends a window before its time, such as the answer
// to a prompt: what has not come by then does not belong to that turn.
type limit struct {
	*awaited
	from int // entries up to this number are too old, unless they are responses
}

// limit returns the limit that a step sets, nil if it sets none.
func (s *stage) limit(e *envelope) *limit {
	if e == nil {
		return nil
	}
	return &limit{&awaited{envelope: e, local: s.now.local}, s.since()}
}

// see looks at the next entry of the log. The conversation's lock is held.
func (l *limit) see(e *entry, vars variables) {
	if l == nil || l.met != nil || e.dir != jsonrpc.In || e.class != l.class || e.class != classResponse && e.seq <= l.from {
		return
	}
	if l.try(e, vars) == nil {
		l.met = e
	}
}

// passed reports whether the limit was reached.
func (l *limit) passed() bool { return l != nil && l.met != nil }
