package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// An Encoder writes one JSON value. After a problem its output is invalid.
type Encoder struct {
	buf   []byte
	comma bool
	// The place of the value being written is stack[1:] and at, from the outside
	// in. It is kept for the path of a problem, and costs no allocation for usual
	// messages.
	stack []place // the objects and arrays that are open
	at    place   // the member or item being written
	// tags are the discriminators in the open objects, so that an unknown variant
	// or an extra member does not repeat one of them.
	tags    []levelTag
	problem *Problem

	// The first items of stack and tags: most messages need no more.
	places    [8]place
	levelTags [4]levelTag
}

// NewEncoder returns an encoder.
func NewEncoder() *Encoder {
	e := &Encoder{buf: make([]byte, 0, 512)}
	e.stack, e.tags = e.places[:0], e.levelTags[:0]
	return e
}

// A place is a member or, if name is empty, an item.
type place struct {
	name string
	item int
}

func (p place) String() string {
	if p.name == "" {
		return strconv.Itoa(p.item)
	}
	return p.name
}

// A levelTag is a discriminator written at some depth.
type levelTag struct {
	depth int
	name  string
}

// End returns the JSON, or the problem.
func (e *Encoder) End() ([]byte, *Problem) { return e.buf, e.problem }

// Fail records a problem with the current value, unless there is one already.
func (e *Encoder) Fail(reason string) {
	if e.problem != nil {
		return
	}
	e.problem = &Problem{Reason: reason}
	if len(e.stack) == 0 {
		return
	}
	for _, p := range append(e.stack[1:len(e.stack):len(e.stack)], e.at) {
		e.problem.Path += within(p.String(), "")
	}
}

// Begin begins an object.
func (e *Encoder) Begin() { e.open('{') }

// BeginArray begins an array.
func (e *Encoder) BeginArray() { e.open('[') }

func (e *Encoder) open(c byte) {
	e.buf = append(e.buf, c)
	e.stack = append(e.stack, e.at)
	e.comma = false
}

// Close ends an object.
func (e *Encoder) Close() { e.close('}') }

// CloseArray ends an array.
func (e *Encoder) CloseArray() { e.close(']') }

func (e *Encoder) close(c byte) {
	e.buf = append(e.buf, c)
	for n := len(e.tags); n > 0 && e.tags[n-1].depth == len(e.stack); n-- {
		e.tags = e.tags[:n-1]
	}
	e.at = e.stack[len(e.stack)-1]
	e.stack = e.stack[:len(e.stack)-1]
	e.comma = true
}

func (e *Encoder) separate() {
	if e.comma {
		e.buf = append(e.buf, ',')
	}
	e.comma = true
}

// Name begins a member whose name needs no escapes.
func (e *Encoder) Name(name string) {
	e.separate()
	e.at = place{name: name}
	e.buf = append(e.buf, '"')
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, '"', ':')
}

// AnyName begins a member whose name is data.
func (e *Encoder) AnyName(name string) {
	e.separate()
	e.at = place{name: name}
	e.String(name)
	e.buf = append(e.buf, ':')
}

// Item begins the item of an array with that index.
func (e *Encoder) Item(i int) {
	e.separate()
	e.at = place{item: i}
}

// Null writes null.
func (e *Encoder) Null() { e.buf = append(e.buf, "null"...) }

// Bool writes a boolean.
func (e *Encoder) Bool(v bool) { e.buf = strconv.AppendBool(e.buf, v) }

// Int writes an integer.
func (e *Encoder) Int(v int64) { e.buf = strconv.AppendInt(e.buf, v, 10) }

// Uint writes an integer that is not negative.
func (e *Encoder) Uint(v uint64) { e.buf = strconv.AppendUint(e.buf, v, 10) }

// Number writes a number as it is.
func (e *Encoder) Number(v json.Number) {
	if !isNumber(string(v)) {
		e.Fail("not a number")
	}
	e.buf = append(e.buf, v...)
}

// isNumber reports whether v is a JSON number without blanks around it.
func isNumber(v string) bool {
	raw := jsontext.Value(v)
	return raw.Kind() == '0' && raw.IsValid() && strings.TrimSpace(v) == v
}

// String writes a string with as few escapes as JSON allows. Invalid UTF-8 is a
// problem: a replacement would change the text.
func (e *Encoder) String(v string) {
	var err error
	if e.buf, err = jsontext.AppendQuote(e.buf, v); err != nil {
		e.Fail("invalid UTF-8")
	}
}

// Raw writes a value byte for byte. Only if it has line ends between its tokens is
// the white space left out, so that the output stays on one line.
func (e *Encoder) Raw(v json.RawMessage) {
	if p := validate(v); p != nil {
		e.Fail("not a JSON value: " + p.Reason)
		return
	}
	if !bytes.ContainsAny(v, "\n\r") {
		e.buf = append(e.buf, v...)
		return
	}
	out := bytes.NewBuffer(e.buf)
	if err := json.Compact(out, v); err != nil {
		e.Fail("not a JSON value: " + err.Error())
		return
	}
	e.buf = out.Bytes()
}

// Tag writes a discriminator.
func (e *Encoder) Tag(name, value string) {
	if value == "" {
		e.Fail("a discriminator must not be empty")
	}
	e.Name(name)
	e.String(value)
	e.tags = append(e.tags, levelTag{len(e.stack), name})
}

// Extra writes a member that the protocol does not define.
func (e *Encoder) Extra(name string, value json.RawMessage, known ...[]string) {
	e.AnyName(name)
	if e.tagged(name) || knownName(name, known) {
		e.Fail("an extra member has the name of a defined member, or differs from it only in case")
	}
	e.Raw(value)
}

func (e *Encoder) tagged(name string) bool {
	for _, t := range e.tags {
		if t.depth == len(e.stack) && strings.EqualFold(t.name, name) {
			return true
		}
	}
	return false
}

// One checks that exactly one variant of a union is set.
func (e *Encoder) One(name string, variants ...bool) {
	if n := count(variants); n != 1 {
		e.Fail("must be exactly one variant of " + name + ", not " + strconv.Itoa(n))
	}
}

func count(variants []bool) int {
	n := 0
	for _, set := range variants {
		if set {
			n++
		}
	}
	return n
}

// Object writes a variant that this version does not define, byte for byte.
func (e *Encoder) Object(name, tag string, raw json.RawMessage, tags []string) {
	if reason := unknownReason(name, tag, raw, tags); reason != "" {
		e.Fail(reason)
		return
	}
	e.Raw(raw)
}

// Unknown writes the members of a variant that this version does not define into
// the open object, except those that are written there already: the discriminators
// of enclosing unions, and known members.
func (e *Encoder) Unknown(name, tag string, raw json.RawMessage, tags []string, known ...[]string) {
	if reason := unknownReason(name, tag, raw, tags); reason != "" {
		e.Fail(reason)
		return
	}
	s := NewScanner(raw)
	for o := s.Object(); o.Next(); {
		member := string(o.name)
		value := s.Raw()
		if s.problem != nil {
			continue
		}
		isWritten := member != name && (e.tagged(member) || knownName(member, known))
		if isWritten {
			continue
		}
		e.AnyName(member)
		e.Raw(value)
	}
}

// unknownReason returns the fault of an unknown variant, "" if it has none: it must
// be an object with the given tag, which must not be a known one.
func unknownReason(name, tag string, raw json.RawMessage, tags []string) string {
	if slices.Contains(tags, tag) {
		return "the variant " + shown(tag) + " is not unknown"
	}
	s := NewScanner(raw)
	got := string(s.Tag(name))
	if s.problem == nil && got != tag {
		return "an unknown variant has the discriminator " + shown(got) + ", not " + shown(tag)
	}
	s.Unknown()
	if p := s.End(); p != nil {
		return "an unknown variant: " + p.Reason
	}
	return ""
}

func knownName(name string, known [][]string) bool {
	for _, names := range known {
		for _, n := range names {
			if strings.EqualFold(n, name) {
				return true
			}
		}
	}
	return false
}
