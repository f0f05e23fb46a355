package wire

import (
	"encoding/json"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A structure is the wire form of a struct type: the members that its fields
// declare in their tags. A structure is built once per type and never changes.
//
//	json:"name"            the member is required
//	json:"name,omitzero"   the member may be absent: an Optional, or raw JSON that is nil then
//	acp:"null"             the member may be null
//	acp:"default"          null is read as the empty default
//	acp:"object"           raw JSON is an object or null
//	acp:"min=1,max=9"      the bounds of a number
//	acp:"len=1"            the least length of an array or string
//
// A field without a name in its tag is no member: it is a variant of a union, for
// which there is generated code, or Extra.
//
// The members are numbered in the order of the fields, and a reader keeps a set
// of the numbers it has seen in 64 bits (see Object.Once).
//
// A union whose variant shares the object with the members of the struct around it
// is read in parts: one structure for each, over the same object.
type structure struct {
	members  []member
	names    []string
	required uint64 // the set of the numbers of required members
	extra    int    // the index of the field Extra, -1 if there is none
}

// A member is one member of a structure.
type member struct {
	name        string
	index       int // of the field
	required    bool
	null        bool
	nullDefault bool
	optional    bool   // the field is an Optional
	raw         bool   // the field is raw JSON
	object      bool   // which is an object or null
	min, max    string // "" is no bound
	length      int
	codec       *codec
}

// An Optional is a pointer to a field that is absent, null or has a value.
type Optional interface {
	// Wire returns a pointer to the value and one to the state.
	Wire() (value any, state *State)
}

// A State tells whether an Optional is there.
type State uint8

// The states of an Optional.
const (
	Absent State = iota
	Null
	Set
)

var optionalType = reflect.TypeFor[Optional]()

// structure reads the tags of a struct type.
func (b *builder) structure(t reflect.Type) *structure {
	st := &structure{extra: -1}
	for i := range t.NumField() {
		f := t.Field(i)
		name, omit, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Name == "Extra":
			st.extra = i
			continue
		case name == "" || name == "-":
			continue
		}
		m := member{name: name, index: i, required: omit == "", raw: f.Type == rawType}
		m.options(f.Tag.Get("acp"))
		value := f.Type
		if reflect.PointerTo(value).Implements(optionalType) {
			m.optional = true
			value = value.Field(0).Type
		}
		m.codec = b.codec(value)
		if m.required {
			st.required |= 1 << len(st.members)
		}
		st.members = append(st.members, m)
		st.names = append(st.names, name)
	}
	return st
}

// options reads the tag acp.
func (m *member) options(tag string) {
	for option := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "null":
			m.null = true
		case "default":
			m.nullDefault = true
		case "object":
			m.object = true
		case "min":
			m.min = value
		case "max":
			m.max = value
		case "len":
			m.length, _ = strconv.Atoi(value)
		}
	}
}

// find returns the number of the member with that name, -1 if there is none. It
// starts at the member expected next: writers mostly keep the order of the
// schema, so that one comparison is the usual cost.
func (st *structure) find(name []byte, next int) int {
	n := len(st.members)
	for range n {
		if next >= n {
			next = 0
		}
		if st.members[next].name == string(name) {
			return next
		}
		next++
	}
	return -1
}

// An Optional that is null keeps a zero value; its state tells the difference.
func (m *member) decode(s *Scanner, v reflect.Value) {
	switch {
	case m.optional:
		value, state := v.Addr().Interface().(Optional).Wire()
		if (m.null || m.nullDefault) && s.Null() {
			*state = Null
			return
		}
		m.codec.decode(s, reflect.ValueOf(value).Elem())
		*state = Set
	case m.object:
		v.SetBytes(s.RawObject())
	case m.nullDefault && s.Null():
	default:
		m.codec.decode(s, v)
	}
}

func (m *member) encode(e *Encoder, v reflect.Value) {
	switch {
	case m.optional:
		value, state := v.Addr().Interface().(Optional).Wire()
		if *state == Absent {
			return
		}
		e.Name(m.name)
		if *state == Null {
			e.Null()
			return
		}
		v = reflect.ValueOf(value).Elem()
	case m.raw && !m.required && v.IsNil():
		return
	default:
		e.Name(m.name)
	}
	m.codec.encode(e, v)
}

func (m *member) check(c *Checker, v reflect.Value) {
	if m.raw && !m.required && v.IsNil() {
		return
	}
	c.Enter(m.name)
	defer c.Leave()
	if m.optional {
		value, state := v.Addr().Interface().(Optional).Wire()
		if *state != Set {
			if *state == Null && !m.null {
				c.Report("null", "must not be null")
			}
			return
		}
		v = reflect.ValueOf(value).Elem()
	}
	if m.length > 0 {
		c.Length(v.Len(), m.length)
	}
	if m.min != "" || m.max != "" {
		c.Range(numberOf(v), m.min, m.max)
	}
	if m.object {
		c.RawObject(v.Bytes())
		return
	}
	m.codec.check(c, v)
}

// A part is a struct whose members stand in the object at hand.
type part struct {
	v    reflect.Value
	st   *structure
	next int // the member expected next
}

// partsOf returns the structures of pointers to structs.
func partsOf(pointers []any) []part {
	parts := make([]part, len(pointers))
	for i, p := range pointers {
		v := reflect.ValueOf(p).Elem()
		parts[i] = part{v: v, st: codecOf(v.Type()).structure}
	}
	return parts
}

// decode reads an object into the parts. The members of the first come first in
// the numbers of the object, those of the second follow them, and so on. A member
// that no part defines goes to the Extra of the first or, if unknown is true, is
// skipped: then the Unknown of the union holds it already.
func decodeParts(s *Scanner, unknown bool, parts []part) {
	object := s.Object()
	o := &object

members:
	for o.Next() {
		base := 0
		for i := range parts {
			p := &parts[i]
			if n := p.st.find(o.name, p.next); n >= 0 {
				o.Once(base + n)
				m := &p.st.members[n]
				m.decode(s, p.v.Field(m.index))
				p.next = n + 1
				continue members
			}
			base += len(p.st.members)
		}

		if unknown {
			o.Skip(parts[0].st.names)
			continue
		}

		if name, value, ok := o.Extra(namesOf(parts)...); ok {
			extra := parts[0].v.Field(parts[0].st.extra)
			item := grow(extra)
			item.Field(0).SetString(name)
			item.Field(1).SetBytes(value)
		}
	}

	// The numbers of the members that were read are bits in seen, those of the first part lowest.
	base := 0
	for i := range parts {
		st := parts[i].st
		for missing := st.required &^ (o.seen >> base); missing != 0; missing &= missing - 1 {
			n := bits.TrailingZeros64(missing)
			o.Need(base+n, st.names[n])
		}
		base += len(st.members)
	}
}

func namesOf(parts []part) [][]string {
	names := make([][]string, len(parts))
	for i, p := range parts {
		names[i] = p.st.names
	}
	return names
}

func (st *structure) encode(e *Encoder, v reflect.Value) {
	for i := range st.members {
		m := &st.members[i]
		m.encode(e, v.Field(m.index))
	}
}

func (st *structure) check(c *Checker, v reflect.Value) {
	for i := range st.members {
		m := &st.members[i]
		m.check(c, v.Field(m.index))
	}
}

// eachExtra calls f for the members of an object that the protocol does not
// define.
func (p part) eachExtra(f func(name string, value json.RawMessage)) {
	if p.st.extra < 0 {
		return
	}
	extra := p.v.Field(p.st.extra)
	for i := range extra.Len() {
		item := extra.Index(i)
		f(item.Field(0).String(), item.Field(1).Bytes())
	}
}

// DecodeObject reads the object that comes next into x, a pointer to a struct,
// and the fragments of it that stand in the same object. If unknown is true the
// object has a variant that is kept elsewhere, and members that neither x nor a
// fragment defines are passed over.
func DecodeObject(s *Scanner, unknown bool, x any, fragments ...any) {
	decodeParts(s, unknown, partsOf(slices.Insert(fragments, 0, x)))
}

// EncodeFields writes the members that the fields of x declare into the object
// that is open.
func EncodeFields(e *Encoder, x any) {
	p := partsOf([]any{x})[0]
	p.st.encode(e, p.v)
}

// EncodeExtra writes the members of x that the protocol does not define.
func EncodeExtra(e *Encoder, x any, fragments ...any) {
	parts := partsOf(slices.Insert(fragments, 0, x))
	parts[0].eachExtra(func(name string, value json.RawMessage) { e.Extra(name, value, namesOf(parts)...) })
}

// CheckFields checks the members that the fields of x declare.
func CheckFields(c *Checker, x any) {
	p := partsOf([]any{x})[0]
	p.st.check(c, p.v)
}

// CheckExtra checks the members of x that the protocol does not define.
func CheckExtra(c *Checker, x any, fragments ...any) {
	parts := partsOf(slices.Insert(fragments, 0, x))
	parts[0].eachExtra(func(name string, value json.RawMessage) { c.Extra(name, value, namesOf(parts)...) })
}

// Names returns the names of the members that the fields of x declare.
func Names(x any) []string { return partsOf([]any{x})[0].st.names }
