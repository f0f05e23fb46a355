package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/strictjson"
)

// A jsonFormat edits a JSON file in which one object holds an MCP server under
// each name.
//
// A member that goes into an object without any is written directly behind the
// opening brace, while an object that is made for it has space there. That is
// how drop knows, from the file alone, whether the object was there before.
type jsonFormat struct {
	container      string
	comments       bool // the CLI accepts comments in it
	trailingCommas bool // and commas behind the last member
	members        func(server) []member
}

func (f jsonFormat) read(doc []byte) (value, bool, error) {
	s := scanner{src: doc, comments: f.comments, trailingCommas: f.trailingCommas}
	root, ok, err := s.document()
	if err == nil && ok && !root.object {
		return value{}, false, &flaw{offset: root.start, problem: "the document has to be an object"}
	}
	return root, ok, err
}

// find returns the members on the path from v on, as far as they exist.
func find(v value, path []string) (found []field, err error) {
	for _, name := range path {
		if !v.object {
			return nil, &flaw{offset: v.start, problem: "this has to be an object"}
		}
		at := -1
		for i, m := range v.members {
			switch {
			case m.name != name:
			case at >= 0:
				return nil, &flaw{offset: m.start, problem: "there is a second member of this name"}
			default:
				at = i
			}
		}
		if at < 0 {
			return found, nil
		}
		found = append(found, v.members[at])
		v = v.members[at].value
	}
	return found, nil
}

func (f jsonFormat) has(doc []byte, name string) (bool, error) {
	root, ok, err := f.read(doc)
	if err != nil || !ok {
		return false, err
	}
	found, err := find(root, []string{f.container, name})
	return len(found) == 2, err
}

func (f jsonFormat) put(doc []byte, name string, s server) ([]byte, error) {
	path := []string{f.container, name}
	root, ok, err := f.read(doc)
	if err != nil {
		return nil, err
	}
	entry := written(f.members(s))
	if !ok {
		l := layoutOf(doc, value{})
		block := l.render(members{{name: f.container, value: members{{name: name, value: entry}}}}, "")
		return appendBlock(doc, block), nil
	}
	found, err := find(root, path)
	if err != nil {
		return nil, err
	}
	if len(found) < 2 || !found[1].value.object {
		return f.set(doc, path, entry)
	}
	for _, m := range f.members(s) {
		at := append(slices.Clone(path), m.name)
		switch {
		case m.empty():
			doc, err = f.cut(doc, at)
		case !m.once:
			doc, err = f.set(doc, at, m.value)
		}
		if err != nil {
			return nil, err
		}
	}
	return doc, nil
}

// show returns the entry as it is written into a file of its own.
func (f jsonFormat) show(name string, s server) string {
	l := style{nl: "\n", unit: "  "}
	return l.quote(name) + ": " + l.render(written(f.members(s)), "")
}

// members is an object to be written.
type members []member

// written returns the members that have a value.
func written(all []member) (out members) {
	for _, m := range all {
		if !m.empty() {
			out = append(out, m)
		}
	}
	return out
}

// set gives the member at the end of the path its value, and makes the objects
// on the way.
func (f jsonFormat) set(doc []byte, path []string, v any) ([]byte, error) {
	root, _, err := f.read(doc)
	if err != nil {
		return nil, err
	}
	found, err := find(root, path)
	if err != nil {
		return nil, err
	}
	l := layoutOf(doc, root)
	if len(found) == len(path) {
		old := found[len(found)-1].value
		if same(doc[old.start:old.end], v) {
			return doc, nil
		}
		return splice(doc, old.start, old.end, l.render(v, lineIndent(doc, old.start))), nil
	}
	into := root
	if len(found) > 0 {
		into = found[len(found)-1].value
	}
	for missing := slices.Clone(path[len(found)+1:]); len(missing) > 0; missing = missing[:len(missing)-1] {
		v = members{{name: missing[len(missing)-1], value: v}}
	}
	return l.insert(doc, into, path[len(found)], v), nil
}

// cut takes out the member at the end of the path.
func (f jsonFormat) cut(doc []byte, path []string) ([]byte, error) {
	root, ok, err := f.read(doc)
	if err != nil || !ok {
		return doc, err
	}
	found, err := find(root, path)
	if err != nil || len(found) < len(path) {
		return doc, err
	}
	parent := root
	if len(found) > 1 {
		parent = found[len(found)-2].value
	}
	return without(doc, parent, found[len(found)-1]), nil
}

// without takes one member out of an object, with one comma.
func without(doc []byte, object value, f field) []byte {
	comma := f.comma
	if comma < 0 {
		for _, m := range object.members {
			if m.start < f.start {
				comma = m.comma
			}
		}
	}
	end := f.value.end
	start := f.space
	if f.comment && !bytes.HasPrefix(bytes.TrimLeft(doc[end:], " \t\r,"), []byte("\n")) {
		start = f.start // the line's end closes the comment ahead
	}
	switch {
	case comma < 0:
		return splice(doc, start, end, "")
	case comma < start:
		return splice(splice(doc, start, end, ""), comma, comma+1, "")
	}
	return splice(splice(doc, comma, comma+1, ""), start, end, "")
}

func (f jsonFormat) drop(doc []byte, name string) ([]byte, error) {
	root, ok, err := f.read(doc)
	if err != nil || !ok {
		return doc, err
	}
	found, err := find(root, []string{f.container, name})
	if err != nil || len(found) < 2 {
		return doc, err
	}
	if !madeFor(doc, found[0].value) {
		return without(doc, found[0].value, found[1]), nil
	}
	if !madeFor(doc, root) {
		return without(doc, root, found[0]), nil
	}
	return cutBlock(doc, root.start, root.end), nil
}

// madeFor reports whether an object was made for its only member: there is
// nothing else in it, and space behind its opening brace.
func madeFor(doc []byte, v value) bool {
	if len(v.members) != 1 {
		return false
	}
	m := v.members[0]
	return m.comma < 0 && m.space == v.start+1 && m.space < m.start && v.tail == m.value.end
}

// same reports whether a value in a file equals v.
func same(old []byte, v any) bool {
	var a, b any
	if json.Unmarshal(old, &a) != nil || json.Unmarshal([]byte(style{}.render(v, "")), &b) != nil {
		return false
	}
	return reflect.DeepEqual(a, b)
}

func splice(doc []byte, start, end int, text string) []byte {
	return slices.Concat(doc[:start], []byte(text), doc[end:])
}

// A style is how a JSON file is laid out.
type style struct {
	nl   string // the line end; empty to write all on one line
	unit string // one step of indentation
}

func layoutOf(doc []byte, root value) style {
	l := style{nl: newline(doc), unit: "  "}
	if len(root.members) > 0 {
		if unit, own := ownLine(doc, root.members[0].start); own && unit != "" {
			l.unit = unit
		}
	}
	return l
}

// ownLine reports whether only space is ahead of at on its line, and which.
func ownLine(doc []byte, at int) (indent string, ok bool) {
	start := bytes.LastIndexAny(doc[:at], "\n\r") + 1
	text := string(doc[start:at])
	return text, start > 0 && strings.Trim(text, " \t") == ""
}

// lineIndent returns the space that the line of at begins with.
func lineIndent(doc []byte, at int) string {
	line := doc[bytes.LastIndexAny(doc[:at], "\n\r")+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// insert adds a member to an object, behind the others.
func (l style) insert(doc []byte, into value, name string, v any) []byte {
	if len(into.members) == 0 {
		text := l.quote(name) + ": " + l.render(v, lineIndent(doc, into.start))
		return splice(doc, into.start+1, into.start+1, text)
	}
	indent, own := ownLine(doc, into.members[0].start)
	if !own {
		indent = lineIndent(doc, into.start)
	}
	sep := l.nl + indent
	if !own && !into.tailLine {
		sep = " "
	}
	if !own {
		l.nl = "" // the others are on one line
	}
	text := sep + l.quote(name) + ": " + l.render(v, indent)
	last := into.members[len(into.members)-1]
	if last.comma >= 0 {
		return splice(doc, into.tail, into.tail, text+",")
	}
	return splice(splice(doc, into.tail, into.tail, text), last.value.end, last.value.end, ",")
}

// render writes a value whose first line is indented already.
func (l style) render(v any, indent string) string {
	switch v := v.(type) {
	case members:
		inner := indent + l.unit
		open, between, end := l.nl+inner, ","+l.nl+inner, l.nl+indent
		if l.nl == "" {
			open, between, end = " ", ", ", " "
		}
		var parts []string
		for _, m := range v {
			parts = append(parts, l.quote(m.name)+": "+l.render(m.value, inner))
		}
		return "{" + open + strings.Join(parts, between) + end + "}"
	case map[string]string:
		var object members
		for _, name := range slices.Sorted(maps.Keys(v)) {
			object = append(object, member{name: name, value: v[name]})
		}
		return l.render(object, indent)
	case []string:
		var parts []string
		for _, text := range v {
			parts = append(parts, l.quote(text))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	text, _ := v.(string)
	return l.quote(text)
}

// quote writes a string as JSON does, which TOML reads too.
func (style) quote(text string) string {
	quoted, _ := strictjson.Encode(text) // no string fails to encode
	return string(quoted)
}
