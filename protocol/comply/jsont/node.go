package jsont

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A Node is a JSON value that remembers its line and the order of its members, so
// that errors can point to it and a frame goes out as the file has it.
type Node struct {
	line    int
	Kind    Kind
	Text    string   // the characters of a string; any other leaf as it is written
	members []Member // of an object, in their order
	items   []*Node  // of an array
}

// A Member is one member of an object.
type Member struct {
	Name  string
	Value *Node
}

// A Kind is the type of a JSON value, with its article, as error texts need it.
type Kind string

// The kinds of JSON values.
const (
	Object Kind = "an object"
	Array  Kind = "an array"
	String Kind = "a string"
	Number Kind = "a number"
	Bool   Kind = "true or false"
	Null   Kind = "null"
)

// kinds has the kind of the value that a token begins.
var kinds = map[jsontext.Kind]Kind{'{': Object, '[': Array, '"': String, '0': Number, 't': Bool, 'f': Bool, 'n': Null}

// A lineError is an error on one line of a text.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func linef(line int, format string, args ...any) error {
	return &lineError{line, fmt.Errorf(format, args...)}
}

// ParseNode reads one JSON value. It refuses invalid UTF-8 and objects in which a
// name repeats: two readers could understand such a file differently.
// Errors are lineErrors with the line of the first wrong byte.
func ParseNode(text []byte) (*Node, error) {
	b := &builder{text: text, dec: jsontext.NewDecoder(bytes.NewReader(text)), line: 1}
	n, err := b.value()
	if err == nil {
		if _, err = b.dec.ReadToken(); err == io.EOF {
			return n, nil
		} else if err == nil {
			err = errors.New("not JSON: unexpected data after the value")
		}
	}
	at := b.dec.InputOffset()
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		at = syntax.ByteOffset
		if errors.Is(err, jsontext.ErrDuplicateName) {
			err = fmt.Errorf("the member %q appears twice", syntax.JSONPointer.LastToken())
		} else {
			err = fmt.Errorf("not JSON: %w", syntax.Err)
		}
	}
	return nil, &lineError{1 + bytes.Count(text[:min(int(at), len(text))], []byte("\n")), err}
}

// A builder makes nodes from tokens.
// Lines are counted once over the whole text, since tokens come in order.
type builder struct {
	text    []byte
	dec     *jsontext.Decoder
	counted int // lines were counted up to this offset
	line    int
}

// value reads the next value. Its line is that of its first token.
func (b *builder) value() (*Node, error) {
	token, err := b.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	end := int(b.dec.InputOffset())
	b.line += bytes.Count(b.text[b.counted:end], []byte("\n"))
	b.counted = end
	n := &Node{line: b.line, Kind: kinds[token.Kind()]}
	switch n.Kind {
	case Object:
		for err == nil && b.dec.PeekKind() != '}' {
			err = b.member(n)
		}
	case Array:
		for err == nil && b.dec.PeekKind() != ']' {
			var item *Node
			item, err = b.value()
			n.items = append(n.items, item)
		}
	default:
		n.Text = token.String()
		return n, nil
	}
	if err == nil {
		_, err = b.dec.ReadToken() // the end of the object or array
	}
	return n, err
}

// member reads the next member of an object.
func (b *builder) member(n *Node) error {
	name, err := b.value()
	if err != nil {
		return err
	}
	value, err := b.value()
	n.members = append(n.members, Member{name.Text, value})
	return err
}

// Members returns the members of an object, none for nil.
func (n *Node) Members() []Member {
	if n == nil {
		return nil
	}
	return n.members
}

// Get returns the value of a member, nil if there is none. n may be nil.
func (n *Node) Get(name string) *Node {
	for _, m := range n.Members() {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// without returns a copy of an object without some of its members.
func (n *Node) without(names ...string) *Node {
	out := *n
	out.members = slices.DeleteFunc(slices.Clone(n.members), func(m Member) bool { return slices.Contains(names, m.Name) })
	return &out
}

// Encode returns n as compact JSON, with its members in their order. expand is
// applied to strings and names.
// Numbers are written as the file has them, so a test can send 1.0 or a number that
// no float can hold.
func (n *Node) Encode(expand func(string) string) json.RawMessage {
	var b bytes.Buffer
	n.write(&b, expand)
	return b.Bytes()
}

func (n *Node) write(b *bytes.Buffer, expand func(string) string) {
	switch n.Kind {
	case Object:
		b.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(Encode(expand(m.Name)))
			b.WriteByte(':')
			m.Value.write(b, expand)
		}
		b.WriteByte('}')
	case Array:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b, expand)
		}
		b.WriteByte(']')
	case String:
		b.Write(Encode(expand(n.Text)))
	default:
		b.WriteString(n.Text)
	}
}

// AsIs is the expansion that changes nothing.
func AsIs(s string) string { return s }

// Decode returns a JSON value whose numbers keep their digits as [json.Number]. ok
// is false for text that is not one value. It is forgiving: text of an agent that
// two readers may understand differently is a finding, and must be readable first.
// Of a name that repeats, the last value counts.
func Decode(raw []byte) (v any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil, false
	}
	_, err := dec.Token()
	return v, err == io.EOF
}

// Encode returns v as compact JSON without the escapes meant for web pages, and
// null for a value that JSON cannot hold.
func Encode(v any) json.RawMessage {
	raw, err := strictjson.Encode(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
