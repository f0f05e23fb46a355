// Package strictyaml reads the YAML files that people write for Parley: its configuration
// and files of agents. A member that is not known, a member twice and a second document
// are refused, with the line and the members that there are.
//
// It is the one owner of the YAML module. It is tested here, and through the commands that
// read files in cmd/parley.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/parley-agents/parley/hub"
)

// Decode reads a document of a file into the struct that into points at. An empty
// file leaves it as it is. parts are values of the structs within it, for hints about
// members that are not known. Errors are CodeInvalid and begin with the path.
func Decode(path string, raw []byte, into any, parts ...any) error {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return describe(path, err, append([]any{reflect.ValueOf(into).Elem().Interface()}, parts...))
	}
	return nil
}

// DecodeOnly is Decode for a file that must have no second document.
func DecodeOnly(path string, raw []byte, into any, parts ...any) error {
	if err := Decode(path, raw, into, parts...); err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var err error
	for range 2 {
		err = dec.Decode(&yaml.Node{})
	}
	if !errors.Is(err, io.EOF) {
		return hub.Errorf(hub.CodeInvalid, "strictyaml.DecodeOnly", "%s: there is more after the first document", path)
	}
	return nil
}

var unknownMember = regexp.MustCompile(`field (\S+) not found in type ([\w.]+)`)

// describe returns an error in one line. The hint lists the members of the part that has
// the mistake, or else of the first, which is the whole file.
func describe(path string, err error, parts []any) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var several *yaml.TypeError
	if errors.As(err, &several) {
		text = strings.Join(several.Errors, "; ")
	}

	known := members(parts[0])
	for _, part := range parts {
		if m := unknownMember.FindStringSubmatch(text); m != nil && m[2] == reflect.TypeOf(part).String() {
			known = members(part)
		}
	}
	text = unknownMember.ReplaceAllString(text, "unknown member $1")
	return hub.Errorf(hub.CodeInvalid, "strictyaml.Decode", "%s: %s", path, text).WithHint("the members are %s", strings.Join(known, ", "))
}

// members returns the names that a struct has in a file.
func members(part any) []string {
	var names []string
	t := reflect.TypeOf(part)
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("yaml"))
	}
	return names
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
type Count hub.Count

// UnmarshalYAML reads a positive integer.
func (c *Count) UnmarshalYAML(n *yaml.Node) error { return scalar(n, (*hub.Count)(c)) }

// A Period is a length of time in a file or of a flag; the zero Period was not given.
type Period time.Duration

// UnmarshalYAML reads a positive length of time.
func (s *Period) UnmarshalYAML(n *yaml.Node) error { return scalar(n, s) }

// Set reads a positive length of time.
func (s *Period) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a length of time such as 90s or 2h", text)
	case d <= 0:
		return fmt.Errorf("must be longer than 0, not %s; leave it out for the default", text)
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
