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

	// Reach are the absolute paths that the command names, and the folders in which its programs run.
	Reach []string
	// Acts reports whether a program runs that is not known to read only, or that the text does not
	// name.
	Acts bool
}

// Destroys reports whether the text says that the command writes, removes or throws away something
// that may not be committed.
func (e Effects) Destroys() bool {
	return len(e.Writes) > 0 || slices.ContainsFunc(e.Git, func(g Git) bool { return g.Verb != Stage && g.Verb != Commit })
}

// maxReach bounds the paths of Reach; later ones are left out.
const maxReach = 256

// reaches adds a path that the command names.
func (r *reader) reaches(at string) {
	if at == "" || len(r.effects.Reach) >= maxReach || slices.Contains(r.effects.Reach, at) {
		return
	}
	r.effects.Reach = append(r.effects.Reach, at)
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

	Unstash  Verb = "unstash"  // removes entries of the stash; Ref is pop, drop or clear
	Restash  Verb = "restash"  // adds an entry to the stash
	Unbranch Verb = "unbranch" // removes branches, or moves them away from their commits; Refs has them
	Untree   Verb = "untree"   // removes working trees, which are its Paths
	Move     Verb = "move"     // begins a branch in the working tree
	Prune    Verb = "prune"    // removes commits that no branch has
)

// A Git is a git command that changes, stages or commits files.
type Git struct {
	Verb     Verb
	Dir      string   // the folder in which git runs
	Ref      string   // for Switch: the branch or commit, which may also be a path
	Refs     []string // for Unbranch: the branches
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
	r := &reader{documents: map[*syntax.Redirect]string{}, vars: map[string]string{}}
	r.text(command, scope{dir: filepath.ToSlash(dir)}, 0)
	for _, w := range r.effects.Writes {
		if !w.Glob && !w.Spec {
			r.reaches(w.Path)
		}
	}
	for _, g := range r.effects.Git {
		r.reaches(g.Dir)
		for _, t := range g.Paths {
			if !t.Spec {
				r.reaches(t.Path)
			}
		}
	}
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
	vars      map[string]string           // variables with a literal value
	globs     int                         // patterns among the files that it writes
}

// write adds a target, unless its path is not known.
func (r *reader) write(t Target) {
	if t.Glob {
		r.globs++
	}
	isBeyond := t.Glob && (r.globs > maxGlobs || strings.Count(t.Path, "*") > maxStars)
	isRepeated := len(r.effects.Writes) > 0 && r.effects.Writes[len(r.effects.Writes)-1] == t // by a loop
	if t.Path == "" || isBeyond || isRepeated {
		return
	}
	r.effects.Writes = append(r.effects.Writes, t)
}

// text reads the commands of a text and returns the scope after them.
func (r *reader) text(command string, s scope, depth int) scope {
	if len(command) > maxCommand || depth > maxDepth {
		r.effects.Acts = true
		return scope{}
	}
	short, bodies := withoutDocuments(command)
	file, found := parse(short)
	if len(found) != len(bodies) { // such as marks in a form that only the parser knows
		file, found = parse(command)
		bodies = nil
	}
	if file == nil {
		r.effects.Acts = true
		return scope{}
	}
	for i, redirect := range found {
		switch {
		case bodies == nil:
			r.documents[redirect], _ = r.literal(redirect.Hdoc)
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
