package comply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// A node is a JSON value that knows the line it stands on.
type node struct {
	line    int
	kind    kind
	text    string   // what a string says, or how any other leaf is written
	members []member // of an object, in their order
	items   []*node  // of an array
}

type member struct {
	name  string
	value *node
}

// A kind is what a JSON value is.
type kind string

const (
	isObject kind = "an object"
	isArray  kind = "an array"
	isString kind = "a string"
	isNumber kind = "a number"
	isBool   kind = "true or false"
	isNull   kind = "null"
)

// A lineError is what is wrong with a text, and on which line.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func linef(line int, format string, args ...any) error {
	return &lineError{line, fmt.Errorf(format, args...)}
}

// parseNode reads one JSON value. Names must not repeat.
func parseNode(text []byte) (*node, error) {
	if !utf8.Valid(text) {
		for i, line := range bytes.Split(text, []byte("\n")) {
			if !utf8.Valid(line) {
				return nil, linef(i+1, "not UTF-8")
			}
		}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		at := len(text)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = min(at, int(syntax.Offset))
		}
		return nil, linef(1+bytes.Count(text[:at], []byte("\n")), "not JSON: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	t := &tree{text: text, dec: dec, line: 1}
	return t.value()
}

// A tree is a tree of nodes that is being built from valid JSON.
type tree struct {
	text []byte
	dec  *json.Decoder
	at   int // lines were counted up to here
	line int
}

func (t *tree) value() (*node, error) {
	tok, err := t.dec.Token()
	if err != nil {
		return nil, linef(t.line, "not JSON: %v", err)
	}
	end := int(t.dec.InputOffset())
	t.line += bytes.Count(t.text[t.at:end], []byte("\n"))
	t.at = end
	n := &node{line: t.line}
	switch tok := tok.(type) {
	case string:
		n.kind, n.text = isString, tok
	case json.Number:
		n.kind, n.text = isNumber, tok.String()
	case bool:
		n.kind, n.text = isBool, strconv.FormatBool(tok)
	case nil:
		n.kind, n.text = isNull, "null"
	case json.Delim:
		if tok == '[' {
			n.kind = isArray
			return n, t.items(n)
		}
		n.kind = isObject
		return n, t.fields(n)
	}
	return n, nil
}

func (t *tree) items(n *node) error {
	for t.dec.More() {
		item, err := t.value()
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := t.dec.Token()
	return err
}

func (t *tree) fields(n *node) error {
	seen := map[string]bool{}
	for t.dec.More() {
		name, err := t.value()
		if err != nil {
			return err
		}
		if seen[name.text] {
			return linef(name.line, "the member %q is there twice", name.text)
		}
		seen[name.text] = true
		value, err := t.value()
		if err != nil {
			return err
		}
		n.members = append(n.members, member{name.text, value})
	}
	_, err := t.dec.Token()
	return err
}

// get returns the member with that name, nil if there is none. n may be nil.
func (n *node) get(name string) *node {
	if n != nil {
		for _, m := range n.members {
			if m.name == name {
				return m.value
			}
		}
	}
	return nil
}

// without returns an object without some of its members.
func (n *node) without(names ...string) *node {
	out := *n
	out.members = nil
next:
	for _, m := range n.members {
		for _, name := range names {
			if m.name == name {
				continue next
			}
		}
		out.members = append(out.members, m)
	}
	return &out
}

// encode returns n as compact JSON, with what expand makes of its strings and
// names.
func (n *node) encode(expand func(string) string) json.RawMessage {
	var b bytes.Buffer
	n.writeTo(&b, expand)
	return b.Bytes()
}

func (n *node) writeTo(b *bytes.Buffer, expand func(string) string) {
	switch n.kind {
	case isObject:
		b.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(quote(expand(m.name)))
			b.WriteByte(':')
			m.value.writeTo(b, expand)
		}
		b.WriteByte('}')
	case isArray:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeTo(b, expand)
		}
		b.WriteByte(']')
	case isString:
		b.Write(quote(expand(n.text)))
	default:
		b.WriteString(n.text)
	}
}

// asIs expands nothing.
func asIs(s string) string { return s }

// quote returns s as a JSON string.
func quote(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(s) // a string always can be
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decode returns a JSON value whose numbers keep their digits. ok is false for
// what is not one value.
func decode(raw []byte) (v any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil, false
	}
	_, err := dec.Token()
	return v, err == io.EOF
}

// encoded returns v as compact JSON, without the escapes meant for web pages.
func encoded(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
