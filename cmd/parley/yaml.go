package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/parley-agents/parley/hub"
)

// decodeYAML reads the first document of a file into a structure. It refuses members that
// the structure does not have, and names those that it has.
func decodeYAML(path string, raw []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return configError(path, reflect.TypeOf(into).Elem(), err)
	}
	return nil
}

// A count is a number in the configuration; the zero count was not given.
type count hub.Count

// UnmarshalYAML reads a positive integer.
func (c *count) UnmarshalYAML(n *yaml.Node) error { return scalar(n, (*hub.Count)(c)) }

// A period is a length of time in the configuration or of a flag; the zero period was not given.
type period time.Duration

// UnmarshalYAML reads a positive length of time.
func (s *period) UnmarshalYAML(n *yaml.Node) error { return scalar(n, s) }

// Set reads a positive length of time.
func (s *period) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a length of time such as 90s or 2h", text)
	case d <= 0:
		return fmt.Errorf("must be longer than 0, not %s; leave it out for the default", text)
	}
	*s = period(d)
	return nil
}

// String returns the length of time, "0" for a period that was not given.
func (s *period) String() string {
	if *s == 0 {
		return "0"
	}
	return time.Duration(*s).String()
}

// Type returns the word for the value in the help text of a flag.
func (*period) Type() string { return "duration" }

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

// A fileStructure is a structure of a YAML file, as errors call it, with its members.
type fileStructure struct {
	name    string
	members []string
}

// fileStructures adds the structures in t to found, by their types as errors of package
// yaml print them. A structure without a Go name gets the given one.
func fileStructures(t reflect.Type, name string, found map[string]fileStructure) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		fileStructures(t.Elem(), name, found)
	case reflect.Struct:
		if t.Name() != "" {
			name = t.String()
		}
		structure := fileStructure{name: name}
		for i := range t.NumField() {
			field := t.Field(i)
			member, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			structure.members = append(structure.members, member)
			fileStructures(field.Type, "main."+member, found)
		}
		found[t.String()] = structure
	}
}

var (
	unknownMember = regexp.MustCompile(`field (\S+) not found in type (.+)$`)
	wrongType     = regexp.MustCompile(`into (struct \{.+)$`)
)

// configError describes an error in a file of the given type, in a line.
func configError(path string, whole reflect.Type, err error) error {
	structures := map[string]fileStructure{}
	fileStructures(whole, "main.config", structures)
	known := structures[whole.String()].members

	texts := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var several *yaml.TypeError
	if errors.As(err, &several) {
		texts = slices.Clone(several.Errors)
	}
	named := false
	for i, text := range texts {
		if m := wrongType.FindStringSubmatch(text); m != nil {
			texts[i] = strings.TrimSuffix(text, m[1]) + structures[m[1]].name
		}
		m := unknownMember.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		if !named {
			known = structures[m[2]].members
			named = true
		}
		texts[i] = unknownMember.ReplaceAllString(text, "unknown member $1")
	}
	return hub.Errorf(hub.CodeInvalid, "parley", "%s: %s", path, strings.Join(texts, "; ")).WithHint("the members are %s", strings.Join(known, ", "))
}
