package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/parley-agents/parley/hub"
)

// A config holds the values of settings that were given, each from the source that goes
// before the others: a flag, the environment, the file.
type config map[*hubSetting]any

// give stores a value of a setting in place of the one from a source below. The zero
// value and an empty list were not given.
func (c config) give(s *hubSetting, value any) {
	v := reflect.ValueOf(value)
	if v.IsZero() || (v.Kind() == reflect.Slice && v.Len() == 0) {
		return
	}
	c[s] = value
}

// settings checks the values and returns them by their types. With members it looks at
// those settings alone.
func (c config) settings(members ...string) (hubSettings, error) {
	var to hubSettings
	for _, s := range hubSettingRows {
		if len(members) > 0 && !slices.Contains(members, s.Member) {
			continue
		}

		value, given := c[s]
		if !given && s.Fallback != nil {
			value = s.Fallback()
		}
		if value == nil {
			continue
		}
		if err := s.Kind.put(&to, s, value); err != nil {
			return to, err
		}
	}
	return to, nil
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

// loadConfig reads the configuration file, if there is one, and puts the
// environment on top.
func (a *app) loadConfig(home string) (config, error) {
	path, asked := a.config, true
	if path == "" {
		path = os.Getenv("PARLEY_CONFIG")
	}
	if path == "" {
		path, asked = filepath.Join(home, "config.yaml"), false
	}

	c := config{}
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !asked:
	case err != nil:
		return c, hub.Errorf(hub.CodeInvalid, "parley", "the configuration cannot be read: %v", err)
	default:
		if err := c.readFile(path, raw); err != nil {
			return c, err
		}
	}
	return c, c.readEnvironment()
}

// readFile reads the members of a configuration file.
func (c config) readFile(path string, raw []byte) error {
	file := reflect.New(fileShape(hubSettingRows))
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(file.Interface()); err != nil && !errors.Is(err, io.EOF) {
		return configError(path, file.Type().Elem(), err)
	}

	for _, s := range hubSettingRows {
		if s.Member == "" {
			continue
		}
		value := file.Elem()
		for name := range strings.SplitSeq(s.Member, ".") {
			value = value.FieldByName(fieldName(name))
		}
		c.give(s, value.Interface())
	}
	return nil
}

// readEnvironment reads the variables that stand for settings.
func (c config) readEnvironment() error {
	for _, s := range hubSettingRows {
		if s.Variable == "" {
			continue
		}
		given := os.Getenv(s.Variable)
		if given == "" {
			continue
		}
		value, err := s.Kind.variable(s, given)
		if err != nil {
			return err
		}
		c.give(s, value)
	}
	return nil
}

// addSettingFlags adds the flags of settings to a command. The function that it returns
// puts those that were given on top of a configuration.
func addSettingFlags(cmd *cobra.Command) func(config) {
	values := map[*hubSetting]reflect.Value{}
	for _, s := range hubSettingRows {
		if s.Flag != "" {
			values[s] = reflect.ValueOf(s.Kind.flag(cmd, s))
		}
	}
	return func(c config) {
		for s, value := range values {
			if cmd.Flags().Changed(s.Flag) {
				c.give(s, value.Elem().Interface())
			}
		}
	}
}

// fileShape returns the type of a configuration file: a structure with the members of
// rows, and one structure for each part.
func fileShape(rows []*hubSetting) reflect.Type {
	var fields []reflect.StructField
	parts := map[string][]*hubSetting{}
	for _, s := range rows {
		name, inner, inPart := strings.Cut(s.Member, ".")
		switch {
		case name == "":
		case !inPart:
			fields = append(fields, memberField(name, s.Kind.member))
		default:
			if parts[name] == nil {
				fields = append(fields, memberField(name, nil))
			}
			parts[name] = append(parts[name], &hubSetting{Member: inner, Kind: s.Kind})
		}
	}

	for i := range fields {
		if fields[i].Type == nil {
			fields[i].Type = fileShape(parts[fields[i].Tag.Get("yaml")])
		}
	}
	return reflect.StructOf(fields)
}

// memberField returns the field of a member of the file.
func memberField(name string, of reflect.Type) reflect.StructField {
	return reflect.StructField{Name: fieldName(name), Type: of, Tag: reflect.StructTag(fmt.Sprintf("yaml:%q", name))}
}

// fieldName returns the name of the field of a member of the file; it is exported.
func fieldName(member string) string { return "Member_" + member }

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

// logger returns the log that the settings ask for.
func (c hubSettings) logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelWarn
	if c.LogLevel != "" {
		if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
			return nil, hub.Errorf(hub.CodeInvalid, "parley", "log level: %q is not debug, info, warn or error", c.LogLevel)
		}
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.LogFormat {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, hub.Errorf(hub.CodeInvalid, "parley", "log format: %q is not text or json", c.LogFormat)
}
