package comply

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
)

//go:embed suite/*.jsont
var suite embed.FS

//go:embed requirements/*.txt
var requirements embed.FS

// BuiltinRequirements returns the rules that an agent of a version of the protocol must
// keep, for the names v1 and v2.
func BuiltinRequirements(name string) (render.Requirements, error) {
	text, err := requirements.ReadFile("requirements/" + name + ".txt")
	if err != nil {
		return nil, fmt.Errorf("comply: unknown requirements %q: use v1 or v2", name)
	}
	return render.ParseRequirements(name, text)
}

// profiles have the beginnings of the ids of the tests that each profile asks for. Full
// asks for all.
// A beginning that ends with a dot stands for a group of tests; one without also
// stands for longer names.
var profiles = map[string][]string{
	"full": {""},
	// Without these no client can work with an agent.
	"core": {"required.", "initialize.", "rpc.", "transport.", "session.new", "session.many", "session.lifecycle", "prompt.", "auth.", "state", "extension"},
	// What an editor shows and serves: files, terminals, questions, tool calls, settings.
	"editor": {
		"required.", "initialize.", "rpc.", "transport.", "session.", "prompt.", "auth.", "state", "extension",
		"capabilities.", "fs.", "terminal.", "permission.", "tool.", "plan", "mode.", "config.", "command", "elicitation",
	},
	// A program without a user: no files, no terminals, no settings of an editor.
	"headless": {"required.", "initialize.", "rpc.", "transport.", "session.", "prompt.", "auth.", "state", "extension", "permission.", "tool.", "mcp.", "provider."},
}

// Profiles returns the names of the profiles.
func Profiles() []string { return slices.Sorted(maps.Keys(profiles)) }

// InProfile reports whether a profile asks for a test.
func InProfile(profile, test string) bool {
	return slices.ContainsFunc(profiles[profile], func(begin string) bool { return strings.HasPrefix(test, begin) })
}

// Suite returns the built-in tests.
func Suite() ([]*jsont.Test, error) {
	// The path of a built-in test is its name, for reports.
	dir, err := fs.Sub(suite, "suite")
	if err != nil {
		return nil, err
	}
	return jsont.Load(dir, func(name string) string { return name })
}

// WriteSuite writes the files of the built-in tests into a folder, which it makes. It changes no
// file that is there.
func WriteSuite(dir string) (files int, err error) {
	tests, err := fs.Sub(suite, "suite")
	if err != nil {
		return 0, err
	}
	if err := os.CopyFS(dir, tests); err != nil {
		return 0, fmt.Errorf("comply: write the suite: %w", err)
	}
	all, err := fs.ReadDir(tests, ".")
	return len(all), err
}

// Load reads all tests in a folder and the folders in it. All broken files are
// in the error, each as a *FileError. Tests that are not copies of built-in ones are the
// user's own.
func Load(dir string) ([]*jsont.Test, error) {
	tests, err := jsont.Load(os.DirFS(dir), func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) })
	if err == nil && len(tests) == 0 {
		return nil, fmt.Errorf("comply: no %s file in %s", jsont.Extension, dir)
	}
	for _, t := range tests {
		builtIn, missing := suite.ReadFile("suite/" + t.ID + jsont.Extension)
		t.Own = missing != nil || !bytes.Equal(builtIn, t.Source())
	}
	return tests, err
}
