package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictyaml"
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
		return c, hub.Errorf(hub.CodeInvalid, "parley", "cannot read the configuration: %v", err)
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
	if err := strictyaml.Decode(path, raw, file.Interface()); err != nil {
		return err
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

// logger returns the log that the settings ask for.
func (c hubSettings) logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelWarn
	if c.LogLevel != "" {
		if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
			return nil, hub.Errorf(hub.CodeInvalid, "parley", "unknown log level %q: use debug, info, warn or error", c.LogLevel)
		}
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.LogFormat {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, hub.Errorf(hub.CodeInvalid, "parley", "unknown log format %q: use text or json", c.LogFormat)
}
