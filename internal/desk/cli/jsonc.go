package cli

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// maxDepth is how deep values may be nested.
const maxDepth = 1000

// A document is a JSON file, as it is edited: its one value with everything around
// it. A file of nothing but space and comments has no value.
type document struct {
	mark []byte        // the byte order mark, or nothing
	body []byte        // the text behind it, and an end of line
	root *hujson.Value // nil if there is none; its offsets are those of body
}

// parse reads a file of the format. hujson keeps comments, space and order; the
// rules that it does not know are checked here.
func (f jsonFormat) parse(text []byte) (document, error) {
	if err := f.scan(text); err != nil {
		return document{}, err
	}
	n := len(text) - len(bytes.TrimPrefix(text, []byte("\ufeff")))
	// The added end of line closes a comment on the last line. The number is found
	// only where nothing else is.
	d := document{mark: text[:n], body: slices.Concat(text[n:], []byte("\n"))}
	if v, err := hujson.Parse(append(slices.Clip(d.body), '0')); err == nil && v.StartOffset == len(d.body) {
		return d, nil
	}
	v, err := hujson.Parse(d.body)
	if err != nil {
		return d, d.syntaxFlaw(err)
	}
	for inner := range v.All() {
		if !f.trailingCommas && trailingComma(inner.Value) {
			return d, d.flaw(inner.EndOffset-1, "trailing commas are not allowed in this file")
		}
	}
	if _, ok := v.Value.(*hujson.Object); !ok {
		return d, d.flaw(v.StartOffset, "the document must be an object")
	}
	d.root = &v
	return d, nil
}

// flaw returns a flaw at an offset of the body.
func (d document) flaw(offset int, problem string) error {
	return &flaw{len(d.mark) + offset, problem}
}

// trailingComma reports whether a comma is behind the last part of v.
func trailingComma(v hujson.ValueTrimmed) bool {
	switch v := v.(type) {
	case *hujson.Object:
		return len(v.Members) > 0 && v.Members[len(v.Members)-1].Value.AfterExtra != nil
	case *hujson.Array:
		return len(v.Elements) > 0 && v.Elements[len(v.Elements)-1].AfterExtra != nil
	}
	return false
}

// syntaxFlaw returns the place of a parser's error. Its text may quote the file,
// which may hold keys, so that only its beginning is kept.
func (d document) syntaxFlaw(err error) error {
	var line, column int
	if _, failed := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); failed != nil {
		return d.flaw(0, "the file is not JSON")
	}
	at := column - 1
	for range line - 1 {
		at += bytes.IndexByte(d.body[at-column+1:], '\n') + 1
	}
	problem := "expected a value"
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(inner.Error(), "invalid character") {
		problem = inner.Error()
	}
	return d.flaw(at, problem)
}

// scan passes over a file once and finds the flaws that a parser would tell too
// late or not at all: strings and comments without an end, comments where the CLI
// reads none, and values that are nested too deep.
func (f jsonFormat) scan(text []byte) error {
	depth := 0
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch c := text[i]; {
		case c == '"':
			n := stringEnd(rest)
			if n < 0 {
				return &flaw{i, "this string is not closed"}
			}
			i += n

		case c == '/' && !f.comments:
			return &flaw{i, "comments are not allowed in this file"}
		case bytes.HasPrefix(rest, []byte("//")):
			n := bytes.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			hasReturn := bytes.IndexByte(bytes.TrimSuffix(rest[:n], []byte("\r")), '\r') >= 0
			endsWithReturn := n == len(rest) && bytes.HasSuffix(rest, []byte("\r"))
			if hasReturn || endsWithReturn || newline(text) == "\r" {
				return &flaw{i, "a carriage return ends this comment for some readers and not for others"}
			}
			i += n
		case bytes.HasPrefix(rest, []byte("/*")):
			n := bytes.Index(rest[2:], []byte("*/"))
			if n < 0 {
				return &flaw{i, "this comment is not closed"}
			}
			i += n + 3

		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return &flaw{i, "values are nested too deeply"}
			}
		case c == ']' || c == '}':
			depth--
		}
	}

	return nil
}

// stringEnd returns the index of the quote that closes the string at the beginning
// of text, or -1.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

// pack returns the file with its value as it is now.
func (d document) pack() []byte {
	return slices.Concat(d.mark, bytes.TrimSuffix(d.root.Pack(), []byte("\n")))
}

// find returns the members on a path, as far as they exist.
func (d document) find(path ...string) (found []*hujson.ObjectMember, err error) {
	v := d.root
	for _, name := range path {
		o, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil, d.flaw(v.StartOffset, "this must be an object")
		}
		at := -1
		for i, m := range o.Members {
			switch {
			case m.Name.Value.(hujson.Literal).String() != name:
			case at >= 0:
				return nil, d.flaw(m.Name.StartOffset, "duplicate member name")
			default:
				at = i
			}
		}
		if at < 0 {
			return found, nil
		}
		found = append(found, &o.Members[at])
		v = &o.Members[at].Value
	}
	return found, nil
}

// splitComments returns the part of an extra up to the end of its last comment, and
// the space behind. line says that the line's end closes that comment.
func splitComments(e hujson.Extra) (comments, space hujson.Extra, line bool) {
	end := 0
	for i := 0; i < len(e); i++ {
		switch {
		case bytes.HasPrefix(e[i:], []byte("//")):
			n := bytes.IndexByte(e[i:], '\n') // the parser knows no comment without one
			end, line = i+len(bytes.TrimSuffix(e[i:i+n], []byte("\r"))), true
			i += n
		case bytes.HasPrefix(e[i:], []byte("/*")):
			i += bytes.Index(e[i+2:], []byte("*/")) + 3
			end, line = i+1, false
		}
	}
	return e[:end], e[end:], line
}

// remove takes a member out of an object, with one comma and the space ahead of its
// name. Comments stay.
func remove(from *hujson.Value, m *hujson.ObjectMember) {
	o := from.Value.(*hujson.Object)
	at := slices.IndexFunc(o.Members, func(x hujson.ObjectMember) bool { return x.Name.StartOffset == m.Name.StartOffset })
	gone, last := *m, at == len(o.Members)-1
	behind := &o.AfterExtra
	if !last {
		behind = &o.Members[at+1].Name.BeforeExtra
	}
	keep, _, line := splitComments(gone.Name.BeforeExtra)
	rest := slices.Concat(gone.Value.AfterExtra, *behind)
	if line && !bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r"), []byte("\n")) {
		keep = gone.Name.BeforeExtra // the line's end closes the comment ahead
	}
	if last && at > 0 {
		before := &o.Members[at-1].Value
		if gone.Value.AfterExtra == nil { // the comma is that of the member before
			keep = slices.Concat(before.AfterExtra, keep)
			before.AfterExtra = nil
		} else if before.AfterExtra == nil {
			before.AfterExtra = hujson.Extra{}
		}
	}
	*behind = slices.Concat(keep, rest)
	o.Members = slices.Delete(o.Members, at, at+1)
}

// insert adds a member to an object, behind the others and in their style.
func (d document) insert(into *hujson.Value, name string, v any, l style) {
	o := into.Value.(*hujson.Object)
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.Literal(l.quote(name))}}
	indent := lineIndent(d.body, into.StartOffset)
	if len(o.Members) > 0 {
		own, isOwn := ownLine(d.body, o.Members[0].Name.StartOffset)
		if isOwn {
			indent = own
		}
		comments, space, line := splitComments(o.AfterExtra)
		sep := l.nl + indent
		if !isOwn && !line {
			sep = " "
		}
		if !isOwn {
			l.nl = "" // the others are on one line
		}
		m.Name.BeforeExtra, o.AfterExtra = slices.Concat(comments, []byte(sep)), space
		if o.Members[len(o.Members)-1].Value.AfterExtra != nil {
			m.Value.AfterExtra = hujson.Extra{}
		}
	}
	m.Value.BeforeExtra, m.Value.Value = hujson.Extra(" "), l.value(v, indent)
	o.Members = append(o.Members, m)
}
