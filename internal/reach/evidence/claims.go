package evidence

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/report"
)

// A change is the kind of a change of a file.
type change string

const (
	created  change = "created"
	modified change = "modified"
	deleted  change = "deleted"
)

// Fields that name files.
const (
	fieldCreated  = "FILES_CREATED"
	fieldModified = "FILES_MODIFIED"
	fieldDeleted  = "FILES_DELETED" // not of the protocol, which has none for it
)

// A fileClaim is one file that a report names.
type fileClaim struct{ field, path string }

func (c fileClaim) String() string { return c.field + ":" + c.path }

// fileClaims returns the files that a report names.
func fileClaims(rep report.Report) []fileClaim {
	var all []fileClaim
	for _, p := range rep.FilesCreated {
		all = append(all, fileClaim{fieldCreated, p})
	}
	for _, p := range rep.FilesModified {
		all = append(all, fileClaim{fieldModified, p})
	}
	for _, f := range rep.Extra {
		if f.Name != fieldDeleted {
			continue
		}
		for p := range strings.SplitSeq(f.Value, ",") {
			if p = strings.TrimSpace(p); p != "" {
				all = append(all, fileClaim{fieldDeleted, p})
			}
		}
	}
	return all
}

// NamedFiles returns the paths that a report names, for Base.Compare.
func NamedFiles(rep report.Report) []string {
	var paths []string
	for _, c := range fileClaims(rep) {
		paths = append(paths, c.path)
	}
	return paths
}

// files judges the claims about files.
func (j *judge) files(c Changes, scope []string) {
	f := newFiles(c)
	claims := fileClaims(j.rep)
	held := 0
	for _, claim := range claims {
		if j.named(claim, f, scope) {
			held++
		}
	}
	j.unnamed(f, scope)
	if c.OnlyTrivial() {
		j.find(TrivialChange, j.status(), "trivial: %s", f.trivia())
	}
	for _, name := range c.Repository {
		j.find(GitChanged, j.status(), "%s was changed, and git obeys it", show(name))
	}

	switch {
	case len(claims) > 0 && held == 0 && c.Empty():
		j.find(NoEdits, j.status(), "%d files are named, and nothing has changed", len(claims))
	case len(claims) == 0 && c.Empty() && j.rep.Status == report.StatusOK:
		j.find(NothingDone, j.status(), "no file is named, and none has changed")
	}
}

// named judges a claim about a file that the report names, and reports whether it holds.
func (j *judge) named(claim fileClaim, f *files, scope []string) bool {
	s, ok := f.named(claim.path)
	switch {
	case !ok:
		j.find(FilesUnproven, claim.String(), "it was not compared")
		return false
	case s.Name == "":
		j.find(PathEscape, claim.String(), "it is not in the working tree")
		return false
	case path.IsAbs(claim.path):
		j.find(AbsolutePath, claim.String(), "%s in the working tree", show(s.Name))
	}

	if !s.Folder && !f.inScope(scope, s.Name) {
		j.find(OutsideScope, claim.String(), "%s is not in the scope", show(s.Name))
		f.outside[s.Name] = true
	}
	return j.file(claim, s, f)
}

// unnamed judges the changes that the report does not name: those outside the scope, all if
// it says that there are none, else those that are not declared. It follows the claims.
func (j *judge) unnamed(f *files, scope []string) {
	for _, name := range f.changes.names() {
		if !f.inScope(scope, name) && !f.outside[name] {
			j.find(OutsideScope, j.status(), "%s was %s and is not in the scope", show(name), f.kinds[name])
		}
	}
	if j.rep.Status == report.StatusNoChanges && !f.changes.Empty() {
		j.find(Edits, j.status(), "%s", f.summary())
		return
	}
	for _, name := range f.undeclared() {
		j.find(Undeclared, j.status(), "%s was %s, and is not named", show(name), f.kinds[name])
	}
}

// An answer is the finding about a file. The kind is empty if the claim holds.
type answer struct {
	kind  string
	found string
}

// answers are the findings for a file that a field names and that was created,
// modified or deleted.
var answers = map[string]map[change]answer{
	fieldCreated: {
		created:  {},
		modified: {NotCreated, "it was there before, and was modified"},
		deleted:  {FileMissing, "it was deleted"},
	},
	fieldModified: {
		created:  {NotModified, "it is new"},
		modified: {},
		deleted:  {}, // the protocol has no other field for it
	},
	fieldDeleted: {
		created:  {FileUnchanged, "it is there, and is new"},
		modified: {FileUnchanged, "it is there, and was modified"},
		deleted:  {},
	},
}

// file judges one file that is named, and reports whether the claim holds.
func (j *judge) file(claim fileClaim, s NamedPath, f *files) bool {
	f.declared[s.Name] = true
	a, ok := answers[claim.field][f.kinds[s.Name]]
	if !ok {
		a = f.unchanged(claim, s)
	}
	if a.kind == FolderNamed {
		f.declaredFolders[s.Name] = true
	}
	if a.kind != "" {
		j.find(a.kind, claim.String(), "%s", a.found)
	}
	return weights[a.kind].done != against
}

// unchanged answers a claim about something that is not among the changes.
func (f *files) unchanged(claim fileClaim, s NamedPath) answer {
	gone := claim.field == fieldDeleted
	switch {
	case s.Name == ".":
		return answer{FileMissing, "it is the whole working tree, not a file"}
	case f.folders[s.Name] && (s.Folder || (!s.Exists && claim.field != fieldCreated)):
		return answer{FolderNamed, "it is a folder in which files changed"}
	case !s.Exists && gone:
		return answer{FilesUnproven, "it does not exist, and nothing shows that it did"}
	case !s.Exists:
		return answer{FileMissing, "there is no such file"}
	case gone || !s.Ignored || !s.Touched:
		return answer{FileUnchanged, "it is as it was before"}
	case s.Folder:
		return answer{FilesUnproven, "it is a folder, and its changes are unknown"}
	}
	return answer{}
}

// files are the changed files by name, and those of them that a report names.
type files struct {
	changes         Changes
	kinds           map[string]change
	folders         map[string]bool // in which something changed
	declared        map[string]bool
	declaredFolders map[string]bool
	outside         map[string]bool // named, and found to be outside the scope
}

func newFiles(c Changes) *files {
	f := &files{
		changes: c, kinds: map[string]change{}, folders: map[string]bool{".": true},
		declared: map[string]bool{}, declaredFolders: map[string]bool{}, outside: map[string]bool{},
	}
	for _, list := range []struct {
		is    change
		names []string
	}{{created, c.Created}, {modified, c.Modified}, {deleted, c.Deleted}} {
		for _, name := range list.names {
			f.kinds[name] = list.is
			hold(f.folders, name)
		}
	}
	for _, name := range c.Submodules {
		if f.kinds[name] == "" && !f.folders[name] {
			f.kinds[name] = modified
		}
	}
	return f
}

// named returns the state of a path as the report spells it, and whether it is
// known.
func (f *files) named(spelled string) (NamedPath, bool) {
	if s, ok := f.changes.Named[spelled]; ok {
		return s, true
	}
	name := path.Join(f.changes.Folder, spelled)
	if path.IsAbs(spelled) || leadsOut(name) {
		return NamedPath{}, true
	}
	is, ok := f.kinds[name]
	return NamedPath{Name: name, Exists: is != deleted}, ok
}

// undeclared returns the files that changed and that the report does not name.
func (f *files) undeclared() []string {
	return slices.DeleteFunc(f.changes.names(), func(name string) bool {
		to, moved := f.changes.Moved[name]
		return f.isDeclared(name) || (moved && f.isDeclared(to))
	})
}

func (f *files) isDeclared(name string) bool {
	if f.declared[name] {
		return true
	}
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if f.declaredFolders[dir] {
			return true
		}
	}
	return false
}

// trivia lists the changes of which none is work by itself, with the reason for each.
func (f *files) trivia() string {
	names := f.changes.names()
	var some []string
	for _, name := range names[:min(len(names), maxNames)] {
		some = append(some, fmt.Sprintf("%s (%s)", show(name), f.changes.Trivial[name]))
	}
	if more := len(names) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(some, ", ")
}

// summary lists the changes in a line.
func (f *files) summary() string {
	names := f.changes.names()
	var some []string
	for _, name := range names[:min(len(names), maxNames)] {
		some = append(some, fmt.Sprintf("%s was %s", show(name), f.kinds[name]))
	}
	if more := len(names) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(some, ", ")
}

// inScope reports whether the scope covers a name.
func (f *files) inScope(scope []string, name string) bool {
	return covers(scope, f.changes.Top, f.changes.Folder, name)
}
