// Package strictjson reads JSON so that two readers of the same bytes cannot
// disagree about its meaning, and writes it without changing text.
//
// Every function refuses invalid UTF-8, text after the value, and an object at
// any depth that has a member name twice. In objects that a protocol defines,
// which are those that are decoded into a Go struct, it also refuses names that
// differ only in case from each other or from a defined one. Opaque values (a
// payload, a JSON Schema; in Go a [Value], json.RawMessage, any or a map) keep
// their bytes, and names in them may differ in case only.
//
// A [Value] carries the proof that its bytes were checked. A function that takes
// a Value need not check it again.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// A Value is one JSON value that was checked: valid UTF-8, no repeated names at
// any depth, nothing after it. The zero Value is absent; it is written as null.
type Value struct{ raw []byte }

// Parse checks one JSON value. The Value shares the memory of raw.
func Parse(raw []byte) (Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	value, err := dec.ReadValue()
	if err != nil {
		return Value{}, syntaxError(err)
	}
	if err := end(dec); err != nil {
		return Value{}, err
	}
	return Value{value}, nil
}

// ParseObject is Parse for an object whose own names differ in more than case.
func ParseObject(raw []byte) (Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	w := walker{dec: dec}
	if err := w.object(nil); err != nil {
		return Value{}, err
	}
	if err := end(dec); err != nil {
		return Value{}, err
	}
	return Value{bytes.TrimSpace(raw)}, nil
}

// Trust returns a Value without a check. The caller knows that raw was checked
// by this package's rules, for instance because jsonrpc read it as a part of a
// frame, or because this program encoded it.
func Trust(raw []byte) Value { return Value{raw} }

// ValueOf encodes v, which must not hold raw JSON that was not checked.
func ValueOf(v any) (Value, error) {
	raw, err := Encode(v)
	return Value{raw}, err
}

// end reports an error unless nothing but blanks follows.
func end(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != io.EOF {
		return &Error{Text: "there is more text after the JSON value"}
	}
	return nil
}

// Raw returns the bytes of v as they came; nil if v is absent.
func (v Value) Raw() json.RawMessage { return v.raw }

// IsZero reports whether v is absent. A JSON null is not absent.
func (v Value) IsZero() bool { return len(v.raw) == 0 }

// IsObject reports whether v is a JSON object.
func (v Value) IsObject() bool { return len(v.raw) > 0 && v.raw[0] == '{' }

// String returns the text of v.
func (v Value) String() string { return string(v.raw) }

// Compact returns a copy of v without the blanks between tokens. Strings and
// numbers keep their bytes.
func (v Value) Compact() Value {
	compact := bytes.Clone(v.raw)
	// The names were checked when v was made.
	(*jsontext.Value)(&compact).Compact(jsontext.AllowDuplicateNames(true)) // fails only for invalid JSON
	return Value{compact}
}

// Decode reads the object v into a struct as [Decode] does.
func (v Value) Decode(into any) error { return Decode(v.raw, into) }

// MarshalJSON returns the bytes of v.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.IsZero() {
		return []byte("null"), nil
	}
	return v.raw, nil
}

// UnmarshalJSON checks and copies raw.
func (v *Value) UnmarshalJSON(raw []byte) error {
	parsed, err := Parse(bytes.Clone(raw))
	*v = parsed
	return err
}

// UnmarshalJSONFrom copies the next value. The decoders of this package check
// the bytes they read, so that they are not checked again.
func (v *Value) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if lenient(dec) {
		return v.UnmarshalJSON(raw)
	}
	v.raw = bytes.Clone(raw)
	return nil
}

// Members returns the names and values of an object in their order. It ends
// early where raw is not strict JSON.
func Members(raw []byte) iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
		if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
			return
		}
		for dec.PeekKind() == '"' {
			name, err := dec.ReadToken()
			if err != nil {
				return
			}
			text := name.String()
			value, err := dec.ReadValue()
			if err != nil || !yield(text, Value{bytes.Clone(value)}) {
				return
			}
		}
	}
}

// Strings returns the string values in raw at any depth, not the names, in
// their order. It ends early where raw is not strict JSON.
func Strings(raw []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
		for {
			in, n := dec.StackIndex(dec.StackDepth())
			tok, err := dec.ReadToken()
			if err != nil {
				return
			}
			if isName := in == '{' && n%2 == 0; tok.Kind() == '"' && !isName && !yield(tok.String()) {
				return
			}
		}
	}
}

// Canonical returns the canonical form of raw by RFC 8785. Two programs that
// write one value differently have one canonical form.
func Canonical(raw []byte) ([]byte, error) {
	canonical := jsontext.Value(bytes.Clone(raw))
	if err := canonical.Canonicalize(); err != nil {
		return nil, syntaxError(err)
	}
	return canonical, nil
}

// Encode is json.Marshal without escapes for HTML, so that text goes out as it
// came in.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// An Error is a problem of a JSON text and its place.
type Error struct {
	Path string // context.artifacts[0].path; "" for the value as a whole
	Text string
}

// Error returns the path and the text.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Text
	}
	return e.Path + ": " + e.Text
}

// Within returns err with its path below that of a member.
func Within(member string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", member, err)
	}
	switch {
	case e.Path == "":
		return &Error{Path: member, Text: e.Text}
	case e.Path[0] == '[':
		return &Error{Path: member + e.Path, Text: e.Text}
	}
	return &Error{Path: member + "." + e.Path, Text: e.Text}
}

// syntaxError translates an error of the decoder.
func syntaxError(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Text: "unexpected end of JSON"}
	case !errors.As(err, &s):
		return err
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Error{Path: path(s.JSONPointer), Text: "the name appears twice"}
	}
	return &Error{Path: path(s.JSONPointer), Text: fmt.Sprintf("%v at byte %d", s.Err, s.ByteOffset)}
}
