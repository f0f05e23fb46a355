package acpv2

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
)

// V1Options describe the side that speaks version 1. The zero value works.
type V1Options struct {
	// Client and Agent are the capabilities of the side that speaks version 1.
	// With nil they are not known, and nothing is refused because of them.
	Client *acpv1.ClientCapabilities
	Agent  *acpv1.AgentCapabilities

	// SessionID is the session of a result that does not name its session.
	SessionID SessionID

	// Replayed is true if the session/resume that a result answers was sent as
	// session/load.
	Replayed bool

	// Lossy replaces a value that version 1 does not have by the nearest one, with
	// a note, where the conversion would fail otherwise. It does so for every unknown
	// value whose row in [Fallbacks] says ignore or display, with a leading underscore or
	// without. Rows that say fail are errors in either mode.
	Lossy bool

	// Carry lets a message whose meaning version 1 does not express whole carry the message of
	// version 2 in its _meta, under [MetaCarried]. An update that version 1 does not have becomes an
	// update that changes nothing and carries it. It needs Lossy.
	Carry bool
}

// A Conversion is a message as version 1 expresses it.
type Conversion struct {
	// Message is nil if version 1 needs no message for it.
	Message acpv1.Message

	// Then are notifications that the program sends after Message.
	Then []acpv1.Message

	// Notes are the parts that were left out, with their paths in the input.
	Notes []*Problem

	// Losses are those of the notes that are about a value which version 1 cannot express, in
	// lossy mode. The others are about values that version 1 implies.
	Losses []*Problem
}

// ToV1 converts the params or the result of a method without a change of meaning. A
// part that version 1 cannot express is an error with its path and value; a part
// that is implied in version 1 is left out with a note. Messages that depend on
// earlier ones, such as the answer to a prompt, need a [Bridge]. The result may share
// memory with m.
func ToV1(m Message, opts *V1Options) (*Conversion, error) {
	c := newConverter(opts)
	out := &Conversion{}
	out.Message = c.message(m, out)
	out.Notes, out.Losses = c.notes, c.losses
	if err := c.finish(append(out.Then, out.Message)...); err != nil {
		return nil, err
	}
	if c.Carry && c.Lossy {
		if err := carryMessage(m, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ErrorToV1 converts the error that answers a request.
func ErrorToV1(e *Error) *acpv1.Error {
	return &acpv1.Error{Code: acpv1.ErrorCode(e.Code), Message: e.Message, Data: e.Data, Extra: e.Extra}
}

// A converter walks through one message and collects problems and notes. It does
// not stop at the first problem, so an error names all parts that version 1 cannot
// express.
type converter struct {
	V1Options
	// path is the place in the input that is being converted, as the names and
	// indexes of a JSON pointer; at changes it.
	path     []string
	notes    []*Problem
	losses   []*Problem // those of the notes that are about lost values
	problems []error
}

// newConverter copies the options: the caller may change its own later.
func newConverter(opts *V1Options) *converter {
	c := &converter{}
	if opts != nil {
		c.V1Options = *opts
	}
	return c
}

// finish returns the problems. If there are none, it validates the converted
// messages, so that no message is sent that version 1 forbids.
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

// pointer escapes a name for a JSON pointer (RFC 6901).
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// problem returns a problem with the current value, which is cut short and quoted: it
// may be foreign text.
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

// fail records that version 1 cannot express the current value; failAt does so for a
// member of it, as dropAt and loseAt do.
func (c *converter) fail(value, format string, args ...any) {
	c.problems = append(c.problems, c.problem(value, fmt.Sprintf(format, args...)))
}

func (c *converter) failAt(name, value, format string, args ...any) {
	c.at(name, func() { c.fail(value, format, args...) })
}

// drop notes that the current value is left out because version 1 implies it.
func (c *converter) drop(value, format string, args ...any) {
	c.notes = append(c.notes, c.problem(value, fmt.Sprintf(format, args...)))
}

func (c *converter) dropAt(name, value, format string, args ...any) {
	c.at(name, func() { c.drop(value, format, args...) })
}

// lose notes that the current value is lost. Without Lossy that is a problem.
func (c *converter) lose(value, format string, args ...any) {
	if c.Lossy {
		c.drop(value, format, args...)
		c.losses = append(c.losses, c.notes[len(c.notes)-1])
		return
	}
	c.fail(value, format, args...)
}

func (c *converter) loseAt(name, value, format string, args ...any) {
	c.at(name, func() { c.lose(value, format, args...) })
}

// hold adds the problems in err, with the current path before theirs.
// The reason names version 1, because the converted value breaks a rule of
// that version.
func (c *converter) hold(err error) {
	var many interface{ Unwrap() []error }
	var p *Problem
	switch {
	case err == nil:
	// Validate joins its problems; each gets the path of its own.
	case errors.As(err, &many):
		for _, e := range many.Unwrap() {
			c.hold(e)
		}
	case errors.As(err, &p):
		here := c.problem("", p.Reason+" in version 1")
		here.Path += p.Path
		here.Value = p.Value
		c.problems = append(c.problems, here)
	default:
		c.fail("", "%v", err)
	}
}

// vanish records the _meta and the extra members of an object that has no
// counterpart in version 1 as lost.
func (c *converter) vanish(meta json.RawMessage, extra Members[json.RawMessage]) {
	if isObject(meta) {
		c.loseAt("_meta", string(meta), "does not exist in version 1")
	}
	for _, m := range extra {
		c.loseAt(m.Name, string(m.Value), "does not exist in version 1")
	}
}

// A raw member that is absent is nil; null is text.
func isNull(raw json.RawMessage) bool   { return string(raw) == "null" }
func isObject(raw json.RawMessage) bool { return raw != nil && !isNull(raw) }

// keepMeta returns the _meta of a message that changes something. In version 2 null
// removes the earlier value there, which version 1 cannot do.
func (c *converter) keepMeta(meta json.RawMessage) json.RawMessage {
	if isNull(meta) {
		c.failAt("_meta", "null", "cannot be removed in version 1")
	}
	return meta
}

// same converts the value that x points to, of a definition that has the same
// members in version 1. In lossy mode mend replaces the values in it that version 1 does
// not have.
// Types that are the same in both versions, with all that they refer to, are
// aliases and need no conversion; same is for those that differ in a type further
// inside.
func same[T any](c *converter, x any, mend ...func(*T)) T {
	var out T
	// Through JSON, because the two types share nothing but their form on the wire.
	raw, err := acpv1.Marshal(x)
	if err == nil {
		err = acpv1.Unmarshal(raw, &out)
	}
	if err == nil {
		for _, f := range mend {
			if c.Lossy {
				f(&out)
			}
		}
		err = acpv1.Check(&out, nil)
	}
	c.hold(err)
	return out
}

// optional converts a member that may be absent or null.
func optional[A, B any](c *converter, name string, in Optional[A], f func(A) B) Optional[B] {
	v, ok := in.Get()
	// Absent, null and a value stay three things.
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

// present is optional for a member that cannot be null in version 1: null becomes
// absent.
func present[A, B any](c *converter, name string, in Optional[A], f func(A) B) Optional[B] {
	if in.IsNull() {
		return Optional[B]{}
	}
	return optional(c, name, in, f)
}

// each converts the items of the array in a member. f reports false for an item
// that is left out.
func each[A, B any](c *converter, name string, in []A, f func(*A) (B, bool)) (out []B) {
	c.at(name, func() { out = items(c, in, f) })
	return out
}

// items is each for the current array.
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

// identity converts a value that is the same in version 1.
func identity[T any](v T) T { return v }

// texts converts strings.
func texts[A ~string](v []A) []string {
	out := make([]string, len(v))
	for i := range v {
		out[i] = string(v[i])
	}
	return out
}
