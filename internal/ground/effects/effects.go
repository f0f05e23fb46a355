// Package effects reads the text of a shell command and returns what the text says about
// files: the ones that the command writes, moves or removes, and the git commands that throw
// changes away or stage them.
//
// It parses the command as a shell does and runs nothing. Words with variables and the output
// of other commands have no known value; their effects are left out, so that the answer is
// never more than the text says. Programs that the package does not know have no effects. It
// is for honest commands: a command that wants to hide its effects can.
package effects

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxCommand  = 1 << 18 // bytes of a command; a longer one has no known effects
	maxText     = 1 << 15 // bytes of a command without its here-documents; beyond it they are not known either
	maxNested   = 200     // brackets that are open at one place of the text
	maxBraces   = 100     // opening braces of one word; beyond it the word is not known
	maxWords    = 16384   // of a command; later ones are left out
	maxExpanded = 1 << 20 // bytes of all words of a command
	maxDepth    = 8       // of commands inside commands, such as sh -c
	maxGlobs    = 64      // patterns of the shell that a command writes to; later ones are left out
	maxStars    = 16      // of one of them; one with more is left out
)

// Effects are what a command does to files, as far as its text says.
type Effects struct {
	Writes  []Target // files that it writes, moves or removes itself
	Patched []string // absolute paths of files that its apply_patch changes; they are in Writes, too
	Git     []Git    // in the order of the text
}

// A Target names files by an absolute path or a pattern.
type Target struct {
	Path string
	Deep bool // everything below Path, too
	Glob bool // Path is a pattern of the shell, whose * does not match a slash
	Spec bool // Path is a pattern of git, whose * does
}

// A Verb is what a git command does to the files of a working tree.
type Verb string

const (
	Discard Verb = "discard" // replaces files by a committed or staged state, or removes them
	Stage   Verb = "stage"   // puts changed files into the index or into a commit
	Switch  Verb = "switch"  // checks out another commit; files that differ there change
	Commit  Verb = "commit"  // commits the index
)

// A Git is a git command that changes, stages or commits files.
type Git struct {
	Verb     Verb
	Dir      string   // the folder in which git runs
	Ref      string   // for Switch: the branch or commit, which may also be a path
	Paths    []Target // empty for the whole working tree, but for Commit: for the index
	Except   []Target // files that the pathspecs exclude
	NoVerify bool     // the command leaves out the hooks of the repository

	Tracked   bool // it touches files that git knows
	Untracked bool // it touches files that git does not know
}

// Compile returns the comparison of a file, given by its absolute path in the working tree, with
// the paths of the command.
func (g Git) Compile() func(file string, steps *int) bool {
	paths := Compile(g.Paths...)
	except := Compile(g.Except...)
	return func(file string, steps *int) bool {
		if except.Count(file, steps) {
			return false
		}
		return len(g.Paths) == 0 || paths.Count(file, steps)
	}
}

// Read returns the effects of a command that a shell runs in dir, an absolute path. A command
// that is not valid in a shell has none.
func Read(command, dir string) Effects {
	r := &reader{documents: map[*syntax.Redirect]string{}}
	r.text(command, scope{dir: filepath.ToSlash(dir)}, 0)
	return r.effects
}

// A scope is the state of one shell.
type scope struct {
	dir string // the working folder; empty if the text does not say
}

// resolve returns the absolute path of a name, and "" if its folder is not known.
func (s scope) resolve(name string) string {
	switch {
	case name == "":
		return ""
	case path.IsAbs(name):
		return path.Clean(name)
	case s.dir == "":
		return ""
	}
	return path.Join(s.dir, name)
}

// A reader collects the effects of a command.
type reader struct {
	effects   Effects
	documents map[*syntax.Redirect]string // here-documents, which were taken out of the text
	expanded  int                         // bytes of all words
	globs     int                         // patterns among the files that it writes
}

// write adds a target, unless its path is not known.
func (r *reader) write(t Target) {
	if t.Glob {
		r.globs++
	}
	isBeyond := t.Glob && (r.globs > maxGlobs || strings.Count(t.Path, "*") > maxStars)
	if t.Path == "" || isBeyond {
		return
	}
	r.effects.Writes = append(r.effects.Writes, t)
}

// text reads the commands of a text and returns the scope after them.
func (r *reader) text(command string, s scope, depth int) scope {
	if len(command) > maxCommand || depth > maxDepth {
		return scope{}
	}
	short, bodies := withoutDocuments(command)
	file, found := parse(short)
	if len(found) != len(bodies) { // such as marks in a form that only the parser knows
		file, found = parse(command)
		bodies = nil
	}
	if file == nil {
		return scope{}
	}
	for i, redirect := range found {
		switch {
		case bodies == nil:
			r.documents[redirect], _ = literal(redirect.Hdoc)
		default:
			r.documents[redirect] = bodies[i]
		}
	}
	return r.statements(file.Stmts, s, depth)
}

// parse parses a text within the bounds, and returns its here-documents in the order of the
// text. It returns nil for one that is beyond them or not valid in a shell.
func parse(text string) (file *syntax.File, documents []*syntax.Redirect) {
	if len(text) > maxText || nesting(text) > maxNested {
		return nil, nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, nil
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		redirect, ok := n.(*syntax.Redirect)
		if ok && (redirect.Op == syntax.Hdoc || redirect.Op == syntax.DashHdoc) {
			documents = append(documents, redirect)
		}
		return true
	})
	slices.SortFunc(documents, func(a, b *syntax.Redirect) int { return cmp.Compare(a.OpPos.Offset(), b.OpPos.Offset()) })
	return file, documents
}
