package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/internal/ground/text/nearest"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// Decode reads one JSON object into the struct that into points at. It refuses
// members that the struct does not have, unless it keeps them in an embedded
// jsontext.Value. A null is the zero value.
func Decode(raw []byte, into any) error {
	return decode(raw, into, rules{}, jsonv2.RejectUnknownMembers(true))
}

// DecodeOpen is Decode for documents that a later version of a protocol may
// have extended. Members that the struct does not have are passed over; those of
// the outermost object are returned byte for byte, as an object, nil if there
// are none. An integer may be written in any way that JSON has for it, such as
// 1.0.
func DecodeOpen(raw []byte, into any) (unknown json.RawMessage, err error) {
	err = decode(raw, into, rules{walk: true, unknown: &unknown}, jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(integer)))
	if unknown != nil {
		unknown = append(unknown, '}')
	}
	return unknown, err
}

// integer reads a number whose value is an integer that a float64 holds exactly.
func integer(dec *jsontext.Decoder, to *int64) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported // for the package to report
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	digits, _, _ := strings.Cut(strings.ToLower(string(raw)), "e")
	underflow := f == 0 && strings.ContainsAny(digits, "123456789")
	isExact := err == nil && !underflow && f == math.Trunc(f) && math.Abs(f) <= 1<<53-1
	if !isExact {
		return &Error{Text: shorten.Quote(string(raw)) + " is not an integer of at most 53 bits"}
	}
	*to = int64(f)
	return nil
}

// DecodeTolerant is Decode for parameters that other programs spell in their
// own way: names may be in camelCase or snake_case, and members that the struct
// does not have are passed over.
func DecodeTolerant(raw []byte, into any) error {
	return decode(raw, into, rules{walk: true, spellings: true}, jsonv2.MatchCaseInsensitiveNames(true))
}

// rules are the options of a walk.
type rules struct {
	walk      bool // else the walk is left out where it could find nothing
	spellings bool // project_id and projectId are one name

	unknown *json.RawMessage // gets the unknown members of the outermost object, but for its closing brace
}

// decode checks raw in one walk that follows the struct's type, and decodes it
// in a second. The first is needed where unknown members are allowed: only there
// can a name differ in case only from another without being refused as unknown.
func decode(raw []byte, into any, r rules, opts ...jsonv2.Options) error {
	var fields *structFields // none of a type that has a method to read itself
	if t := reflect.TypeOf(into).Elem(); !opaque(t) {
		fields = fieldsOf(t)
	}
	if keeps := fields != nil && fields.open; r.walk || keeps {
		if !r.walk {
			fields = nil // the struct's owner decides about names that it keeps
		}
		dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
		w := walker{dec: dec, rules: r}
		if err := w.object(fields); err != nil {
			return err
		}
		if err := end(dec); err != nil {
			return err
		}
	} else if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 && raw[0] != '{' {
		return &Error{Text: "must be an object, not " + kindName(jsontext.Value(raw).Kind())}
	}
	if err := jsonv2.Unmarshal(raw, into, opts...); err != nil {
		return decodeError(err)
	}
	return nil
}

// A walker checks the names of the objects that a protocol defines, in one pass
// over the text. Its decoder refuses repeated names and invalid UTF-8, also in
// the values that the walker passes over.
type walker struct {
	dec *jsontext.Decoder
	rules
}

// object checks an object with the given fields; nil stands for none.
func (w *walker) object(fields *structFields) error {
	if k := w.dec.PeekKind(); k != '{' && k != 0 {
		w.dec.SkipValue() // moves the pointer to it
		return w.refuse("must be an object, not " + kindName(k))
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return syntaxError(err)
	}

	var names Names
	for w.dec.PeekKind() != '}' {
		quoted, err := w.dec.ReadValue()
		if err != nil {
			return syntaxError(err)
		}
		text, err := Unquote(quoted)
		if err != nil {
			return syntaxError(err)
		}

		name := string(text)
		keep := w.unknown != nil && w.dec.StackDepth() == 1
		if keep {
			quoted = bytes.Clone(quoted)
		}

		// A known name is counted under the name of its field, so that two spellings of it are
		// found.
		field, known := fields.lookup(name, w.spellings)
		if known {
			name = field.name
		} else if twin := fields.twin(name); twin != "" {
			return w.refuse("differs only in case from " + twin)
		}

		if twin, found := names.Add(name); found {
			if known {
				return w.refuse("the member appears twice, in two spellings")
			}
			return w.refuse("differs only in case from " + twin)
		}

		if keep && !known {
			err = w.keep(quoted)
		} else {
			err = w.value(field.typ)
		}
		if err != nil {
			return err
		}
	}

	_, err := w.dec.ReadToken()
	return err
}

// keep appends an unknown member.
func (w *walker) keep(name []byte) error {
	value, err := w.dec.ReadValue()
	if err != nil {
		return syntaxError(err)
	}
	separator := byte(',')
	if *w.unknown == nil {
		separator = '{'
	}
	*w.unknown = append(append(append(append(*w.unknown, separator), name...), ':'), value...)
	return nil
}

// value checks a value that is decoded into type t; nil stands for an opaque
// one.
func (w *walker) value(t reflect.Type) error {
	if t == nil || opaque(t) {
		return w.skip()
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := w.dec.PeekKind(); {
	case kind == '{' && t.Kind() == reflect.Struct:
		return w.object(fieldsOf(t))
	case kind == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		if _, err := w.dec.ReadToken(); err != nil {
			return syntaxError(err)
		}
		for w.dec.PeekKind() != ']' {
			if err := w.value(t.Elem()); err != nil {
				return err
			}
		}
		_, err := w.dec.ReadToken()
		return err
	}
	return w.skip()
}

func (w *walker) skip() error {
	if err := w.dec.SkipValue(); err != nil {
		return syntaxError(err)
	}
	return nil
}

// refuse reports an error about the name or value that was read last.
func (w *walker) refuse(text string) error {
	return &Error{Path: path(w.dec.StackPointer()), Text: text}
}

// structFields are the members that a struct type defines.
type structFields struct {
	byName     map[string]structField
	bySpelling map[string]structField // by spelling, see there
	open       bool                   // it keeps unknown members
}

type structField struct {
	name string
	typ  reflect.Type
}

func (f *structFields) lookup(name string, spellings bool) (structField, bool) {
	if f == nil {
		return structField{}, false
	}
	if field, ok := f.byName[name]; ok || !spellings {
		return field, ok
	}
	field, ok := f.bySpelling[spelling(name)]
	return field, ok
}

// twin returns the defined name that differs from the given one in case only.
func (f *structFields) twin(name string) string {
	if f != nil {
		for known := range f.byName {
			if strings.EqualFold(known, name) {
				return known
			}
		}
	}
	return ""
}

// names returns the defined names in order.
func (f *structFields) names() iter.Seq[string] {
	return slices.Values(slices.Sorted(maps.Keys(f.byName)))
}

var fieldCache sync.Map // reflect.Type to *structFields

// fieldsOf returns the members of a struct type as package json finds them.
func fieldsOf(t reflect.Type) *structFields {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.(*structFields)
	}
	f := &structFields{byName: map[string]structField{}, bySpelling: map[string]structField{}}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := (field.Anonymous && name == "") || strings.Contains(","+options+",", ",embed,")
		switch {
		case name == "-" && options == "":
		case embedded && field.Type.Kind() == reflect.Struct:
			inner := fieldsOf(field.Type)
			f.open = f.open || inner.open
			for _, i := range inner.byName {
				f.add(i)
			}
		case embedded:
			f.open = true
		case field.IsExported():
			if name == "" {
				name = field.Name
			}
			f.add(structField{name, field.Type})
		}
	}
	fieldCache.Store(t, f)
	return f
}

func (f *structFields) add(field structField) {
	f.byName[field.name], f.bySpelling[spelling(field.name)] = field, field
}

// opaque reports whether values of type t are not walked: a protocol does not
// define their members, or a method of t reads them.
func opaque(t reflect.Type) bool {
	for _, method := range []reflect.Type{
		reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](), reflect.TypeFor[jsonv2.UnmarshalerFrom](),
	} {
		if t.Implements(method) || reflect.PointerTo(t).Implements(method) {
			return true
		}
	}
	return t.Kind() == reflect.Interface || t.Kind() == reflect.Map
}

// Names finds two names that differ in case only. The zero value is empty.
type Names struct{ folded map[string]string }

// Add adds a name and returns the one that was added before and equals it
// regardless of case, if there is one.
func (n *Names) Add(name string) (twin string, found bool) {
	key := Fold(name)
	if twin, found = n.folded[key]; found {
		return twin, true
	}
	if n.folded == nil {
		n.folded = make(map[string]string)
	}
	n.folded[key] = name
	return "", false
}

// Fold returns the same text for all names that differ in case only, as
// strings.EqualFold compares them.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

// spelling returns the same text for project_id, projectId and ProjectID.
func spelling(name string) string {
	return Fold(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// lenient reports whether a decoder lets repeated names or invalid UTF-8 pass.
func lenient(dec *jsontext.Decoder) bool {
	names, _ := jsonv2.GetOption(dec.Options(), jsontext.AllowDuplicateNames)
	utf8, _ := jsonv2.GetOption(dec.Options(), jsontext.AllowInvalidUTF8)
	return names || utf8
}

// decodeError translates an error of the decoder into the path of the member and
// the type that it must have.
func decodeError(err error) error {
	var s *jsonv2.SemanticError
	if !errors.As(err, &s) {
		return syntaxError(err)
	}

	e := &Error{Path: path(s.JSONPointer)}
	switch {
	case errors.Is(s.Err, jsonv2.ErrUnknownName):
		e.Text = "unknown member"
		if s.GoType != nil && s.GoType.Kind() == reflect.Struct {
			if near := nearest.Member(s.JSONPointer.LastToken(), fieldsOf(s.GoType).names()); near != "" {
				e.Text += "; did you mean " + near + "?"
			}
		}

	case s.Err != nil && !errors.Is(s.Err, strconv.ErrSyntax) && !errors.Is(s.Err, strconv.ErrRange):
		var inner *Error
		if errors.As(s.Err, &inner) {
			return Within(e.Path, inner)
		}
		e.Text = s.Err.Error()

	case s.GoType != nil && typeName(s.GoType) != "":
		e.Text = "must be " + typeName(s.GoType) + ", not " + kindName(s.JSONKind)
		if len(s.JSONValue) > 0 && s.JSONKind == '0' {
			e.Text = "must be " + typeName(s.GoType) + ", not " + shorten.Quote(string(s.JSONValue))
		}
	default:
		e.Text = kindName(s.JSONKind) + " is not expected here"
	}
	return e
}

// typeName returns the JSON type that a Go type is decoded from.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a non-negative integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return typeName(t.Elem())
	}
	return ""
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "true or false"
	}
	return "null"
}

// path writes a pointer the way people do: context.artifacts[0].path.
func path(p jsontext.Pointer) string {
	const most = 12 // names that a reader follows
	var b strings.Builder
	depth := 0
	for token := range p.Tokens() {
		if depth++; depth > most {
			b.WriteString("…")
			break
		}
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			fmt.Fprintf(&b, "[%s]", token)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if quoted := shorten.Quote(token); quoted != `"`+token+`"` {
			token = quoted // long, or not plain text
		}
		b.WriteString(token)
	}
	return b.String()
}
