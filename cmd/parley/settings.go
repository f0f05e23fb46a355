package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/strictyaml"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/server"
)

// A hubSetting is one row of the table of settings. The flags of serve, the variables of the
// environment, the members of the configuration file and the table in
// docs/configuration.md are made from the rows.
type hubSetting struct {
	Member   string // of the configuration file, "part.member" inside a part; "" if it has none
	Variable string // of the environment; "" if it has none
	Flag     string // of serve; "" if it has none
	Help     string // the meaning, in a line
	Default  string // the value of a hub that is not told, as people read it; may be empty
	More     string // what the page says besides, in Markdown; may be empty
	Kind     kind   // how values are written, and where they go

	// Fallback returns the value if no source gives one, nil for none. It may be nil.
	Fallback func() any
}

// usage returns the help text of the setting's flag.
func (s *hubSetting) usage() string {
	if s.Default == "" {
		return s.Help
	}
	return s.Help + " (default " + s.Default + ")"
}

// name returns the name of the setting in errors about its value: its flag, else its member.
func (s *hubSetting) name() string {
	if s.Flag != "" {
		return s.Flag
	}
	return s.Member
}

// hubSettings are the settings of a hub by their types: the options of the server, and
// the settings that the command uses itself.
type hubSettings struct {
	server.Options

	LogFormat string
	LogLevel  string
	LogFile   string
	Runs      run.Retention // of the files of runs
}

// A kind says how the values of a setting are written in each source, and where they go.
// All its functions agree on one Go type for the values; its zero value was not given.
type kind struct {
	member   reflect.Type                                          // of the values in the file
	variable func(s *hubSetting, text string) (any, error)         // reads a variable of the environment
	flag     func(cmd *cobra.Command, s *hubSetting) (value any)   // adds the flag; returns a pointer to its value
	put      func(to *hubSettings, s *hubSetting, value any) error // checks a value and stores it
}

// kindOf returns a kind whose values are of type T. A kind without flags or variables
// has nil for those functions.
func kindOf[T any](flag func(cmd *cobra.Command, s *hubSetting, into *T), variable func(s *hubSetting, text string) (T, error), put func(to *hubSettings, s *hubSetting, value T) error) kind {
	return kind{
		member:   reflect.TypeFor[T](),
		variable: func(s *hubSetting, text string) (any, error) { return variable(s, text) },
		flag: func(cmd *cobra.Command, s *hubSetting) any {
			into := new(T)
			flag(cmd, s, into)
			return into
		},
		put: func(to *hubSettings, s *hubSetting, value any) error { return put(to, s, value.(T)) },
	}
}

// checkedKind returns the kind of a text that put checks.
func checkedKind(put func(to *hubSettings, s *hubSetting, value string) error) kind {
	return kindOf(
		func(cmd *cobra.Command, s *hubSetting, into *string) {
			cmd.Flags().StringVar(into, s.Flag, "", s.usage())
		},
		func(_ *hubSetting, text string) (string, error) { return text, nil },
		put,
	)
}

// textKind returns the kind of texts that are not checked here.
func textKind[T ~string](at func(*hubSettings) *T) kind {
	return checkedKind(func(to *hubSettings, _ *hubSetting, value string) error {
		*at(to) = T(value)
		return nil
	})
}

// pathKind returns the kind of a file or a folder, relative to the working directory.
func pathKind(at func(*hubSettings) *string) kind {
	return checkedKind(func(to *hubSettings, s *hubSetting, value string) (err error) {
		*at(to), err = absolute(s, value)
		return err
	})
}

// spanKind returns the kind of a length of time that is checked when the hub starts.
func spanKind(at func(*hubSettings) *time.Duration) kind {
	return checkedKind(func(to *hubSettings, s *hubSetting, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return hub.Errorf(hub.CodeInvalid, "parley", "%s: %q is not a duration", s.name(), value).WithHint("use a duration such as 2h or 90m")
		}
		*at(to) = d
		return nil
	})
}

// choiceKind returns the kind of settings with two words; the second switches something on.
func choiceKind(off, on string, at func(*hubSettings) *bool) kind {
	return checkedKind(func(to *hubSettings, s *hubSetting, value string) error {
		if value != off && value != on {
			return hub.Errorf(hub.CodeInvalid, "parley", "%s must be %s or %s, got %q", s.name(), off, on, value)
		}
		*at(to) = value == on
		return nil
	})
}

// toggleKind returns the kind of switches, true or false. Its values are pointers: false is given, too.
func toggleKind(at func(*hubSettings) *bool) kind {
	return kindOf(
		func(cmd *cobra.Command, s *hubSetting, into **bool) {
			*into = new(bool)
			cmd.Flags().BoolVar(*into, s.Flag, false, s.usage())
		},
		func(s *hubSetting, text string) (*bool, error) {
			v, err := strconv.ParseBool(text)
			if err != nil {
				return nil, hub.Errorf(hub.CodeInvalid, "parley", "%s must be true or false, got %q", s.Variable, text)
			}
			return &v, nil
		},
		func(to *hubSettings, _ *hubSetting, value *bool) error {
			*at(to) = *value
			return nil
		},
	)
}

// pointerKind returns the kind of switches, true or false, whose default is not false.
func pointerKind(at func(*hubSettings) **bool) kind {
	return kindOf(nil, nil, func(to *hubSettings, _ *hubSetting, value *bool) error {
		*at(to) = value
		return nil
	})
}

// numberKind returns the kind of a positive integer.
func numberKind(at func(*hubSettings) *int) kind {
	return kindOf(
		func(cmd *cobra.Command, s *hubSetting, into *strictyaml.Count) {
			cmd.Flags().Var((*strictjson.Count)(into), s.Flag, s.usage())
		},
		nil,
		func(to *hubSettings, _ *hubSetting, value strictyaml.Count) error {
			*at(to) = int(value)
			return nil
		},
	)
}

// lengthKind returns the kind of a length of time that is checked where it is read.
func lengthKind(at func(*hubSettings) *time.Duration) kind {
	return kindOf(nil, nil, func(to *hubSettings, _ *hubSetting, value strictyaml.Period) error {
		*at(to) = time.Duration(value)
		return nil
	})
}

// wordsKind returns the kind of a list of words, with commas between them in flags and variables. Each is read by read.
func wordsKind[T any](at func(*hubSettings) *[]T, read func(s *hubSetting, word string) (T, error)) kind {
	return kindOf(
		func(cmd *cobra.Command, s *hubSetting, into *[]string) {
			cmd.Flags().StringSliceVar(into, s.Flag, nil, s.usage())
		},
		func(_ *hubSetting, text string) ([]string, error) { return list(text), nil },
		each(at, read),
	)
}

// foldersKind returns the kind of a list of folders: a flag for each, and a variable that is written like PATH.
func foldersKind(at func(*hubSettings) *[]string) kind {
	return kindOf(
		func(cmd *cobra.Command, s *hubSetting, into *[]string) {
			cmd.Flags().StringArrayVar(into, s.Flag, nil, s.usage())
		},
		func(_ *hubSetting, text string) ([]string, error) { return filepath.SplitList(text), nil },
		each(at, absolute),
	)
}

// structuresKind returns the kind of a list of structures of the file; read reads each.
func structuresKind[S, T any](at func(*hubSettings) *[]T, read func(S) (T, error)) kind {
	return kindOf(nil, nil, each(at, func(_ *hubSetting, value S) (T, error) { return read(value) }))
}

// structureKind returns the kind of one structure of the file.
func structureKind[S, T any](at func(*hubSettings) *T, read func(S) (T, error)) kind {
	return kindOf(nil, nil, func(to *hubSettings, _ *hubSetting, value S) (err error) {
		*at(to), err = read(value)
		return err
	})
}

// each returns a function that stores the elements of a list, each read by read.
func each[S, T any](at func(*hubSettings) *[]T, read func(s *hubSetting, value S) (T, error)) func(*hubSettings, *hubSetting, []S) error {
	return func(to *hubSettings, s *hubSetting, values []S) error {
		for _, v := range values {
			got, err := read(s, v)
			if err != nil {
				return err
			}
			*at(to) = append(*at(to), got)
		}
		return nil
	}
}

// absolute returns the path of a folder from the root of the file system.
func absolute(s *hubSetting, dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, "parley", "%s: %v", s.name(), err)
	}
	return path, nil
}

// plainWord takes a word as it is.
func plainWord[T ~string](_ *hubSetting, word string) (T, error) { return T(word), nil }

// network reads a network such as 10.0.0.0/8.
func network(s *hubSetting, word string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(word)
	if err != nil {
		return p, hub.Errorf(hub.CodeInvalid, "parley", "%s: %q is not a network", s.name(), word).WithHint("use a network such as 127.0.0.0/8 or 10.0.0.0/8")
	}
	return p, nil
}

// repoRole stores the role of the hub's repository.
func repoRole(to *hubSettings, _ *hubSetting, role string) error {
	if err := hub.CheckRepoRole("parley", role); err != nil {
		return err
	}
	to.Coordination.Role = role
	return nil
}

// unreachable stores the decision about edits while the hub does not answer.
func unreachable(to *hubSettings, s *hubSetting, value string) error {
	if value != server.UnreachableAllow && value != server.UnreachableDeny {
		return hub.Errorf(hub.CodeInvalid, "parley", "%s must be %s or %s, got %q", s.name(), server.UnreachableAllow, server.UnreachableDeny, value)
	}
	to.Reservations.Unreachable = value
	return nil
}

// A repositoryConfig has the settings of one repository in the configuration file.
type repositoryConfig struct {
	Path         string `yaml:"path"`
	Reservations struct {
		Idle        strictyaml.Period `yaml:"idle"`
		Unreachable string            `yaml:"unreachable"`
		Guard       *bool             `yaml:"guard"`
	} `yaml:"reservations"`
	RequireChecks bool `yaml:"require_checks"`
	KeptWork      struct {
		Enabled *bool `yaml:"enabled"`
		Ignored *bool `yaml:"ignored"`
	} `yaml:"kept_work"`
}

// options returns the settings as the server takes them.
func (r repositoryConfig) options() (server.Repository, error) {
	out := server.Repository{Path: r.Path}
	if !filepath.IsAbs(r.Path) {
		return out, hub.Errorf(hub.CodeInvalid, "parley", "repositories: path must be an absolute path, got %q", r.Path)
	}
	out.Reservations.Idle = time.Duration(r.Reservations.Idle)
	out.Reservations.Unreachable = r.Reservations.Unreachable
	out.Reservations.Guard = r.Reservations.Guard
	out.RequireChecks = r.RequireChecks
	out.KeptWork = server.KeptWork{Enabled: r.KeptWork.Enabled, Ignored: r.KeptWork.Ignored}
	return out, nil
}

// openClawTeamspaces returns the folder of teams in the workspace of an OpenClaw
// installation, nil without one.
func openClawTeamspaces() any {
	dir := os.Getenv("OPENCLAW_STATE_DIR")
	if dir == "" {
		return nil
	}
	return filepath.Join(dir, "workspace", "_shared", "teamspaces")
}

// list splits the value of a variable at commas and spaces.
func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
