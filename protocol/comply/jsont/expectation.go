package jsont

import (
	"slices"
	"strconv"
	"strings"
)

// A MessageClass is the kind of a message. The values are the member names that an
// expectation in a test has.
type MessageClass string

// The classes of messages.
const (
	Response      MessageClass = "response"
	Notification  MessageClass = "notification"
	ClientRequest MessageClass = "clientRequest"
	NoMessage     MessageClass = "" // not a message
)

// An Expectation describes one frame that a test waits for, or forbids.
// It belongs to its Test and does not change; the state of a run is with the
// runner.
type Expectation struct {
	Class    MessageClass
	Body     *Node    // a pattern for the whole frame
	absent   []string // paths at which the frame must have nothing
	unlike   *Node    // a pattern that must not match; may be nil
	anyOf    []*Node  // patterns of which one must match; empty for none
	Reply    *Node    // the answer to a request; nil for the answer of the runner's own services
	Hold     string   // the name under which a request waits for a reply step; "" to answer it at once
	Keep     bool     // the frame that meets it may meet others, too
	Captures []Capture
}

// A Matcher is an expectation whose variables have values.
type Matcher struct {
	*Expectation
	pattern *Pattern
	never   *Pattern // nil if unlike is
	either  []*Pattern
}

// Bind compiles the patterns of x with the given variables. A matcher is only
// valid as long as no variable changes.
func (x *Expectation) Bind(vars Variables) *Matcher {
	m := &Matcher{Expectation: x, pattern: NewPattern(x.Body, vars)}
	if x.unlike != nil {
		m.never = NewPattern(x.unlike, vars)
	}
	for _, n := range x.anyOf {
		m.either = append(m.either, NewPattern(n, vars))
	}
	return m
}

// Match returns nil if the decoded frame v meets the expectation, else the first
// place at which it does not. The class of the frame is not compared.
// The positive pattern comes first, because its mismatch says most about the frame.
func (m *Matcher) Match(v any) *Mismatch {
	if bad := m.pattern.Match(v); bad != nil {
		return bad
	}
	for _, path := range m.absent {
		if found, ok := Lookup(v, path); ok {
			return &Mismatch{path: path, Want: "absent", Got: Brief(found)}
		}
	}
	if len(m.either) > 0 && !slices.ContainsFunc(m.either, func(p *Pattern) bool { return p.Match(v) == nil }) {
		return &Mismatch{Want: "like one of " + strconv.Itoa(len(m.either)) + " patterns", Got: "like none of them"}
	}
	if m.never != nil && m.never.Match(v) == nil {
		return &Mismatch{Want: "different", Got: "like " + m.never.String()}
	}
	return nil
}

// String describes the expectation for people.
func (m *Matcher) String() string {
	names := map[MessageClass]string{Response: "a response", Notification: "a notification", ClientRequest: "a request"}
	s := names[m.Class] + " like " + m.pattern.String()
	if len(m.absent) > 0 {
		s += " without " + strings.Join(m.absent, ", ")
	}
	if m.never != nil {
		s += " and unlike " + m.never.String()
	}
	return Shorten(s, 500)
}
