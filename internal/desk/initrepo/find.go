// Package initrepo sets up a git repository for agents: it finds the commands that test the
// repository, plans what the hub is to know, carries the plan out, and takes it back.
//
// Find reads the repository at its newest commit, because the hub runs checks on commits. A Plan
// compares what is wanted with what the hub has, so that a second run changes nothing. What Apply
// added is written to a file in the hub's home, and Undo removes that and nothing else.
package initrepo

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/checkfile"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A Repository is a git repository with a working tree.
type Repository struct {
	Name   string `json:"name"`
	Path   string `json:"path"`             // its main working tree
	Branch string `json:"branch,omitempty"` // that is checked out there; empty for a detached HEAD
	Commit string `json:"commit,omitempty"` // of Branch; empty before the first commit
}

// A Check is a command that tests a repository.
type Check struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
	Setup   []string `json:"setup,omitempty"` // runs before Command
	Source  string   `json:"source"`          // the file in which it was found

	setupKey []string
	keep     []string
	proposed bool // by the repository's parley.yaml
}

// Find returns the repository around a folder. It reports CodeNotFound outside of a repository,
// and CodeInvalid for one without a working tree.
func Find(ctx context.Context, dir string) (Repository, error) {
	const op = "initrepo.Find"
	top, err := git.Top(ctx, dir)
	if err != nil || top == "" {
		return Repository{}, hub.Errorf(hub.CodeNotFound, op, "%s is not in a git repository with a working tree", dir).
			WithHint("run git init there first, or go to the folder of a repository")
	}
	common, err := git.Common(ctx, top)
	if err != nil {
		return Repository{}, hub.Errorf(hub.CodeInvalid, op, "cannot find the repository of %s: %v", top, err)
	}

	// A linked working tree belongs to the main one, where the target branch is checked out.
	r := Repository{Path: top}
	if main := hub.RepositoryPath(filepath.Clean(common)); main != filepath.Clean(common) {
		r.Path = main
	}
	r.Name = filepath.Base(r.Path)
	r.Branch = text(ctx, r.Path, "symbolic-ref", "--quiet", "--short", "HEAD")
	r.Commit = text(ctx, r.Path, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	return r, nil
}

// text returns the output of a command of git in one line, empty if the command fails.
func text(ctx context.Context, dir string, args ...string) string {
	out, err := git.In(ctx, "git", dir, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// file returns a file at the top of the repository's commit.
func (r Repository) file(ctx context.Context, name string) []byte {
	out, err := git.In(ctx, "git", r.Path, "cat-file", "blob", r.Commit+":"+name).Output()
	if err != nil {
		return nil
	}
	return out
}

// Checks returns the commands that test the repository: those that its parley.yaml proposes, else
// the one command that tests all of it, else one for each language.
func (r Repository) Checks(ctx context.Context) []Check {
	if r.Commit == "" {
		return nil
	}
	if own := r.proposals(ctx); len(own) > 0 {
		return own
	}
	has := map[string]bool{}
	for name := range strings.Lines(text(ctx, r.Path, "ls-tree", "--name-only", r.Commit) + "\n") {
		has[strings.TrimSpace(name)] = true
	}
	if has["Makefile"] && testTarget().Match(r.file(ctx, "Makefile")) {
		return []Check{{Name: "test", Command: []string{"make", "test"}, Source: "Makefile"}}
	}
	if has[".ci"] && len(r.file(ctx, ".ci/run")) > 0 {
		return []Check{{Name: "test", Command: []string{"./.ci/run"}, Source: ".ci/run"}}
	}
	return r.languages(ctx, has)
}

// testTarget finds the target test of a Makefile.
var testTarget = pattern.New(`(?m)^test[ \t]*:([^=]|$)`)

// proposed returns what the repository's own file proposes. The hub names the error of a file that
// cannot be read.
func (r Repository) proposed(ctx context.Context) checkfile.File {
	file, err := checkfile.Parse(checkfile.Name, r.file(ctx, checkfile.Name))
	if err != nil {
		return checkfile.File{}
	}
	return file
}

// proposals returns the checks that the repository's own file proposes. Those that run in an agent's
// own tree judge no commit.
func (r Repository) proposals(ctx context.Context) (out []Check) {
	file := r.proposed(ctx)
	for _, c := range file.Checks {
		if !c.InPlace {
			out = append(out, Check{Name: c.Name, Command: c.Command, Setup: c.Setup, Source: checkfile.Name, proposed: true})
		}
	}
	return out
}

// languages returns the usual test command of each language whose file the repository has.
func (r Repository) languages(ctx context.Context, has map[string]bool) (out []Check) {
	if has["package.json"] && hasNPMTest(r.file(ctx, "package.json")) {
		c := Check{Name: "npm", Command: []string{"npm", "test"}, Source: "package.json"}
		if has["package-lock.json"] {
			c.Setup = []string{"npm", "ci"}
			c.setupKey = []string{"package-lock.json"}
			c.keep = []string{"node_modules"}
		}
		out = append(out, c)
	}
	if has["go.mod"] {
		out = append(out, Check{Name: "go", Command: []string{"go", "test", "./..."}, Source: "go.mod"})
	}
	if has["Cargo.toml"] {
		out = append(out, Check{Name: "cargo", Command: []string{"cargo", "test"}, Source: "Cargo.toml"})
	}
	if has["pyproject.toml"] {
		out = append(out, Check{Name: "python", Command: []string{"python3", "-m", "pytest"}, Source: "pyproject.toml"})
	}
	if len(out) == 1 {
		out[0].Name = "test"
	}
	return out
}

// hasNPMTest reports whether a package.json has a test script besides the one that npm init writes,
// which always fails.
func hasNPMTest(raw []byte) bool {
	var file struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal(raw, &file) != nil {
		return false
	}
	line := file.Scripts["test"]
	return line != "" && !strings.Contains(line, "no test specified")
}

// Line returns a check that runs a line of a shell.
func Line(line string) Check {
	return Check{Name: "test", Command: checkfile.Line(line), Source: "given"}
}

// names returns the names of checks.
func names(all []Check) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.Name
	}
	slices.Sort(out)
	return out
}
