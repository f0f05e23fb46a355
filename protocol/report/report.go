package report

import (
	"slices"
	"strconv"
	"strings"
)

// A Status says how the work ended. An unknown status is kept, and never counts as
// success.
type Status string

// The statuses of the protocol.
const (
	StatusOK            Status = "ok"             // done
	StatusFail          Status = "fail"           // tried, and failed
	StatusPartial       Status = "partial"        // some of the criteria are met
	StatusNeedsDecision Status = "needs_decision" // a person must choose first
	StatusNoChanges     Status = "no_changes"     // there was nothing to do
	StatusDecomposed    Status = "decomposed"     // split into smaller tasks
	StatusRejected      Status = "rejected"       // refused before it was tried
	StatusRetry         Status = "retry"          // a temporary failure: dispatch again
	StatusFixtureGap    Status = "fixture_gap"    // cannot be judged because the setup is missing: not the agent's fault
)

// statuses lists the known statuses, the least successful first.
var statuses = [...]Status{
	StatusFail, StatusRejected, StatusFixtureGap, StatusNeedsDecision, StatusRetry,
	StatusPartial, StatusDecomposed, StatusNoChanges, StatusOK,
}

// Statuses returns the statuses of the protocol, the least successful first.
func Statuses() []Status { return slices.Clone(statuses[:]) }

// Known reports whether s is a status of the protocol.
func (s Status) Known() bool { return slices.Contains(statuses[:], s) }

// rank orders statuses by success. An unknown one ranks just below success.
// So an unknown word loses against every known failure and against partial work,
// but wins against a success: it can hide no failure and claim no success.
func (s Status) rank() int {
	if i := slices.Index(statuses[:], s); i >= 0 {
		return 2 * i
	}
	return 2*slices.Index(statuses[:], StatusNoChanges) - 1
}

// A State says how the tests or the build ended.
type State string

// The states.
const (
	Pass State = "pass"
	Fail State = "fail"
	Skip State = "skip" // not run
)

// states has the order of the sums in readCounts.
var states = [...]State{Pass, Fail, Skip}

// Tests are a state with an optional count, as in "pass" or "fail:2"; empty if
// absent.
type Tests string

// State returns the part before the count.
func (t Tests) State() State {
	state, _, _ := strings.Cut(string(t), ":")
	return State(state)
}

// Count returns the count, if there is one and an int can hold it.
func (t Tests) Count() (n int, ok bool) {
	_, digits, _ := strings.Cut(string(t), ":")
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// A Report is an agent's statement about its work. The zero value of a field means
// that the report does not mention it; only Status is always set in a parsed
// report.
type Report struct {
	Status        Status
	FilesCreated  []string // paths as the agent wrote them: they may lead anywhere
	FilesModified []string
	Tests         Tests
	Build         State  // empty if absent
	Error         string // empty if absent
	Learned       string // a lesson for later tasks; empty if absent
	Extra         []Field
}

// OK reports whether the status is a success: ok or no_changes.
func (r Report) OK() bool { return r.Status == StatusOK || r.Status == StatusNoChanges }

// A Field is a field that the protocol does not define.
type Field struct {
	Name  string `json:"name"` // upper case
	Value string `json:"value"`
}
