package evidence

import (
	"fmt"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/protocol/report"
)

// The kinds of findings.
const (
	FileMissing   = "file_missing"          // named, and not there
	FileUnchanged = "file_unchanged"        // named, and as it was before
	NotCreated    = "not_created"           // said to be created, and was there before
	NotModified   = "not_modified"          // said to be modified, and is new
	Undeclared    = "undeclared"            // changed, and not named
	OutsideScope  = "outside_scope"         // changed or named, and not in the scope
	PathEscape    = "path_escape"           // named, and not in the working tree
	NoEdits       = "no_edits"              // files are named, and nothing at all has changed
	Edits         = "edits_with_no_changes" // no_changes, and yet files changed
	VerifyFailed  = "verify_failed"         // done, and yet VERIFY failed
	TestsFailed   = "tests_failed"          // TESTS:pass, and VERIFY failed
	TestsPassed   = "tests_passed"          // TESTS:fail, and VERIFY passed
	TestsNotRun   = "tests_not_run"         // nothing shows how the tests end
	CountUnproven = "count_unproven"        // nothing shows how many tests there are
	BuildFailed   = "build_failed"          // BUILD:pass, and the build failed
	BuildPassed   = "build_passed"          // BUILD:fail, and the build passed
	BuildNotRun   = "build_not_run"         // nothing shows how the build ends
	FilesUnproven = "files_unproven"        // the files could not be compared
	FolderNamed   = "folder_named"          // a folder stands for the files in it
	AbsolutePath  = "absolute_path"         // named by an absolute path in the working tree
	NothingDone   = "nothing_done"          // ok, no file named, nothing changed
	PolicyBreach  = "policy_breach"         // files changed that the agent may not change; about the agent, not the report

	TrivialChange = "trivial_change" // only whitespace, line ends, modes or empty files changed
	GitChanged    = "git_changed"    // the settings or hooks of the repository changed

	// Facts that say how far VERIFY and BUILD prove something.
	CheckChanged    = "check_changed"     // a file that the command runs was changed or deleted
	CheckAdded      = "check_added"       // a file that the command runs is new
	TestChanged     = "test_changed"      // a test from before was changed or deleted
	TestMoved       = "test_moved"        // a test from before has another name
	TestAdded       = "test_added"        // a test is new
	ChangedByVerify = "changed_by_verify" // a file was changed or deleted while VERIFY ran
	ChangedByBuild  = "changed_by_build"  // likewise, BUILD
	Rewritten       = "rewritten"         // files were written while a command ran, and are as they were
	ProcessesLeft   = "processes_left"    // processes of the work go on
)

// A weight is the effect of a finding on the verdict.
type weight int

const (
	note weight = iota
	open        // something could not be checked
	against
)

// weights is the weight of each kind: in a report that says that the work is done
// (ok, no_changes), and in any other. A report of a failure may leave changes
// unlisted, but must not list false ones.
var weights = map[string]struct{ done, undone weight }{
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
	NothingDone:   {open, note}, // nothing to do is reported as no_changes

	TrivialChange: {note, note},
	GitChanged:    {note, note},

	CheckChanged:    {open, note},
	CheckAdded:      {note, note},
	TestChanged:     {open, note},
	TestMoved:       {note, note},
	TestAdded:       {note, note},
	ChangedByVerify: {open, note},
	ChangedByBuild:  {note, note},
	Rewritten:       {note, note},
	ProcessesLeft:   {open, open},
}

// allowed are the kinds that AllowTestChanges makes notes.
var allowed = []string{CheckChanged, TestChanged}

// A Finding is a fact about a claim.
type Finding struct {
	Kind  string `json:"kind"`
	Claim string `json:"claim"` // as the report states it
	Found string `json:"found"` // the fact
}

// A Judgment says whether a report is true. It is about the claims alone: a true
// report of a failure is confirmed.
type Judgment struct {
	Verdict        hub.RunVerdict
	Contradictions []Finding
	Unverified     []Finding // claims that could not be checked
	Notes          []Finding // findings that do not contradict the report
}

// newJudgment returns a judgment without findings.
func newJudgment(v hub.RunVerdict) Judgment {
	return Judgment{Verdict: v, Contradictions: []Finding{}, Unverified: []Finding{}, Notes: []Finding{}}
}

// maxFindings is the number of findings of one kind that are listed.
const maxFindings = 50

// Judge compares a report with the facts. It depends on nothing but its arguments.
//
//	verdict       contradictions  could not be checked
//	contradicted  some            any
//	unverified    none            some
//	confirmed     none            none
//
//	claim                    holds if
//	FILES_CREATED            the file did not exist before and exists now
//	FILES_MODIFIED           the file changed, is new or was deleted
//	FILES_DELETED            (an extra field) the file existed before and does not now
//	STATUS:no_changes        no file changed; VERIFY and BUILD, if run, pass
//	STATUS:ok                every file that changed is named, and there is one; VERIFY and BUILD, if run, pass
//	TESTS:pass, TESTS:fail   VERIFY passes, fails
//	TESTS:pass:12            the output of VERIFY shows that number, too
//	BUILD:pass, BUILD:fail   the build command passes, fails
//
// A file that git ignores need not be named; if it is, it must have been written
// since the base was taken. A folder that is named stands for the files in it,
// and a file that was moved as it is is named by its new name.
//
// VERIFY and BUILD prove nothing that the work itself decided: if it changed a file that
// they run or a test that was there before, or if a file changed while VERIFY ran, the
// claim is open.
//
// scope holds paths relative to the folder of the work. Each covers itself and
// everything below it; "*", "?" and "[a-z]" match within a name, and "**" matches
// any number of folders. If scope is empty, it covers everything.
func Judge(rep report.Report, facts Facts, scope []string) Judgment {
	j := &judge{
		rep:      rep,
		allow:    facts.AllowTestChanges,
		done:     rep.Status == report.StatusOK || rep.Status == report.StatusNoChanges,
		listed:   map[string]int{},
		judgment: newJudgment(hub.RunConfirmed),
	}
	if facts.Changes == nil {
		j.find(FilesUnproven, j.status(), "the files could not be compared")
	} else {
		j.files(*facts.Changes, scope)
	}

	tests, built := "TESTS:"+string(rep.Tests), "BUILD:"+string(rep.Build)
	j.command(proofOfTests, tests, rep.Tests.State(), facts.Verify)
	j.count(tests, facts.Verify)
	j.command(proofOfBuild, built, rep.Build, facts.Build)

	// A doubt about a command concerns the claim that the command was to prove.
	for _, f := range facts.Commands {
		claim := j.status()
		switch {
		case f.Field == fieldVerify && rep.Tests != "":
			claim = tests
		case f.Field == fieldBuild && rep.Build != "":
			claim = built
		}
		j.find(f.Kind, claim, "%s", f.Found)
	}
	return j.close()
}

// A judge collects the findings about a report.
type judge struct {
	rep      report.Report
	done     bool // the report says that the work is done
	allow    bool // tests and scripts may change
	listed   map[string]int
	judgment Judgment
}

// find adds a finding.
func (j *judge) find(kind, claim, format string, args ...any) {
	if j.listed[kind]++; j.listed[kind] <= maxFindings {
		j.put(Finding{kind, shorten.Text(claim, maxClaim), fmt.Sprintf(format, args...)})
	}
}

func (j *judge) put(f Finding) {
	v := &j.judgment
	w := weights[f.Kind].undone
	if j.done {
		w = weights[f.Kind].done
	}
	if j.allow && slices.Contains(allowed, f.Kind) {
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

// close returns the judgment.
func (j *judge) close() Judgment {
	for _, kind := range slices.Sorted(maps.Keys(weights)) {
		if more := j.listed[kind] - maxFindings; more > 0 {
			j.put(Finding{kind, j.status(), fmt.Sprintf("and %d more like this", more)})
		}
	}
	switch v := &j.judgment; {
	case len(v.Contradictions) > 0:
		v.Verdict = hub.RunContradicted
	case len(v.Unverified) > 0:
		v.Verdict = hub.RunUnverified
	}
	return j.judgment
}

func (j *judge) status() string { return "STATUS:" + string(j.rep.Status) }

// maxClaim is the number of bytes of a claim or a failure that a finding shows.
const maxClaim = 300

// A proof is a command that shows whether a claim about the tests or the build
// holds, with the kind of finding for each outcome.
type proof struct {
	what   string // the command, in a sentence
	notRun string // there is none, or it did not end
	passed string // it passes, and the claim is that it fails
	failed string // it fails, and the claim is that it passes
	undone string // it fails, nothing is claimed, and yet the work is said to be done
}

var (
	proofOfTests = proof{"VERIFY", TestsNotRun, TestsPassed, TestsFailed, VerifyFailed}
	proofOfBuild = proof{"the build", BuildNotRun, BuildPassed, BuildFailed, BuildFailed}
)

// command judges a claim by the outcome of a command, nil if there is none.
func (j *judge) command(p proof, claim string, state report.State, o *Outcome) {
	claimed := state == report.Pass || state == report.Fail
	if !claimed {
		claim = j.status()
	}
	switch {
	case o == nil && claimed:
		j.find(p.notRun, claim, "%s was not run: it has no command", p.what)
	case o == nil:
	case !o.Finished() && (claimed || j.done):
		j.find(p.notRun, claim, "%s", p.what+" "+o.String())
	case !o.Finished():
	case o.Passed() && state == report.Fail:
		j.find(p.passed, claim, "%s", p.what+" "+o.String())
	case !o.Passed() && state == report.Pass:
		j.find(p.failed, claim, "%s", p.what+" "+o.String())
	case !o.Passed() && j.done:
		j.find(p.undone, j.status(), "%s", p.what+" "+o.String())
	}
}

// count judges the number of tests in the report, if VERIFY ended as the report
// says.
func (j *judge) count(claim string, verify *Outcome) {
	state := j.rep.Tests.State()
	n, ok := j.rep.Tests.Count()
	if !ok || verify == nil || !verify.Finished() {
		return
	}
	asClaimed := (verify.Passed() && state == report.Pass) || (!verify.Passed() && state == report.Fail)
	if !asClaimed || countShown(*verify, state, n) {
		return
	}
	j.find(CountUnproven, claim, "the output of VERIFY does not show the number %d", n)
}
