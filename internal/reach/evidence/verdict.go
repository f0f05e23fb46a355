package evidence

import "github.com/parley-agents/parley/report"

// A Ruling is the verdict in one word.
type Ruling string

// The rulings.
const (
	Confirmed    Ruling = "confirmed"    // everything claimed was checked and is so
	Contradicted Ruling = "contradicted" // something claimed is not so
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
	NoEdits       Kind = "no_edits"              // files were named, and nothing at all has changed
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

// A Finding is one thing that was found about a claim.
type Finding struct {
	Kind  Kind   `json:"kind"`
	Claim string `json:"claim"` // what the report says
	Found string `json:"found"` // what is so
}

// A Verdict says whether a report is true.
type Verdict struct {
	Ruling         Ruling    `json:"verdict"`
	Contradictions []Finding `json:"contradictions"`
	Unverified     []Finding `json:"unverified"` // what could not be checked
	Notes          []Finding `json:"notes"`      // what does not speak against the report
}

// JudgeOptions changes what counts. The zero value works.
type JudgeOptions struct {
	// CountsAreNotes lets a report with a test count that nothing proves be
	// confirmed.
	CountsAreNotes bool
}

// Judge compares a report with what was found. changes is nil if the files
// could not be compared; verify and build are nil if there was no such
// command. scope holds beginnings of paths, or patterns, relative to the folder
// of the work; if it is empty, everything is in it. opts may be nil.
func Judge(rep report.Report, changes *Changes, verify, build *Outcome, scope []string, opts *JudgeOptions) Verdict {
	return Verdict{Ruling: Unverified}
}
