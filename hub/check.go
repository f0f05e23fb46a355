package hub

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/digest"
)

// MaxChecks is the most checks of one repository.
const MaxChecks = 64

// A Repository is a git repository on one machine.
type Repository struct {
	Machine string `json:"machine,omitempty"` // of the hub that can read it
	Path    string `json:"repository"`        // see RepositoryPath
}

// RepositoryPath returns the name of the repository with a git folder, which linked working
// trees share: the folder beside .git, or the git folder itself if it has another name.
func RepositoryPath(gitFolder string) string {
	for _, end := range []string{"/.git", `\.git`} {
		if top, ok := strings.CutSuffix(gitFolder, end); ok && top != "" {
			return top
		}
	}
	return gitFolder
}

// A RepositoryCheck is a command that the operator allowed for one repository. The hub runs it
// on commits, and never takes a command from anywhere else.
type RepositoryCheck struct {
	Repository
	Name     string            `json:"name"`
	Command  []string          `json:"command"` // the program and its arguments
	Setup    []string          `json:"setup,omitempty"`
	SetupKey []string          `json:"setup_key,omitempty"` // files on which the result of Setup depends
	Keep     []string          `json:"keep,omitempty"`      // folders of the worktree that later runs get a copy of
	Env      map[string]string `json:"env,omitempty"`
	Writable []string          `json:"writable,omitempty"` // absolute paths of folders that it may write to
	Timeout  Duration          `json:"timeout,omitzero"`
	Network  *bool             `json:"network,omitempty"` // false: without the network, where the system can do it
	JUnit    string            `json:"junit,omitempty"`   // the file that the command writes its results to

	Required   bool     `json:"required"`             // for every completion
	When       []string `json:"when"`                 // pathspecs of git: it runs if the change touches one; always without any
	Unconfined bool     `json:"unconfined,omitempty"` // it may run where the system cannot confine it
	InPlace    bool     `json:"in_place,omitempty"`   // it runs in the agent's own working tree, and never counts for landing

	Digest  string  `json:"digest"`            // see RunDigest
	Trusted bool    `json:"trusted,omitempty"` // it came from the checks in the repository's own file
	AddedBy AgentID `json:"added_by,omitempty"`
	AddedAt Time    `json:"added_at,omitzero"`
}

// RunDigest returns the SHA-256, in hexadecimal, of everything in c that the outcome of a run
// depends on. Two checks with the same digest give the same result on the same tree.
func (c RepositoryCheck) RunDigest() string {
	d := digest.New("check")
	for _, list := range [][]string{c.Command, c.Setup, c.SetupKey, c.Keep, c.Writable} {
		d.Put(strconv.Itoa(len(list)))
		d.Put(list...)
	}
	d.JSON(c.Env) // its names are sorted
	network := c.Network == nil || *c.Network
	d.Put(c.Timeout.String(), strconv.FormatBool(network), c.JUnit)
	d.Put(strconv.FormatBool(c.Unconfined), strconv.FormatBool(c.InPlace))
	return d.Hex()
}

// WholeDigest returns the SHA-256, in hexadecimal, of everything in c.
func (c RepositoryCheck) WholeDigest() string { return wholeDigest("repository check", c) }

// CommandText returns the command in one line, for people.
func (c RepositoryCheck) CommandText() string { return CommandText(c.Command) }

// CommandText returns a command in one line, for people: the line of sh -c as it is, else its words.
func CommandText(command []string) string {
	if len(command) == 3 && command[0] == "sh" && command[1] == "-c" {
		return command[2]
	}
	return strings.Join(command, " ")
}

// A Duration is a length of time that is stored and sent as text, such as 10m.
type Duration time.Duration

// String returns d without units that are zero.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if minutes, ok := strings.CutSuffix(text, "m0s"); ok {
		text = minutes + "m"
	}
	if hours, ok := strings.CutSuffix(text, "h0m"); ok {
		text = hours + "h"
	}
	return text
}

// Duration returns d as package time has it.
func (d Duration) Duration() time.Duration { return time.Duration(d) }

// MarshalText writes d as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a text such as 90s or 10m.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// A CheckPolicy is what the operator decided about the checks of one repository as a whole.
type CheckPolicy struct {
	Repository
	Trusted   string  `json:"trusted,omitempty"` // digest of the trusted checks in the repository's own file; empty if none are
	Commit    string  `json:"commit,omitempty"`  // from which they were read
	TrustedBy AgentID `json:"trusted_by,omitempty"`
	TrustedAt Time    `json:"trusted_at,omitzero"`
	Require   bool    `json:"require_checks,omitempty"` // a completion needs passed checks
}

// A CheckState says how far the run of a check has come.
type CheckState string

// The states of a result.
const (
	ResultQueued     CheckState = "queued"
	ResultRunning    CheckState = "running"
	ResultPassed     CheckState = "passed"
	ResultFailed     CheckState = "failed"
	ResultTimedOut   CheckState = "timed_out"
	ResultNotStarted CheckState = "not_started" // the setup failed, or the command could not be started
	ResultCancelled  CheckState = "cancelled"

	ResultInterrupted CheckState = "interrupted" // the hub was killed during the run
)

// checkNext is the whole state machine. A state without an entry is final. A run that a hub cancels
// because it stops is queued again.
var checkNext = map[CheckState][]CheckState{
	ResultQueued:  {ResultRunning, ResultNotStarted, ResultCancelled},
	ResultRunning: {ResultQueued, ResultPassed, ResultFailed, ResultTimedOut, ResultNotStarted, ResultCancelled, ResultInterrupted},
}

// Over reports whether s is final.
func (s CheckState) Over() bool { return len(checkNext[s]) == 0 }

// Decided reports whether s tells something about the commit: it passed or it failed.
func (s CheckState) Decided() bool { return s == ResultPassed || s == ResultFailed }

// A CheckResultID names a result: c and its number, such as c12.
type CheckResultID string

// NewCheckResultID returns the id of the result with a number.
func NewCheckResultID(n int64) CheckResultID {
	return CheckResultID("c" + strconv.FormatInt(n, 10))
}

// Number returns the number in an id, or 0 for a text that is no such id.
func (id CheckResultID) Number() int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(string(id), "c"), 10, 64)
	if n <= 0 || NewCheckResultID(n) != id {
		return 0
	}
	return n
}

// A TestCount has the numbers of a JUnit report.
type TestCount struct {
	Total   int `json:"total"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Passed returns the number of tests that ran and did not fail.
func (t TestCount) Passed() int { return t.Total - t.Failed - t.Skipped }

// Fewer returns a text such as "tests: 41 before, 12 now" if fewer tests passed than before; "" if not.
func (t TestCount) Fewer(before TestCount) string {
	switch {
	case t.Passed() >= before.Passed():
		return ""
	case t.Total < before.Total:
		return fmt.Sprintf("tests: %d before, %d now", before.Total, t.Total)
	}
	return fmt.Sprintf("tests that passed: %d before, %d now", before.Passed(), t.Passed())
}

// A CheckOutput is the output of a run.
type CheckOutput struct {
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256,omitempty"`
	Tail     string `json:"tail"`               // its end; of a stored result only where it is asked for
	Artifact string `json:"artifact,omitempty"` // SHA-256 of the artifact with the output; empty if it was removed or there is none
}

// A ContractRef names a version of a contract that a run of a check tests.
type ContractRef struct {
	Project  coord.ProjectID  `json:"project_id"`
	Contract coord.ContractID `json:"contract_id"`
	Name     string           `json:"name"`
	Version  int              `json:"version"`
	Content  string           `json:"content_sha256"` // see coord.ContentHash
}

// SameContract reports whether two runs test the same version of a contract, or none.
func SameContract(a, b *ContractRef) bool {
	return a == b || (a != nil && b != nil && *a == *b)
}

// A CheckResult is one run of a check on a commit.
type CheckResult struct {
	ID CheckResultID `json:"id"`
	Repository
	Name     string       `json:"name"`
	Command  []string     `json:"command"`
	Digest   string       `json:"digest"` // of the check; see RunDigest
	Commit   string       `json:"commit"`
	Tree     string       `json:"tree"`
	State    CheckState   `json:"state"`
	ExitCode int          `json:"exit_code"`
	Millis   int64        `json:"duration_ms"`
	Kept     bool         `json:"kept"`             // it answers a later request; not stored
	Flaky    bool         `json:"flaky"`            // the same check failed and passed on the same tree; not stored
	Confined bool         `json:"confined"`         // the system kept it from files that are not its own
	Level    int          `json:"level,omitempty"`  // of its confinement; see the table of security.md
	Not      []string     `json:"not,omitempty"`    // parts of the machine that the level does not cover
	InPlace  bool         `json:"in_place"`         // it ran in a working tree of an agent
	Before   string       `json:"before,omitempty"` // the files of that tree before the run, as a git tree
	After    string       `json:"after,omitempty"`
	Tests    *TestCount   `json:"tests,omitempty"`
	Output   CheckOutput  `json:"output"`
	Reason   string       `json:"reason,omitempty"`      // why it was not started or ended early
	Note     string       `json:"note,omitempty"`        // what a reviewer must know, such as "tests: 41 before, 12 now"
	Fewer    bool         `json:"fewer_tests,omitempty"` // it has fewer tests than the target branch had before the commit; Note has the counts
	Again    bool         `json:"again,omitempty"`       // it ran though there was a kept result
	Fills    bool         `json:"fills,omitempty"`       // the commit is one of the target branch, so that the run fills the caches
	By       AgentID      `json:"by,omitempty"`
	Contract *ContractRef `json:"contract,omitempty"`   // the version that it was told to test; nil for none
	Handoff  HandoffID    `json:"handoff_id,omitempty"` // whose completion asked for it
	Worktree string       `json:"worktree,omitempty"`   // the folder that it runs in, if InPlace
	Hub      string       `json:"hub,omitempty"`        // whose copy of the repository has the commit, where several hubs have one store; "" for any hub of the machine

	QueuedAt  Time `json:"queued_at,omitzero"`
	StartedAt Time `json:"started_at,omitzero"`
	EndedAt   Time `json:"ended_at,omitzero"`
}

// Advance returns r moved to next at the given time. It reports CodeConflict when the state
// machine has no such move, and then returns r unchanged.
func (r CheckResult) Advance(next CheckState, now Time) (CheckResult, error) {
	if !slices.Contains(checkNext[r.State], next) {
		return r, Errorf(CodeConflict, "hub.Advance", "result %s is %s and cannot become %s", r.ID, r.State, next)
	}
	r.State = next
	switch {
	case next == ResultQueued:
		r.StartedAt = Time{}
	case next == ResultRunning:
		r.StartedAt = now
	case next.Over():
		r.EndedAt = now
	}
	return r, nil
}

// RecordDigest returns the SHA-256, in hexadecimal, of everything in r that never changes after its
// end: all but the artifact of its output, which may be removed later, and what readers compute.
func (r CheckResult) RecordDigest() string { return wholeDigest("check result", r.Recorded()) }

// Recorded returns r with what never changes after its end, of which RecordDigest is the digest.
func (r CheckResult) Recorded() CheckResult {
	r.Kept = false
	r.Flaky = false
	r.Output.Tail = ""
	r.Output.Artifact = ""
	return r
}

// Confinement returns in words how the run was kept from the rest of the machine, as in "level 2; not:
// priorities"; "" for one that is not over or was interrupted.
func (r CheckResult) Confinement() string {
	isKnown := r.State.Over() && r.State != ResultInterrupted
	switch {
	case r.Level > 0 && len(r.Not) > 0:
		return fmt.Sprintf("level %d; not: %s", r.Level, strings.Join(r.Not, ", "))
	case r.Level > 0:
		return fmt.Sprintf("level %d", r.Level)
	case isKnown && !r.Confined:
		return "not confined"
	}
	return ""
}

// Failure returns in one line why r did not pass, "" if it did or is not over.
func (r CheckResult) Failure() string {
	name := "check " + r.Name
	switch r.State {
	case ResultFailed:
		if r.ExitCode == 0 && r.Reason != "" { // its command says that it passed
			return name + " failed: " + r.Reason
		}
		return name + " failed with exit code " + strconv.Itoa(r.ExitCode)
	case ResultTimedOut:
		return name + " did not end in time"
	case ResultNotStarted:
		return name + " was not started: " + r.Reason
	case ResultCancelled:
		return name + " was cancelled"
	case ResultInterrupted:
		return name + " was interrupted, because the hub was killed during the run; run it again: parley check run " + r.Name + " --again"
	}
	return ""
}

// A CheckPlan is a commit with the checks that are to run on it.
type CheckPlan struct {
	Repository
	Worktree string // the folder in which the commit was named
	Commit   string
	Tree     string
	Base     string            // the commit with which it was compared; may be empty
	Checks   []RepositoryCheck // by name
	Changes  []CommitChange    // from Base; nil without one
	Require  bool              // the operator wants passed checks for every completion in the repository
	Notes    []string          // what the caller must know, such as checks that are not trusted
	Judged   []JudgeFinding    // what the change does to the things that judge it; nil without a base
	Fills    bool              // the commit is one of the target branch
	Contract *ContractRef      // the version of a contract that the runs test; nil for none
}

// Names returns the names of the checks.
func (p CheckPlan) Names() (names []string) {
	for _, c := range p.Checks {
		names = append(names, c.Name)
	}
	return names
}

// A JudgeFinding is a file that judges a change and that the change itself touches: a file that a check
// runs, the proposal of checks, a key, or a test.
type JudgeFinding struct {
	File  string `json:"file"`
	Found string `json:"found"`          // in a sentence
	Word  bool   `json:"word,omitempty"` // a reviewer or the operator has to allow it before it lands
}

// A CommitChange is a file that differs between two commits.
type CommitChange struct {
	Path    string
	Trivial bool   // only whitespace, line ends or mode differ, or the file is empty
	Was, Is string // the names of its contents in git; empty where there is none
}

// A CheckResultQuery chooses results, newest first. Empty members do not restrict.
type CheckResultQuery struct {
	Repository Repository // of a path alone: on any machine
	Name       string
	Tree       string
	Digest     string // of the check
	Commit     string
	Handoff    HandoffID
	States     []CheckState
	Cursor     CheckResultID // the last one of the page before
	Limit      int           // how many at most; positive
}

// A CheckReader reads checks, their results, and how far tasks have come.
type CheckReader interface {
	// OfRepository returns the checks of a repository by name.
	OfRepository(Repository) ([]RepositoryCheck, error)
	// All returns the checks of all repositories, by machine, repository and name.
	All() ([]RepositoryCheck, error)
	// Policy returns the policy of a repository, the zero one if the operator made none.
	Policy(Repository) (CheckPolicy, error)
	Result(CheckResultID) (CheckResult, error)
	// Results returns those that match, without the ends of their outputs.
	Results(CheckResultQuery) ([]CheckResult, error)
	// Tail returns the end of the output of a result.
	Tail(CheckResultID) (string, error)
	// Progress returns how far the commit of a handoff or a task has come. It is that of a
	// subject without checks, review and landing if none is stored.
	Progress(subject string) (Progress, error)
	// Checking returns the progress of subjects whose checks run, by subject.
	Checking() ([]Progress, error)
}

// A CheckWriter writes checks, their results, and how far tasks have come.
type CheckWriter interface {
	// PutCheck stores a check, new or known.
	PutCheck(RepositoryCheck) error
	// RemoveCheck reports CodeNotFound when there is none.
	RemoveCheck(r Repository, name string) error
	PutPolicy(CheckPolicy) error
	// PutResult stores a new result if was is empty, and gives it an id. Else it stores r
	// provided the stored state is still was; otherwise it reports CodeConflict. It stores the
	// end of the output unless that is empty. It returns the id.
	PutResult(r CheckResult, was CheckState) (CheckResultID, error)
	// PutProgress stores a new progress if p.Revision is 0, and reports CodeConflict when its
	// subject has one. Else it stores p provided the stored one still has p.Revision; otherwise
	// it reports CodeConflict.
	PutProgress(Progress) error
}

// UnknownCheck is the refusal of the name of a check that a repository does not have. Its hint has
// the names of the checks that it has.
func UnknownCheck(code Code, op, repository, name string, known []string) error {
	refusal := Errorf(code, op, "%s has no check named %.100q", repository, name)
	if len(known) == 0 {
		return refusal.WithHint("it has none; {check.add}")
	}
	return refusal.WithHint("its checks are %s", strings.Join(known, ", "))
}
