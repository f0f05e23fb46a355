package evidence

import (
	"fmt"
	"maps"
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
	tests := "TESTS:" + string(rep.Tests)
	j.command(proofOfTests, tests, rep.Tests.State(), verify)
	j.count(tests, verify)
	j.command(proofOfBuild, "BUILD:"+string(rep.Build), rep.Build, build)
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

// A proof is a command that shows whether a claim about the tests or the build
// holds.
type proof struct {
	what   string // the command, in a sentence
	notRun Kind   // there is none, or it did not end
	passed Kind   // it passes, and the claim is that it fails
	failed Kind   // it fails, and the claim is that it passes
	undone Kind   // it fails, nothing is claimed, and yet the work is said to be done
}

var (
	proofOfTests = proof{"VERIFY", TestsNotRun, TestsPassed, TestsFailed, VerifyFailed}
	proofOfBuild = proof{"the build", BuildNotRun, BuildPassed, BuildFailed, BuildFailed}
)

// command judges a claim by how a command ended, which is nil if there is none.
func (j *judge) command(p proof, claim string, state report.State, o *Outcome) {
	claimed := state == report.Pass || state == report.Fail
	if !claimed {
		claim = j.status()
	}
	switch {
	case o == nil && claimed:
		j.find(p.notRun, claim, "%s is not run: there is no command for it", p.what)
	case o == nil:
	case !o.Finished() && (claimed || j.done):
		j.find(p.notRun, claim, "%s", ending(p.what, *o))
	case !o.Finished():
	case o.Passed() && state == report.Fail:
		j.find(p.passed, claim, "%s", ending(p.what, *o))
	case !o.Passed() && state == report.Pass:
		j.find(p.failed, claim, "%s", ending(p.what, *o))
	case !o.Passed() && j.done:
		j.find(p.undone, j.status(), "%s", ending(p.what, *o))
	}
}

// count judges how many tests the report says there are, if VERIFY ended as it
// says.
func (j *judge) count(claim string, verify *Outcome) {
	state := j.rep.Tests.State()
	n, ok := j.rep.Tests.Count()
	if !ok || verify == nil || !verify.Finished() {
		return
	}
	asClaimed := verify.Passed() && state == report.Pass || !verify.Passed() && state == report.Fail
	if !asClaimed || countShown(*verify, state, n) {
		return
	}
	j.find(CountUnproven, claim, "the output of VERIFY does not show the number %d", n)
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
