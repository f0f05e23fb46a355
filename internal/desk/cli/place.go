package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A Scope is the set of sessions that a hub is added for.
type Scope string

// The scopes.
const (
	ScopeUser    Scope = "user"    // wherever this user starts the CLI
	ScopeProject Scope = "project" // sessions in one folder
)

// A Place is where the files of a CLI are looked for.
type Place struct {
	Scope Scope  // default ScopeUser
	Home  string // the user's home folder
	Dir   string // the project's folder; for ScopeProject only

	// Getenv returns the variables that move a CLI's files, such as CODEX_HOME.
	// The default is os.Getenv.
	Getenv func(string) string
}

// A layout says where a CLI keeps its files in one scope. In the paths {home} is
// the user's home, {root} is the folder that the base's variable names, else the
// home or the project, and {base} is that folder too, else the one below it.
type layout struct {
	base        base
	config      choice
	instruction choice
	note        string // a further step for the user
}

// A base gives {root} and {base} their values: the folder in the variable env, if that
// is set, else the home or the project and the folder below it.
type base struct{ env, below string }

// A choice is a list of files in the order in which to take them. The first that
// exists is edited; if none does, the one with the index made is created.
type choice struct {
	paths []string
	made  int
}

// files returns the layout for the place with whole paths.
func (c CLI) files(op string, at Place) (layout, error) {
	if c.format == nil {
		return layout{}, hub.Errorf(hub.CodeInvalid, op, "the CLI has no configuration file for MCP servers")
	}
	getenv := at.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}

	var l layout
	var root string
	switch at.Scope {
	case ScopeUser, "":
		l, root = c.user, at.Home
	case ScopeProject:
		l, root = c.project, at.Dir
	default:
		return layout{}, hub.Errorf(hub.CodeInvalid, op, "unknown scope %q", at.Scope).
			WithHint("use %s or %s", ScopeUser, ScopeProject)
	}
	if !filepath.IsAbs(root) {
		return layout{}, hub.Errorf(hub.CodeInvalid, op, "the folder %q is not an absolute path", root)
	}

	start := filepath.Join(root, l.base.below)
	if moved := getenv(l.base.env); l.base.env != "" && moved != "" {
		// A relative path would be another folder wherever the CLI is started.
		if !filepath.IsAbs(moved) {
			return layout{}, hub.Errorf(hub.CodeInvalid, op, "%s is set to a relative path", l.base.env).
				WithHint("set %s to an absolute path, or unset it", l.base.env)
		}
		root, start = moved, moved
	}

	names := strings.NewReplacer("{home}", at.Home, "{root}", root, "{base}", start)
	l.config = l.config.expand(names)
	l.instruction = l.instruction.expand(names)
	return l, nil
}

func (c choice) expand(names *strings.Replacer) choice {
	paths := make([]string, len(c.paths))
	for i, p := range c.paths {
		paths[i] = filepath.Clean(names.Replace(p))
	}
	return choice{paths: paths, made: c.made}
}
