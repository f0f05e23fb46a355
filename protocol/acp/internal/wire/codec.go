package wire

import (
	"encoding/json"
	"reflect"
	"strconv"
	"sync"
)

// A codec reads, writes and checks the values of one Go type. It is built once,
// from the type and its registrations, and does not change after it is published in
// codecs.
type codec struct {
	decode func(*Scanner, reflect.Value)
	encode func(*Encoder, reflect.Value)
	check  func(*Checker, reflect.Value)

	// members writes the members of an object without its braces.
	members func(*Encoder, reflect.Value)

	structure *structure // of a struct
}

// codecs holds the codec of each type that was asked for or registered.
var codecs sync.Map // reflect.Type to *codec

// building lets one goroutine at a time build codecs, so that a type gets one
// codec. Readers of codecs do not take it.
var building sync.Mutex

// codecOf returns the codec of a type and builds it if it is not there yet.
func codecOf(t reflect.Type) *codec {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec)
	}
	building.Lock()
	defer building.Unlock()
	b := &builder{begun: map[reflect.Type]*codec{}}
	c := b.codec(t)
	for t, c := range b.begun {
		codecs.Store(t, c)
	}
	return c
}

// A builder builds the codec of a type and of all types in it. A type may hold
// itself: begun has the codecs that others already point to, and none is
// published before all are complete.
type builder struct {
	begun map[reflect.Type]*codec
}

var (
	rawType    = reflect.TypeFor[json.RawMessage]()
	numberType = reflect.TypeFor[json.Number]()
)

// It panics for a type that no JSON of the protocol has, such as a map: that is a
// mistake in the generator, found by the first test that encodes the type.
func (b *builder) codec(t reflect.Type) *codec {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec)
	}
	if c, ok := b.begun[t]; ok {
		return c
	}

	// The codec is known before it is complete, because a type may hold itself.
	c := &codec{check: func(*Checker, reflect.Value) {}}
	b.begun[t] = c

	switch kind := t.Kind(); {
	case t == rawType:
		c.decode = func(s *Scanner, v reflect.Value) { v.SetBytes(s.Raw()) }
		c.encode = func(e *Encoder, v reflect.Value) { e.Raw(v.Bytes()) }
		c.check = func(c *Checker, v reflect.Value) { c.Raw(v.Bytes()) }
	case t == numberType:
		c.decode = func(s *Scanner, v reflect.Value) { v.SetString(string(s.Number())) }
		c.encode = func(e *Encoder, v reflect.Value) { e.Number(json.Number(v.String())) }
		c.check = func(c *Checker, v reflect.Value) { c.Range(json.Number(v.String()), "", "") }

	case kind == reflect.String:
		c.decode = func(s *Scanner, v reflect.Value) { v.SetString(s.String()) }
		c.encode = func(e *Encoder, v reflect.Value) { e.String(v.String()) }
		c.check = func(c *Checker, v reflect.Value) { c.Text(v.String()) }
	case kind == reflect.Bool:
		c.decode = func(s *Scanner, v reflect.Value) { v.SetBool(s.Bool()) }
		c.encode = func(e *Encoder, v reflect.Value) { e.Bool(v.Bool()) }

	case kind >= reflect.Int && kind <= reflect.Int64:
		c.decode = func(s *Scanner, v reflect.Value) { v.SetInt(s.Int(t.Bits())) }
		c.encode = func(e *Encoder, v reflect.Value) { e.Int(v.Int()) }
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		c.decode = func(s *Scanner, v reflect.Value) { v.SetUint(s.Uint(t.Bits())) }
		c.encode = func(e *Encoder, v reflect.Value) { e.Uint(v.Uint()) }

	case kind == reflect.Slice && isMembers(t):
		b.members(c, t)
	case kind == reflect.Slice:
		b.list(c, t)
	case kind == reflect.Struct:
		b.object(c, t)
	default:
		panic("wire: no codec for " + t.String())
	}

	if override, ok := overrides[t]; ok {
		override(c)
	}
	return c
}

// isMembers reports whether a slice holds the members of an object whose names
// are data: its items are structs of a name and a value.
func isMembers(t reflect.Type) bool {
	item := t.Elem()
	return item.Kind() == reflect.Struct && item.NumField() == 2 && item.Field(0).Tag.Get("acp") == "name"
}

// grow appends a zero item to a slice and returns it.
func grow(list reflect.Value) reflect.Value {
	n := list.Len()
	list.Grow(1)
	list.SetLen(n + 1)
	return list.Index(n)
}

// notNil makes a nil slice an empty one: the array was there.
func notNil(list reflect.Value) {
	if list.IsNil() {
		list.Set(reflect.MakeSlice(list.Type(), 0, 0))
	}
}

// list builds the codec of an array.
func (b *builder) list(c *codec, t reflect.Type) {
	item := b.codec(t.Elem())
	c.decode = func(s *Scanner, v reflect.Value) {
		for a := s.Array(); a.Next(); {
			item.decode(s, grow(v))
		}
		notNil(v)
	}
	c.encode = func(e *Encoder, v reflect.Value) {
		e.BeginArray()
		for i := range v.Len() {
			e.Item(i)
			item.encode(e, v.Index(i))
		}
		e.CloseArray()
	}
	c.check = func(c *Checker, v reflect.Value) {
		for i := range v.Len() {
			c.Item(i)
			item.check(c, v.Index(i))
			c.Leave()
		}
	}
}

// members builds the codec of an object whose names are data.
func (b *builder) members(c *codec, t reflect.Type) {
	value := b.codec(t.Elem().Field(1).Type)

	c.decode = func(s *Scanner, v reflect.Value) {
		s.Each(func(name string) {
			m := grow(v)
			m.Field(0).SetString(name)
			value.decode(s, m.Field(1))
		})
		notNil(v)
	}

	c.encode = func(e *Encoder, v reflect.Value) {
		e.Begin()
		for i := range v.Len() {
			m := v.Index(i)
			e.AnyName(m.Field(0).String())
			value.encode(e, m.Field(1))
		}
		e.Close()
	}

	c.check = func(c *Checker, v reflect.Value) {
		for i := range v.Len() {
			m := v.Index(i)
			c.Enter(m.Field(0).String())
			c.Text(m.Field(0).String())
			value.check(c, m.Field(1))
			c.Leave()
		}
		c.Distinct(v.Len(), func(i int) string { return v.Index(i).Field(0).String() })
	}
}

// object builds the codec of a struct from its tags.
func (b *builder) object(c *codec, t reflect.Type) {
	st := b.structure(t)
	c.structure = st
	c.decode = func(s *Scanner, v reflect.Value) { decodeParts(s, false, []part{{v: v, st: st}}) }
	c.members = func(e *Encoder, v reflect.Value) {
		st.encode(e, v)
		part{v: v, st: st}.eachExtra(func(name string, value json.RawMessage) { e.Extra(name, value, st.names) })
	}
	c.encode = func(e *Encoder, v reflect.Value) {
		e.Begin()
		c.members(e, v)
		e.Close()
	}
	c.check = func(c *Checker, v reflect.Value) {
		st.check(c, v)
		part{v: v, st: st}.eachExtra(func(name string, value json.RawMessage) { c.Extra(name, value, st.names) })
	}
}

// overrides are the codecs that generated code has registered: they replace
// functions of the codec that follows from the type. Only package initialization
// writes to it.
var overrides = map[reflect.Type]func(*codec){}

// RegisterEnum makes T, a string type, an enum. If it is open, values that are
// not known are legal.
func RegisterEnum[T ~string](open bool, known func(T) bool) {
	t := reflect.TypeFor[T]()
	overrides[t] = func(c *codec) {
		c.check = func(c *Checker, v reflect.Value) {
			c.Value(t.Name(), v.String(), known(T(v.String())), open)
		}
	}
}

// RegisterUnion gives T, a struct type, functions of its own.
// The generated functions read the discriminator and choose the variant; see Tag.
func RegisterUnion[T any](decode func(*T, *Scanner), encode func(*T, *Encoder), check func(*T, *Checker)) {
	overrides[reflect.TypeFor[T]()] = func(c *codec) {
		c.decode = func(s *Scanner, v reflect.Value) { decode(v.Addr().Interface().(*T), s) }
		c.encode = func(e *Encoder, v reflect.Value) { encode(v.Addr().Interface().(*T), e) }
		c.check = func(c *Checker, v reflect.Value) { check(v.Addr().Interface().(*T), c) }
	}
}

// Decode sets x, a pointer to a zero value, to the value that comes next.
func Decode(s *Scanner, x any) {
	v := reflect.ValueOf(x).Elem()
	codecOf(v.Type()).decode(s, v)
}

// New sets a variant of a union to a new value and returns it.
func New[T any](variant **T) *T {
	*variant = new(T)
	return *variant
}

// Encode writes the value that x points to.
func Encode(e *Encoder, x any) {
	v := reflect.ValueOf(x).Elem()
	codecOf(v.Type()).encode(e, v)
}

// EncodeMembers writes the members of the struct that x points to into the object
// that is open.
func EncodeMembers(e *Encoder, x any) {
	v := reflect.ValueOf(x).Elem()
	codecOf(v.Type()).members(e, v)
}

// Check checks the value that x points to.
func Check(c *Checker, x any) {
	v := reflect.ValueOf(x).Elem()
	codecOf(v.Type()).check(c, v)
}

// CheckVariants checks the variants of a union that are set. Each is a pointer.
func CheckVariants(c *Checker, variants ...any) {
	for _, x := range variants {
		if v := reflect.ValueOf(x); !v.IsNil() {
			codecOf(v.Type().Elem()).check(c, v.Elem())
		}
	}
}

// numberOf returns a number of any type.
func numberOf(v reflect.Value) json.Number {
	switch {
	case v.CanInt():
		return json.Number(strconv.FormatInt(v.Int(), 10))
	case v.CanUint():
		return json.Number(strconv.FormatUint(v.Uint(), 10))
	}
	return json.Number(v.String())
}
