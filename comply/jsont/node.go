package jsont

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// A Node is a JSON value that knows the line it stands on.
type Node struct {
	line    int
	Kind    Kind
	Text    string   // what a string says, or how any other leaf is written
	members []Member // of an object, in their order
	items   []*Node  // of an array
}

type Member struct {
	Name  string
	Value *Node
}

// A Kind is what a JSON value is.
type Kind string

const (
	Object Kind = "an object"
	Array  Kind = "an array"
	String Kind = "a string"
	Number Kind = "a number"
	Bool   Kind = "true or false"
	Null   Kind = "null"
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

// ParseNode reads one JSON value. Names must not repeat.
func ParseNode(text []byte) (*Node, error) {
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

func (t *tree) value() (*Node, error) {
	tok, err := t.dec.Token()
	if err != nil {
		return nil, linef(t.line, "not JSON: %v", err)
	}
	end := int(t.dec.InputOffset())
	t.line += bytes.Count(t.text[t.at:end], []byte("\n"))
	t.at = end
	n := &Node{line: t.line}
	switch tok := tok.(type) {
	case string:
		n.Kind, n.Text = String, tok
	case json.Number:
		n.Kind, n.Text = Number, tok.String()
	case bool:
		n.Kind, n.Text = Bool, strconv.FormatBool(tok)
	case nil:
		n.Kind, n.Text = Null, "null"
	case json.Delim:
		if tok == '[' {
			n.Kind = Array
			return n, t.items(n)
		}
		n.Kind = Object
		return n, t.fields(n)
	}
	return n, nil
}

func (t *tree) items(n *Node) error {
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

func (t *tree) fields(n *Node) error {
	seen := map[string]bool{}
	for t.dec.More() {
		name, err := t.value()
		if err != nil {
			return err
		}
		if seen[name.Text] {
			return linef(name.line, "the member %q is there twice", name.Text)
		}
		seen[name.Text] = true
		value, err := t.value()
		if err != nil {
			return err
		}
		n.members = append(n.members, Member{name.Text, value})
	}
	_, err := t.dec.Token()
	return err
}

// Members returns the members of n, which may be nil.
func (n *Node) Members() []Member {
	if n == nil {
		return nil
	}
	return n.members
}

// Get returns the member with that name, nil if there is none. n may be nil.
func (n *Node) Get(name string) *Node {
	if n != nil {
		for _, m := range n.members {
			if m.Name == name {
				return m.Value
			}
		}
	}
	return nil
}

// without returns an object without some of its members.
func (n *Node) without(names ...string) *Node {
	out := *n
	out.members = nil
next:
	for _, m := range n.members {
		for _, name := range names {
			if m.Name == name {
				continue next
			}
		}
		out.members = append(out.members, m)
	}
	return &out
}

// Encode returns n as compact JSON, with what expand makes of its strings and
// names.
func (n *Node) Encode(expand func(string) string) json.RawMessage {
	var b bytes.Buffer
	n.writeTo(&b, expand)
	return b.Bytes()
}

func (n *Node) writeTo(b *bytes.Buffer, expand func(string) string) {
	switch n.Kind {
	case Object:
		b.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(Encode(expand(m.Name)))
			b.WriteByte(':')
			m.Value.writeTo(b, expand)
		}
		b.WriteByte('}')
	case Array:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeTo(b, expand)
		}
		b.WriteByte(']')
	case String:
		b.Write(Encode(expand(n.Text)))
	default:
		b.WriteString(n.Text)
	}
}

// AsIs expands nothing.
func AsIs(s string) string { return s }

// Decode returns a JSON value whose numbers keep their digits. ok is false for
// what is not one value.
func Decode(raw []byte) (v any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil, false
	}
	_, err := dec.Token()
	return v, err == io.EOF
}

// Encode returns v as compact JSON, without the escapes meant for web pages.
func Encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
