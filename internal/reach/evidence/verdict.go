package evidence

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parley-agents/parley/report"
)

// A Ruling is a verdict in one word.
type Ruling string

// The rulings.
const (
	Confirmed    Ruling = "confirmed"    // everything claimed was checked and is so
	Contradicted Ruling = "contradicted" // something is not as claimed
	Unverified   Ruling = "unverified"   // nothing is refuted, but something could not be checked
)

// A Kind says what was found about a claim.
type Kind string

// The kinds.
const (
	FileMissing   Kind = "file_missing"          // named, and not there
	FileUnchanged Kind = "file_unchanged"        // named, and as it was before
	NotCreated    Kind = "not_created"           // said to be created, and was there before
	NotModified   Kind = "not_modified"          // said to be modified, and is new
	Undeclared    Kind = "undeclared"            // changed, and not named
	OutsideScope  Kind = "outside_scope"         // changed or named, and not in the scope
	PathEscape    Kind = "path_escape"           // named, and not in the working tree
	NoEdits       Kind = "no_edits"              // files are named, and nothing at all has changed
	Edits         Kind = "edits_with_no_changes" // no_changes, and yet files changed
	VerifyFailed  Kind = "verify_failed"         // done, and yet VERIFY failed
	TestsFailed   Kind = "tests_failed"          // TESTS:pass, and VERIFY failed
	TestsPassed   Kind = "tests_passed"          // TESTS:fail, and VERIFY passed
	TestsNotRun   Kind = "tests_not_run"         // nothing shows how the tests end
	CountUnproven Kind = "count_unproven"        // nothing shows how many tests there are
	BuildFailed   Kind = "build_failed"          // BUILD:pass, and the build failed
	BuildPassed   Kind = "build_passed"          // BUILD:fail, and the build passed
	BuildNotRun   Kind = "build_not_run"         // nothing shows how the build ends
	FilesUnproven Kind = "files_unproven"        // the files could not be compared
	FolderNamed   Kind = "folder_named"          // a folder stands for the files in it
	AbsolutePath  Kind = "absolute_path"         // named by an absolute path in the working tree
	NothingDone   Kind = "nothing_done"          // ok, no file named, nothing changed
)

// A weight is what a finding does to the verdict.
type weight int

const (
	note weight = iota
	open        // something could not be checked
	against
)

// weights says what each kind does to the verdict: in a report that says that
// the work is done (ok, no_changes), and in any other. Who failed halfway may
// leave things behind that are not listed, but must not list what is not so.
var weights = map[Kind]struct{ done, undone weight }{
	FileMissing:   {against, against},
	FileUnchanged: {against, against},
	NotCreated:    {against, against},
	NotModified:   {note, note}, // both words say that the file was written
	Undeclared:    {against, note},
	OutsideScope:  {against, against},
	PathEscape:    {against, against},
	NoEdits:       {against, against},
	Edits:         {against, against},
	VerifyFailed:  {against, note},
	TestsFailed:   {against, against},
	TestsPassed:   {open, open}, // VERIFY may leave out the test that failed
	TestsNotRun:   {open, open},
	CountUnproven: {open, open},
	BuildFailed:   {against, against},
	BuildPassed:   {open, open},
	BuildNotRun:   {open, open},
	FilesUnproven: {open, open},
	FolderNamed:   {note, note},
	AbsolutePath:  {note, note},
	NothingDone:   {note, note},
}

// A Finding is one thing that was found about a claim.
type Finding struct {
	Kind  Kind   `json:"kind"`
	Claim string `json:"claim"` // what the report says
	Found string `json:"found"` // what is so
}

// A Verdict says whether a report is true. It is about the claims alone: a
// report of a failure that is true is confirmed.
type Verdict struct {
	Ruling         Ruling    `json:"verdict"`
	Contradictions []Finding `json:"contradictions"`
	Unverified     []Finding `json:"unverified"` // what could not be checked
	Notes          []Finding `json:"notes"`      // what does not speak against the report
}

// JudgeOptions changes what counts. The zero value works.
type JudgeOptions struct {
	// CountsAreNotes lets a report be confirmed although nothing shows that
	// its number of tests is right.
	CountsAreNotes bool
}

// maxFindings is how many findings of one kind are listed.
const maxFindings = 50

// Judge compares a report with what was found. It looks at nothing but its
// arguments. changes is nil if the files could not be compared; verify and build
// are nil if there was no such command. opts may be nil.
//
//	verdict       contradictions  could not be checked
//	contradicted  some            any
//	unverified    none            some
//	confirmed     none            none
//
//	claim                    so if
//	FILES_CREATED            the file was not there before and is now
//	FILES_MODIFIED           it is not as it was: changed, new or deleted
//	FILES_DELETED            (an extra field) it was there before and is not now
//	STATUS:no_changes        no file changed; VERIFY and BUILD, if run, pass
//	STATUS:ok                every file that changed is named; VERIFY and BUILD, if run, pass
//	TESTS:pass, TESTS:fail   VERIFY passes, fails
//	TESTS:pass:12            the output of VERIFY shows that number, too
//	BUILD:pass, BUILD:fail   the build command passes, fails
//
// A file that git ignores need not be named; if it is, it must have been written
// since the base was taken. A folder that is named stands for the files in it,
// and a file that was moved as it is is named by its new name.
//
// scope holds paths relative to the folder of the work. Each covers itself and
// what is below it; "*", "?" and "[a-z]" match within a name, and "**" matches
// any number of folders. If scope is empty, it covers everything.
func Judge(rep report.Report, changes *Changes, verify, build *Outcome, scope []string, opts *JudgeOptions) Verdict {
	j := &judge{
		rep:     rep,
		done:    rep.Status == report.StatusOK || rep.Status == report.StatusNoChanges,
		listed:  map[Kind]int{},
		verdict: Verdict{Ruling: Confirmed, Contradictions: []Finding{}, Unverified: []Finding{}, Notes: []Finding{}},
	}
	if opts != nil {
		j.opts = *opts
	}
	if changes == nil {
		j.find(FilesUnproven, j.status(), "the files could not be compared")
	} else {
		j.files(*changes, scope)
	}
	j.tests(verify)
	j.build(build)
	return j.close()
}

// A judge is a verdict in the making.
type judge struct {
	rep     report.Report
	done    bool // the report says that nothing is left to do
	opts    JudgeOptions
	listed  map[Kind]int
	verdict Verdict
}

// find adds a finding.
func (j *judge) find(kind Kind, claim, format string, args ...any) {
	if j.listed[kind]++; j.listed[kind] <= maxFindings {
		j.put(Finding{kind, clip(claim), fmt.Sprintf(format, args...)})
	}
}

func (j *judge) put(f Finding) {
	v := &j.verdict
	w := weights[f.Kind].undone
	if j.done {
		w = weights[f.Kind].done
	}
	if f.Kind == CountUnproven && j.opts.CountsAreNotes {
		w = note
	}
	switch w {
	case against:
		v.Contradictions = append(v.Contradictions, f)
	case open:
		v.Unverified = append(v.Unverified, f)
	default:
		v.Notes = append(v.Notes, f)
	}
}

// close returns the verdict.
func (j *judge) close() Verdict {
	for _, kind := range slices.Sorted(maps.Keys(weights)) {
		if more := j.listed[kind] - maxFindings; more > 0 {
			j.put(Finding{kind, j.status(), fmt.Sprintf("and %d more like this", more)})
		}
	}
	switch v := &j.verdict; {
	case len(v.Contradictions) > 0:
		v.Ruling = Contradicted
	case len(v.Unverified) > 0:
		v.Ruling = Unverified
	}
	return j.verdict
}

func (j *judge) status() string { return "STATUS:" + string(j.rep.Status) }

// clip cuts what came from outside to a length that fits in a list.
func clip(s string) string {
	const most = 300
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// tests judges what the report says about the tests.
func (j *judge) tests(verify *Outcome) {
	state, claim := j.rep.Tests.State(), "TESTS:"+string(j.rep.Tests)
	claimed := state == report.Pass || state == report.Fail
	if !claimed {
		claim = j.status()
	}
	switch {
	case verify == nil && claimed:
		j.find(TestsNotRun, claim, "there is no VERIFY command to show it")
	case verify == nil:
	case !verify.Finished():
		if claimed || j.done {
			j.find(TestsNotRun, claim, "%s", ending("VERIFY", *verify))
		}
	case verify.Passed() && state == report.Fail:
		j.find(TestsPassed, claim, "%s", ending("VERIFY", *verify))
	case !verify.Passed() && state == report.Pass:
		j.find(TestsFailed, claim, "%s", ending("VERIFY", *verify))
	case !verify.Passed() && j.done:
		j.find(VerifyFailed, j.status(), "%s", ending("VERIFY", *verify))
	case claimed:
		if n, ok := j.rep.Tests.Count(); ok && !countShown(*verify, state, n) {
			j.find(CountUnproven, claim, "the output of VERIFY does not show the number %d", n)
		}
	}
}

// build judges what the report says about the build.
func (j *judge) build(build *Outcome) {
	state, claim := j.rep.Build, "BUILD:"+string(j.rep.Build)
	claimed := state == report.Pass || state == report.Fail
	if !claimed {
		claim = j.status()
	}
	switch {
	case build == nil && claimed:
		j.find(BuildNotRun, claim, "there is no build command to show it")
	case build == nil:
	case !build.Finished():
		if claimed || j.done {
			j.find(BuildNotRun, claim, "%s", ending("the build", *build))
		}
	case build.Passed() && state == report.Fail:
		j.find(BuildPassed, claim, "%s", ending("the build", *build))
	case !build.Passed() && (state == report.Pass || j.done):
		j.find(BuildFailed, claim, "%s", ending("the build", *build))
	}
}

// ending says in words how a command ended.
func ending(what string, o Outcome) string {
	switch {
	case o.Failure != "":
		return what + " could not be run: " + clip(o.Failure)
	case o.TimedOut:
		return what + " was given up because it took too long"
	case o.Cancelled:
		return what + " was cancelled"
	case o.ExitCode == 0:
		return what + " passes"
	case o.ExitCode < 0:
		return what + " was ended by a signal"
	}
	return fmt.Sprintf("%s fails with exit code %d", what, o.ExitCode)
}

// A fate is what became of a file.
type fate string

const (
	created  fate = "created"
	modified fate = "modified"
	deleted  fate = "deleted"
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

// files judges what the report says about the files.
func (j *judge) files(c Changes, scope []string) {
	f := newFiles(c)
	claims := fileClaims(j.rep)
	held := 0
	for _, claim := range claims {
		s, ok := c.sight(claim.path)
		switch {
		case !ok:
			j.find(FilesUnproven, claim.String(), "it was not looked at")
			continue
		case s.Name == "":
			j.find(PathEscape, claim.String(), "it is not in the working tree")
			continue
		case path.IsAbs(claim.path):
			j.find(AbsolutePath, claim.String(), "%s in the working tree", show(s.Name))
		}
		if !f.inScope(scope, s.Name) {
			j.find(OutsideScope, claim.String(), "%s is not in the scope", show(s.Name))
			f.outside[s.Name] = true
		}
		if j.file(claim, s, f) {
			held++
		}
	}
	for _, name := range c.names() {
		if !f.inScope(scope, name) && !f.outside[name] {
			j.find(OutsideScope, j.status(), "%s was %s and is not in the scope", show(name), f.fates[name])
		}
	}
	switch {
	case j.rep.Status == report.StatusNoChanges && !c.Empty():
		j.find(Edits, j.status(), "%s", f.summary())
	default:
		for _, name := range f.undeclared() {
			j.find(Undeclared, j.status(), "%s was %s, and is not named", show(name), f.fates[name])
		}
	}
	switch {
	case len(claims) > 0 && held == 0 && c.Empty():
		j.find(NoEdits, j.status(), "%d files are named, and nothing has changed", len(claims))
	case len(claims) == 0 && c.Empty() && j.rep.Status == report.StatusOK:
		j.find(NothingDone, j.status(), "no file is named, and none has changed")
	}
}

// file judges one file that is named, and reports whether the claim holds.
func (j *judge) file(claim fileClaim, s Sight, f *files) bool {
	f.declared[s.Name] = true
	is := f.fates[s.Name]
	switch {
	case is == "" && s.Folder && s.Name != "." && f.below(s.Name):
		f.declaredFolders[s.Name] = true
		j.find(FolderNamed, claim.String(), "it is a folder in which files changed")
		return true
	case claim.field == fieldDeleted && is != deleted && (s.Exists || is != ""):
		j.find(FileUnchanged, claim.String(), "it is still there")
	case claim.field == fieldDeleted && is == deleted, is == created && claim.field == fieldCreated, is == modified && claim.field == fieldModified:
		return true
	case is == created:
		j.find(NotModified, claim.String(), "it is new")
		return true
	case is == modified:
		j.find(NotCreated, claim.String(), "it was there before, and was modified")
	case is == deleted && claim.field == fieldModified:
		return true
	case is == deleted:
		j.find(FileMissing, claim.String(), "it was deleted")
	case s.Name == ".":
		j.find(FileMissing, claim.String(), "it is the whole working tree, and no file")
	case !s.Exists:
		j.find(FileMissing, claim.String(), "there is no such file")
	case s.Ignored && s.Touched && s.Folder:
		j.find(FilesUnproven, claim.String(), "it is a folder, and what changed in it is not known")
		return true
	case s.Ignored && s.Touched:
		return true
	default:
		j.find(FileUnchanged, claim.String(), "it is as it was before")
	}
	return false
}

// sight returns what lies at a path, and whether it was looked at.
func (c Changes) sight(written string) (Sight, bool) {
	if s, ok := c.Named[written]; ok {
		return s, true
	}
	name := path.Join(c.Folder, written)
	switch {
	case path.IsAbs(written) || name == ".." || strings.HasPrefix(name, "../"):
		return Sight{}, true
	case slices.Contains(c.Created, name) || slices.Contains(c.Modified, name):
		return Sight{Name: name, Exists: true}, true
	case slices.Contains(c.Deleted, name):
		return Sight{Name: name}, true
	}
	return Sight{}, false
}

// files is what changed, by name, and what of it a report names.
type files struct {
	changes         Changes
	fates           map[string]fate
	folders         map[string]bool // in which something changed
	declared        map[string]bool
	declaredFolders map[string]bool
	outside         map[string]bool // named, and found to be outside the scope
}

func newFiles(c Changes) *files {
	f := &files{
		changes: c, fates: map[string]fate{}, folders: map[string]bool{".": true},
		declared: map[string]bool{}, declaredFolders: map[string]bool{}, outside: map[string]bool{},
	}
	for is, names := range map[fate][]string{created: c.Created, modified: c.Modified, deleted: c.Deleted} {
		for _, name := range names {
			f.fates[name] = is
			hold(f.folders, name)
		}
	}
	for _, name := range c.Submodules {
		if f.fates[name] == "" && !f.folders[name] {
			f.fates[name] = modified
		}
	}
	return f
}

// below reports whether something changed in a folder.
func (f *files) below(folder string) bool { return f.folders[folder] }

// undeclared returns what changed and is not named.
func (f *files) undeclared() []string {
	return slices.DeleteFunc(f.changes.names(), func(name string) bool {
		to, moved := f.changes.Moved[name]
		return f.isDeclared(name) || moved && f.isDeclared(to)
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

// summary says in a line what changed.
func (f *files) summary() string {
	names := f.changes.names()
	var some []string
	for _, name := range names[:min(len(names), maxNames)] {
		some = append(some, fmt.Sprintf("%s was %s", show(name), f.fates[name]))
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
