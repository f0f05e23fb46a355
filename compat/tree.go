package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of a document. They hold before a library sees its text.
const (
	MaxBytes  = 4 << 20 // of the text
	MaxDepth  = 128     // levels of objects and lists
	MaxValues = 200_000 // values, with aliases of YAML expanded
)

// maxNumber is the number of characters of a number, and maxExponent its largest exponent:
// the digits of 1e999999999 would fill the memory.
const (
	maxNumber   = 64
	maxExponent = 308
)

// A Refusal is the reason why a text is not a document of its format.
type Refusal struct {
	Pointer string // JSON pointer to the value; "" is the whole document
	Line    int    // of the text, from 1; 0 if it is not known
	Reason  string
	Format  Format // that the text was read as; "" if it is beyond the bounds
}

// Error returns line, pointer and reason.
func (r *Refusal) Error() string {
	var b strings.Builder
	if r.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", r.Line)
	}
	if r.Pointer != "" {
		fmt.Fprintf(&b, "%s: ", r.Pointer)
	}
	b.WriteString(r.Reason)
	return b.String()
}

// A tree is a parsed text: its value, and the line of each value by JSON pointer. Numbers are
// json.Number.
type tree struct {
	value any
	lines map[string]int
	count int // values so far
}

// refuse returns a Refusal of the value at a pointer.
func (t *tree) refuse(pointer, format string, args ...any) *Refusal {
	return &Refusal{Pointer: pointer, Line: t.line(pointer), Reason: fmt.Sprintf(format, args...)}
}

// line returns the line of the value at a pointer, or of the nearest value around it.
func (t *tree) line(pointer string) int {
	for {
		if n, ok := t.lines[pointer]; ok {
			return n
		}
		i := strings.LastIndexByte(pointer, '/')
		if i < 0 {
			return t.lines[""]
		}
		pointer = pointer[:i]
	}
}

// parse reads a text of JSON or YAML within the bounds.
func parse(text []byte) (*tree, error) {
	switch {
	case len(text) > MaxBytes:
		return nil, &Refusal{Reason: fmt.Sprintf("the document has %d bytes, at most %d are read", len(text), MaxBytes)}
	case !utf8.Valid(text):
		return nil, &Refusal{Reason: "the text is not UTF-8"}
	}
	t := &tree{lines: map[string]int{}}
	start := bytes.TrimLeft(text, " \t\r\n")
	if len(start) == 0 {
		return nil, &Refusal{Reason: "the document is empty"}
	}
	if start[0] == '{' || start[0] == '[' {
		return t, t.readJSON(text)
	}
	return t, t.readYAML(text)
}

// add counts a value and keeps its line.
func (t *tree) add(pointer string, depth, line int) error {
	t.lines[pointer] = line
	t.count++
	switch {
	case t.count > MaxValues:
		return t.refuse(pointer, "the document has more than %d values", MaxValues)
	case depth > MaxDepth:
		return t.refuse(pointer, "the document is nested deeper than %d levels", MaxDepth)
	}
	return nil
}

// A jsonReader reads the tokens of one JSON text.
type jsonReader struct {
	*tree
	dec    *json.Decoder
	breaks []int // offsets of the line breaks
}

// readJSON reads a text of JSON by its tokens, so that no value is made before it was counted.
func (t *tree) readJSON(text []byte) error {
	r := jsonReader{tree: t, dec: json.NewDecoder(bytes.NewReader(text))}
	r.dec.UseNumber()
	for i, c := range text {
		if c == '\n' {
			r.breaks = append(r.breaks, i)
		}
	}
	value, err := r.read("", 1)
	if err != nil {
		return err
	}
	t.value = value
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return &Refusal{Line: r.here(), Reason: "there is more text after the JSON value"}
	}
	return nil
}

// here returns the line that the reader has come to.
func (r *jsonReader) here() int {
	at, _ := slices.BinarySearch(r.breaks, int(r.dec.InputOffset()))
	return at + 1
}

// token reads the next token and puts the line into a syntax error.
func (r *jsonReader) token(pointer string) (json.Token, error) {
	tok, err := r.dec.Token()
	if err == nil {
		return tok, nil
	}
	line := r.here()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at, _ := slices.BinarySearch(r.breaks, int(syntax.Offset)-1)
		line = at + 1
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end of JSON")
	}
	return nil, &Refusal{Pointer: pointer, Line: line, Reason: "not JSON: " + err.Error()}
}

// read reads one value. The recursion ends at MaxDepth.
func (r *jsonReader) read(pointer string, depth int) (any, error) {
	tok, err := r.token(pointer)
	if err != nil {
		return nil, err
	}
	if err := r.add(pointer, depth, r.here()); err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '{' {
			return r.object(pointer, depth)
		}
		return r.array(pointer, depth)
	case json.Number:
		return tok, r.checkNumber(pointer, tok)
	}
	return tok, nil
}

// object reads the members of an object. The brace that opens it was read.
func (r *jsonReader) object(pointer string, depth int) (any, error) {
	out := map[string]any{}
	for r.dec.More() {
		tok, err := r.token(pointer)
		if err != nil {
			return nil, err
		}
		name, _ := tok.(string)
		if _, twice := out[name]; twice {
			return nil, &Refusal{Pointer: join(pointer, name), Line: r.here(), Reason: "the name appears twice"}
		}
		if out[name], err = r.read(join(pointer, name), depth+1); err != nil {
			return nil, err
		}
	}
	_, err := r.token(pointer)
	return out, err
}

// array reads the items of an array. The bracket that opens it was read.
func (r *jsonReader) array(pointer string, depth int) (any, error) {
	out := []any{}
	for r.dec.More() {
		item, err := r.read(pointer+"/"+strconv.Itoa(len(out)), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	_, err := r.token(pointer)
	return out, err
}

// checkNumber refuses numbers whose digits would need too much memory.
func (t *tree) checkNumber(pointer string, n json.Number) error {
	text := strings.ToLower(string(n))
	_, exponent, has := strings.Cut(text, "e")
	big, err := strconv.Atoi(exponent)
	tooBig := has && (err != nil || big > maxExponent || big < -maxExponent)
	if len(text) > maxNumber || tooBig {
		return t.refuse(pointer, "the number %.20s is too long or has too large an exponent", text)
	}
	return nil
}

// readYAML reads a text of YAML. The parser gives nodes with lines, in which aliases are not
// yet expanded.
func (t *tree) readYAML(text []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return yamlRefusal(err)
	}
	if len(doc.Content) != 1 {
		return &Refusal{Reason: "the document is empty"}
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return &Refusal{Reason: "the file has more than one YAML document"}
	}
	value, err := t.fromYAML("", doc.Content[0], 1)
	t.value = value
	return err
}

// yamlRefusal returns an error of the YAML parser, which has the line in its words.
func yamlRefusal(err error) *Refusal {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	r := &Refusal{Reason: "not YAML: " + text}
	if n, rest, ok := strings.Cut(strings.TrimPrefix(text, "line "), ": "); ok {
		if line, err := strconv.Atoi(n); err == nil {
			r.Line = line
			r.Reason = "not YAML: " + rest
		}
	}
	return r
}

// fromYAML returns the value of a node. Aliases are expanded and counted, so that a few lines
// of them cannot become millions of values.
func (t *tree) fromYAML(pointer string, n *yaml.Node, depth int) (any, error) {
	if err := t.add(pointer, depth, n.Line); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.AliasNode:
		return t.fromYAML(pointer, n.Alias, depth+1)
	case yaml.SequenceNode:
		out := []any{}
		for i, item := range n.Content {
			value, err := t.fromYAML(pointer+"/"+strconv.Itoa(i), item, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	case yaml.MappingNode:
		return t.fromMapping(pointer, n, depth)
	}
	return t.fromScalar(pointer, n)
}

// fromMapping returns the object of a mapping. Names are taken as they are written: the key
// 200 is the name "200".
func (t *tree) fromMapping(pointer string, n *yaml.Node, depth int) (any, error) {
	out := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return nil, &Refusal{Pointer: pointer, Line: key.Line, Reason: "a name of an object must be plain text; merge keys (<<) are not read"}
		}
		at := join(pointer, key.Value)
		if _, twice := out[key.Value]; twice {
			return nil, &Refusal{Pointer: at, Line: key.Line, Reason: "the name appears twice"}
		}
		value, err := t.fromYAML(at, n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		out[key.Value] = value
	}
	return out, nil
}

// fromScalar returns a scalar as JSON has it. Dates stay text.
func (t *tree) fromScalar(pointer string, n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, t.refuse(pointer, "%q is not a number", n.Value)
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, t.refuse(pointer, "%q is not a number of JSON", n.Value)
		}
		// The text of the file keeps its digits where it is a number of JSON.
		number := json.Number(text)
		if json.Valid([]byte(n.Value)) {
			number = json.Number(n.Value)
		}
		return number, t.checkNumber(pointer, number)
	case "!!str", "!!timestamp":
		return n.Value, nil
	}
	return nil, t.refuse(pointer, "the YAML tag %s is not read", n.Tag)
}

// escape returns a name as a part of a JSON pointer.
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// unescape returns the name that a part of a JSON pointer stands for.
func unescape(part string) string {
	return strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
}

// join returns the pointer to a member.
func join(pointer string, names ...string) string {
	for _, name := range names {
		pointer += "/" + escape(name)
	}
	return pointer
}

// lookup returns the value at a JSON pointer.
func lookup(value any, pointer string) (any, bool) {
	if pointer == "" {
		return value, true
	}
	for _, part := range strings.Split(pointer[1:], "/") {
		switch v := value.(type) {
		case map[string]any:
			member, ok := v[unescape(part)]
			if !ok {
				return nil, false
			}
			value = member
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}
