package acpv2

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/acp/acpv1"
)

// V1Options say what is known about the side that speaks version 1. The zero value
// works.
type V1Options struct {
	// Client and Agent are what the side that speaks version 1 can do. Nil means
	// that nobody has asked yet, and then nothing is refused because of it.
	Client *acpv1.ClientCapabilities
	Agent  *acpv1.AgentCapabilities

	// SessionID is the session that a result belongs to which does not name it.
	SessionID SessionID

	// Replayed says that the session/resume which a result answers went out as
	// session/load.
	Replayed bool

	// Lossy takes the nearest thing that version 1 can say where there is one,
	// and notes what was lost, in place of failing.
	Lossy bool
}

// A Conversion is what a message becomes in version 1.
type Conversion struct {
	// Message is nil if version 1 says the same by saying nothing.
	Message acpv1.Message

	// Then are notifications to be sent after Message.
	Then []acpv1.Message

	// Notes tell what was left out, with its path in the message converted.
	Notes []*Problem
}

// ToV1 converts the params or the result of a method. It never changes what is
// said: what version 1 cannot say is an error that names its path and value, and
// what needs no saying there is left out with a note. Messages that depend on those
// before them, such as the answer to a prompt, need a [Bridge].
func ToV1(m Message, opts *V1Options) (*Conversion, error) {
	c := newConverter(opts)
	out := &Conversion{}
	out.Message = c.message(m, out)
	out.Notes = c.notes
	if err := c.finish(append(out.Then, out.Message)...); err != nil {
		return nil, err
	}
	return out, nil
}

// ErrorToV1 converts the error that answers a request.
func ErrorToV1(e *Error) *acpv1.Error {
	return &acpv1.Error{Code: acpv1.ErrorCode(e.Code), Message: e.Message, Data: e.Data, Extra: e.Extra}
}

// A converter collects what it finds on its way through a message.
type converter struct {
	V1Options
	path     []string
	notes    []*Problem
	problems []error
}

func newConverter(opts *V1Options) *converter {
	c := &converter{}
	if opts != nil {
		c.V1Options = *opts
	}
	return c
}

// finish returns the problems. If there were none, it looks for some in the
// outcome, so that nothing is sent that version 1 forbids.
func (c *converter) finish(messages ...acpv1.Message) error {
	for _, m := range messages {
		if m != nil && len(c.problems) == 0 {
			c.hold(m.Validate())
		}
	}
	return errors.Join(c.problems...)
}

// at calls f inside a member or item.
func (c *converter) at(name string, f func()) {
	c.path = append(c.path, name)
	f()
	c.path = c.path[:len(c.path)-1]
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func (c *converter) problem(value, reason string) *Problem {
	var path strings.Builder
	for _, name := range c.path {
		path.WriteString("/" + pointer.Replace(name))
	}
	if len(value) > maxShown {
		value = strings.ToValidUTF8(value[:maxShown], "") + "..."
	}
	if value != "" && value != "null" {
		value = strconv.Quote(value)
	}
	return &Problem{Path: path.String(), Value: value, Reason: reason}
}

// maxShown is how many bytes of a value appear in a Problem.
const maxShown = 80

// fail records that the value at hand cannot be said in version 1.
func (c *converter) fail(value, format string, args ...any) {
	c.problems = append(c.problems, c.problem(value, fmt.Sprintf(format, args...)))
}

// drop records that the value at hand needs no saying in version 1.
func (c *converter) drop(value, format string, args ...any) {
	c.notes = append(c.notes, c.problem(value, fmt.Sprintf(format, args...)))
}

// lose records that the value at hand is lost, which is a failure unless the
// caller put up with losses.
func (c *converter) lose(value, format string, args ...any) {
	if c.Lossy {
		c.drop(value, format, args...)
		return
	}
	c.fail(value, format, args...)
}

// hold records the problems that err has, as seen from here.
func (c *converter) hold(err error) {
	var many interface{ Unwrap() []error }
	var p *Problem
	switch {
	case err == nil:
	case errors.As(err, &many):
		for _, e := range many.Unwrap() {
			c.hold(e)
		}
	case errors.As(err, &p):
		here := c.problem("", p.Reason+", says version 1")
		here.Path += p.Path
		here.Value = p.Value
		c.problems = append(c.problems, here)
	default:
		c.fail("", "%v", err)
	}
}

// vanish checks that an object which has no counterpart says nothing but that it
// is there.
func (c *converter) vanish(meta json.RawMessage, extra Members[json.RawMessage]) {
	if isObject(meta) {
		c.at("_meta", func() { c.lose(string(meta), "has no place in version 1") })
	}
	for _, m := range extra {
		c.at(m.Name, func() { c.lose(string(m.Value), "has no place in version 1") })
	}
}

func isNull(raw json.RawMessage) bool   { return string(raw) == "null" }
func isObject(raw json.RawMessage) bool { return raw != nil && !isNull(raw) }

// keepMeta returns the _meta of a message that changes something. There null takes
// away what was said before, which version 1 cannot do.
func (c *converter) keepMeta(meta json.RawMessage) json.RawMessage {
	if isNull(meta) {
		c.at("_meta", func() { c.fail("null", "cannot be taken away in version 1") })
	}
	return meta
}

// same converts the value that x points to, of a definition that has the same
// members in version 1.
func same[T any](c *converter, x any) T {
	var out T
	raw, err := acpv1.Marshal(x)
	if err == nil {
		err = acpv1.Unmarshal(raw, &out)
	}
	if err == nil {
		err = acpv1.Check(&out, nil)
	}
	c.hold(err)
	return out
}

// optional converts a member that may be absent or null.
func optional[A, B any](c *converter, name string, in Optional[A], f func(A) B) Optional[B] {
	v, ok := in.Get()
	switch {
	case in.IsNull():
		return Null[B]()
	case !ok:
		return Optional[B]{}
	}
	var out B
	c.at(name, func() { out = f(v) })
	return Set(out)
}

// present is optional for a member that version 1 has no null for: null says the
// same as absent.
func present[A, B any](c *converter, name string, in Optional[A], f func(A) B) Optional[B] {
	if in.IsNull() {
		return Optional[B]{}
	}
	return optional(c, name, in, f)
}

// each converts the items of an array in a member, without those that f leaves
// out.
func each[A, B any](c *converter, name string, in []A, f func(*A) (B, bool)) (out []B) {
	c.at(name, func() { out = items(c, in, f) })
	return out
}

// items is each for the array at hand.
func items[A, B any](c *converter, in []A, f func(*A) (B, bool)) []B {
	out := make([]B, 0, len(in))
	for i := range in {
		c.at(strconv.Itoa(i), func() {
			if v, ok := f(&in[i]); ok {
				out = append(out, v)
			}
		})
	}
	return out
}

// identity is for what is the same in version 1.
func identity[T any](v T) T { return v }

// text converts a string to one of another type.
func text[B, A ~string](v A) B { return B(v) }

// texts converts strings.
func texts[A ~string](v []A) []string {
	out := make([]string, len(v))
	for i := range v {
		out[i] = string(v[i])
	}
	return out
}
