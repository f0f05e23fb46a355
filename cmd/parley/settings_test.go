package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/ground/strictyaml"
)

// TestSettings checks that a setting is whole: every member of the options of a hub that
// a user may set has a row, every row reaches the options, and the page lists every row.
func TestSettings(t *testing.T) {
	t.Run("names are unique, and every setting has a help text and a way in", func(t *testing.T) {
		seen := map[string]bool{}
		for _, s := range hubSettingRows {
			if s.Help == "" || (s.Member == "" && s.Flag == "") {
				t.Errorf("%+v has no help text, or neither a member nor a flag", s)
			}
			for _, name := range []string{s.Member, s.Variable, "--" + s.Flag} {
				if seen[name] {
					t.Errorf("%s is there twice", name)
				}
				seen[name] = name != "" && name != "--"
			}
		}
	})
	t.Run("every source of a setting can be read", func(t *testing.T) {
		for _, s := range hubSettingRows {
			sample := settingSample(s)
			if s.Variable != "" {
				if _, err := s.Kind.variable(s, sample); err != nil {
					t.Errorf("%s=%s: %v", s.Variable, sample, err)
				}
			}
			if s.Flag == "" {
				continue
			}
			cmd := &cobra.Command{}
			overlay := addSettingFlags(cmd)
			if err := cmd.Flags().Set(s.Flag, sample); err != nil {
				t.Errorf("--%s %s: %v", s.Flag, sample, err)
			}
			c := config{}
			if overlay(c); len(c) != 1 || c[s] == nil {
				t.Errorf("--%s %s: got %v", s.Flag, sample, c)
			}
		}
	})
	t.Run("every member of the options has one setting", func(t *testing.T) {
		owners := map[string]string{}
		for _, s := range hubSettingRows {
			var to hubSettings
			if err := s.Kind.put(&to, s, settingValue(t, s)); err != nil {
				t.Errorf("%s: %v", s.name(), err)
				continue
			}
			changed := setMembers(reflect.ValueOf(to), "")
			if len(changed) != 1 {
				t.Errorf("%s sets %v, want one member of the options", s.name(), changed)
				continue
			}
			if other := owners[changed[0]]; other != "" {
				t.Errorf("%s and %s set %s", s.name(), other, changed[0])
			}
			owners[changed[0]] = s.name()
		}
		for _, member := range allMembers(reflect.TypeFor[hubSettings](), "") {
			reason, given := notSettings[member]
			switch {
			case owners[member] == "" && !given:
				t.Errorf("no setting for %s: add a row to hubSettingRows", member)
			case owners[member] != "" && given:
				t.Errorf("%s has a setting and a reason to have none: %s", member, reason)
			}
		}
	})
	t.Run("docs/configuration.md lists the settings", func(t *testing.T) {
		page := filepath.Join("..", "..", "docs", "configuration.md")
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, begins := strings.Cut(string(raw), "| member of the file |")
		_, tail, ends := strings.Cut(rest, "\n\n")
		if !begins || !ends {
			t.Fatalf("%s has no table of settings", page)
		}
		want := head + settingsTable() + "\n" + tail
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if string(raw) != want {
			t.Errorf("%s does not have the table of settings; run with -update. Want:\n%s", page, settingsTable())
		}
	})
}

// notSettings are the members of the options that no user sets, with the reason.
var notSettings = map[string]string{
	"Home":     "a flag of all commands",
	"Version":  "of the program",
	"Log":      "made from log_format, log_level and log_file",
	"Channels": "for programs that embed a hub",
	"Bridge":   "the path of the program",
	"Clock":    "for tests",
	"Traces":   "the OTEL_* variables decide",

	"Checks.Program": "the path of the program",
}

// settingSample returns a value of a setting as a flag takes it.
func settingSample(s *hubSetting) string {
	switch s.Member {
	case "durability":
		return "full"
	case "auth":
		return "open"
	case "role":
		return "backend"
	case "peer_allow":
		return "10.0.0.0/8"
	case "reservations.unreachable":
		return "deny"
	case "sla", "response_time", "merge_sla":
		return "1h"
	}
	switch s.Kind.member {
	case reflect.TypeFor[*bool]():
		return "true"
	case reflect.TypeFor[strictyaml.Count]():
		return "1"
	}
	return "x"
}

// settingValue returns a value of a setting as put takes it.
func settingValue(t *testing.T, s *hubSetting) any {
	t.Helper()
	sample := settingSample(s)
	switch s.Kind.member {
	case reflect.TypeFor[string]():
		return sample
	case reflect.TypeFor[[]string]():
		return []string{sample}
	case reflect.TypeFor[*bool]():
		on := true
		return &on
	case reflect.TypeFor[strictyaml.Count]():
		return strictyaml.Count(1)
	case reflect.TypeFor[strictyaml.Period]():
		return strictyaml.Period(1)
	case reflect.TypeFor[[]notifyTarget]():
		return []notifyTarget{{Name: sample}}
	case reflect.TypeFor[[]repositoryConfig]():
		return []repositoryConfig{{Path: "/" + sample}}
	case reflect.TypeFor[*gatewayConfig]():
		return &gatewayConfig{URL: sample}
	}
	t.Fatalf("%s has a kind that this test does not know", s.name())
	return nil
}

// isGroup reports whether the members of t are settings of their own.
func isGroup(f reflect.StructField) bool {
	return f.Anonymous || (f.Type.Kind() == reflect.Struct && (f.Name == "Limits" || f.Name == "Wakes" || f.Name == "Coordination" || f.Name == "Runs" || f.Name == "Reservations" || f.Name == "Checks"))
}

// allMembers returns the paths of the members of t.
func allMembers(t reflect.Type, path string) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case !f.IsExported():
		case f.Anonymous:
			names = append(names, allMembers(f.Type, path)...)
		case isGroup(f):
			names = append(names, allMembers(f.Type, path+f.Name+".")...)
		default:
			names = append(names, path+f.Name)
		}
	}
	return names
}

// setMembers returns the paths of the members of v that are not zero.
func setMembers(v reflect.Value, path string) []string {
	var names []string
	for _, name := range allMembers(v.Type(), path) {
		at := v
		for part := range strings.SplitSeq(name, ".") {
			at = at.FieldByName(part)
		}
		if !at.IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// settingsTable returns the table of docs/configuration.md.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| member of the file | variable | flag | default | meaning |\n|---|---|---|---|---|\n")
	for _, s := range hubSettingRows {
		meaning := s.Help
		if s.More != "" {
			meaning += ". " + s.More
		}
		standard := s.Default
		if s.Kind.member == reflect.TypeFor[*bool]() && standard == "" {
			standard = "false"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", coded("", s.Member), coded("", s.Variable), coded("--", s.Flag), standard, meaning)
	}
	return b.String()
}

// coded returns a name in the code of Markdown, "" for none.
func coded(prefix, name string) string {
	if name == "" {
		return ""
	}
	return "`" + prefix + name + "`"
}
