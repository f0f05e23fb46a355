// Package strictyaml reads the YAML files that people write for Parley: its configuration
// and files of agents. A member that is not known, a member twice and a second document
// are refused, with the line and the members that there are.
//
// It is the one owner of the YAML module. It is tested here, and through the commands that
// read files in cmd/parley.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// Decode reads the first document of a file into the struct that into points at. An empty
// file leaves it as it is. Errors are CodeInvalid, begin with the path, and list the members
// of the struct in which an unknown one was found.
func Decode(path string, raw []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return describe(path, reflect.TypeOf(into).Elem(), err)
	}
	return nil
}

// DecodeOnly is Decode for a file that must have no second document.
func DecodeOnly(path string, raw []byte, into any) error {
	if err := Decode(path, raw, into); err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var err error
	for range 2 {
		err = dec.Decode(&yaml.Node{})
	}
	if !errors.Is(err, io.EOF) {
		return hub.Errorf(hub.CodeInvalid, "strictyaml.DecodeOnly", "%s: the file has more than one document", path)
	}
	return nil
}

// A structure is a struct of a file, as errors call it, with its members.
type structure struct {
	name    string
	members []string
}

// structures adds the structs in t to found, by their types as errors of package yaml print
// them. name is that of a struct without a Go name: the member that has it.
func structures(t reflect.Type, name string, found map[string]structure) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		structures(t.Elem(), name, found)
	case reflect.Struct:
		s := structure{name: name}
		for i := range t.NumField() {
			field := t.Field(i)
			member, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			s.members = append(s.members, member)
			structures(field.Type, member, found)
		}
		found[t.String()] = s
	}
}

var (
	unknownMember = pattern.New(`field (\S+) not found in type (.+)$`)
	wrongType     = pattern.New(`into (struct \{.+|\w+\.\w+)$`)
)

// describe returns an error in a file of the given type, in one line. Package yaml reports
// an unknown member and a value of the wrong type in words alone.
func describe(path string, whole reflect.Type, err error) error {
	found := map[string]structure{}
	structures(whole, "the file", found)
	known := found[whole.String()].members

	texts := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var several *yaml.TypeError
	if errors.As(err, &several) {
		texts = slices.Clone(several.Errors)
	}
	named := false
	for i, text := range texts {
		if m := wrongType().FindStringSubmatch(text); m != nil && found[m[1]].name != "" {
			texts[i] = strings.TrimSuffix(text, m[1]) + found[m[1]].name
		}
		m := unknownMember().FindStringSubmatch(text)
		if m == nil {
			continue
		}
		if !named {
			known = found[m[2]].members
			named = true
		}
		texts[i] = unknownMember().ReplaceAllString(text, "unknown member $1")
	}
	return hub.Errorf(hub.CodeInvalid, "strictyaml.Decode", "%s: %s", path, strings.Join(texts, "; ")).WithHint("the members are %s", strings.Join(known, ", "))
}

// Lines returns the lines on which the members of the maps of a document are declared, as
// MAP/MEMBER. Decode has to have read the document.
func Lines(raw []byte) map[string]int {
	lines := map[string]int{}
	var doc map[string]yaml.Node
	yaml.Unmarshal(raw, &doc) // it was read before
	for list, node := range doc {
		for i := 0; i+1 < len(node.Content); i += 2 {
			lines[list+"/"+node.Content[i].Value] = node.Content[i].Line
		}
	}
	return lines
}

// A Count is a number in a file; the zero Count was not given.
type Count strictjson.Count

// UnmarshalYAML reads a positive integer.
func (c *Count) UnmarshalYAML(n *yaml.Node) error { return scalar(n, (*strictjson.Count)(c)) }

// A Period is a length of time in a file or of a flag; the zero Period was not given.
type Period time.Duration

// UnmarshalYAML reads a positive length of time.
func (s *Period) UnmarshalYAML(n *yaml.Node) error { return scalar(n, s) }

// Set reads a positive length of time.
func (s *Period) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a duration such as 90s or 2h", text)
	case d <= 0:
		return fmt.Errorf("must be greater than 0, got %s; leave it out for the default", text)
	}
	*s = Period(d)
	return nil
}

// String returns the length of time, "0" for a Period that was not given.
func (s *Period) String() string {
	if *s == 0 {
		return "0"
	}
	return time.Duration(*s).String()
}

// Type returns the word for the value in the help text of a flag.
func (*Period) Type() string { return "duration" }

// scalar reads the value of n as the value of a flag is read.
func scalar(n *yaml.Node, into interface{ Set(string) error }) error {
	err := fmt.Errorf("must be a single value")
	if n.Kind == yaml.ScalarNode {
		err = into.Set(n.Value)
	}
	if err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
	}
	return nil
}

// Encode returns a JSON value as YAML: maps, lists, texts, numbers as json.Number, booleans and
// null. Members are in the order of their names.
func Encode(value any) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(node(value)); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// node returns a JSON value as a node of YAML, so that a number keeps its digits.
func node(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		out := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out.Content = append(out.Content, node(name), node(v[name]))
		}
		return out
	case []any:
		out := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			out.Content = append(out.Content, node(item))
		}
		return out
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(string(v), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: string(v)}
	}
	out := &yaml.Node{}
	if err := out.Encode(value); err != nil {
		out.SetString(fmt.Sprint(value))
	}
	return out
}
