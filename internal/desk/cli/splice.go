package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-agents/parley/internal/ground/strictjson"
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

func (f jsonFormat) has(doc []byte, name string) (bool, error) {
	d, err := f.parse(doc)
	if err != nil || d.root == nil {
		return false, err
	}
	found, err := d.find(f.container, name)
	return len(found) == 2, err
}

func (f jsonFormat) put(doc []byte, name string, s server) ([]byte, error) {
	path := []string{f.container, name}
	d, err := f.parse(doc)
	if err != nil {
		return nil, err
	}

	entry := written(f.members(s))
	if d.root == nil {
		block := d.style().render(members{{name: f.container, value: members{{name: name, value: entry}}}}, "")
		return appendBlock(doc, block), nil
	}

	found, err := d.find(path...)
	if err != nil {
		return nil, err
	}
	if len(found) < 2 || found[1].Value.Value.Kind() != '{' {
		return f.set(doc, path, entry)
	}

	// An entry that exists is edited member by member, so that members of the user stay.
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

// open parses a document that has a value, and finds the members on a path. The
// last of parents holds the first member that is missing, or the last one found.
func (f jsonFormat) open(doc []byte, path []string) (d document, found []*hujson.ObjectMember, parents []*hujson.Value, err error) {
	if d, err = f.parse(doc); err != nil || d.root == nil {
		return d, nil, nil, err
	}
	found, err = d.find(path...)
	parents = []*hujson.Value{d.root}
	for _, m := range found[:min(len(found), len(path)-1)] {
		parents = append(parents, &m.Value)
	}
	return d, found, parents, err
}

// set gives the member at the end of the path its value, and makes the objects
// on the way.
func (f jsonFormat) set(doc []byte, path []string, v any) ([]byte, error) {
	d, found, parents, err := f.open(doc, path)
	if err != nil {
		return nil, err
	}
	l := d.style()
	if len(found) < len(path) {
		for missing := path[len(found)+1:]; len(missing) > 0; missing = missing[:len(missing)-1] {
			v = members{{name: missing[len(missing)-1], value: v}}
		}
		d.insert(parents[len(parents)-1], path[len(found)], v, l)
		return d.pack(), nil
	}
	old := &found[len(found)-1].Value
	if same(d.body[old.StartOffset:old.EndOffset], v) {
		return doc, nil
	}
	old.Value = l.value(v, lineIndent(d.body, old.StartOffset))
	return d.pack(), nil
}

// cut takes out the member at the end of the path.
func (f jsonFormat) cut(doc []byte, path []string) ([]byte, error) {
	d, found, parents, err := f.open(doc, path)
	if err != nil || len(found) < len(path) {
		return doc, err
	}
	remove(parents[len(parents)-1], found[len(found)-1])
	return d.pack(), nil
}

func (f jsonFormat) drop(doc []byte, name string) ([]byte, error) {
	d, found, parents, err := f.open(doc, []string{f.container, name})
	switch {
	case err != nil || len(found) < 2:
		return doc, err
	case !madeFor(parents[1]):
		remove(parents[1], found[1])
	case !madeFor(parents[0]):
		remove(parents[0], found[0])
	default:
		return cutBlock(doc, len(d.mark)+d.root.StartOffset, len(d.mark)+d.root.EndOffset), nil
	}
	return d.pack(), nil
}

// madeFor reports whether an object was made for its only member: there is
// nothing else in it, and space behind its opening brace.
func madeFor(v *hujson.Value) bool {
	o := v.Value.(*hujson.Object)
	if len(o.Members) != 1 || trailingComma(o) {
		return false
	}
	ahead := o.Members[0].Name.BeforeExtra
	return len(ahead) > 0 && ahead.IsStandard() && o.AfterExtra.IsStandard()
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

// style returns how a document is laid out.
func (d document) style() style {
	l := style{nl: newline(d.body[:len(d.body)-1]), unit: "  "}
	if d.root == nil {
		return l
	}
	if o := d.root.Value.(*hujson.Object); len(o.Members) > 0 {
		if unit, own := ownLine(d.body, o.Members[0].Name.StartOffset); own && unit != "" {
			l.unit = unit
		}
	}
	return l
}

// value returns a value to put into a document.
func (l style) value(v any, indent string) hujson.ValueTrimmed {
	parsed, _ := hujson.Parse([]byte(l.render(v, indent))) // JSON: cannot fail
	return parsed.Value
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

// render writes a value whose first line is indented already.
func (l style) render(v any, indent string) string {
	switch v := v.(type) {
	case members:
		inner := indent + l.unit
		open := l.nl + inner
		between := "," + l.nl + inner
		end := l.nl + indent
		// A document on one line stays on one line.
		if l.nl == "" {
			open = " "
			between = ", "
			end = " "
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

	case raw:
		return string(v)
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
