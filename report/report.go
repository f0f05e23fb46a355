// Package report reads, writes and checks compact reports: the few lines with
// which a coding agent says how its work ended, and the dispatch that gave it
// the work.
//
//	STATUS:ok
//	FILES_CREATED:limit.go,limit_test.go
//	TESTS:pass:12
//	BUILD:pass
//
// Parse reads the text form, ParseJSON the JSON form and ParseAny whatever an
// agent answered. There are two modes. Reference reads as the protocol's public
// parser does, with all that it loses. Tolerant, the default, also understands
// what models write around and instead of the canonical form, and says so in
// diagnostics. A text that Tolerant reads without a diagnostic has the same
// seven values in both modes, and what Reference accepts Tolerant accepts.
//
// Reading takes time linear in the input, is bounded by Options and never
// panics. Names and words of the protocol are compared in ASCII: a letter that
// only Unicode folds to one of them is another letter. The strings of a result
// are parts of the input and keep it in memory.
//
// The package believes nothing and touches no file: whether a claim is true is
// for others to find out.
package report

import (
	"slices"
	"strconv"
	"strings"
)

// A Status says how the work ended. Others than those below may occur: they
// are kept, and never count as success.
type Status string

// The statuses of the protocol.
const (
	StatusOK            Status = "ok"             // done
	StatusFail          Status = "fail"           // tried, and failed
	StatusPartial       Status = "partial"        // some of the criteria are met
	StatusNeedsDecision Status = "needs_decision" // somebody must choose first
	StatusNoChanges     Status = "no_changes"     // there was nothing to do
	StatusDecomposed    Status = "decomposed"     // split into smaller tasks
	StatusRejected      Status = "rejected"       // refused before it was tried
	StatusRetry         Status = "retry"          // a passing trouble: dispatch again
	StatusFixtureGap    Status = "fixture_gap"    // cannot be judged, the setup is missing: not the agent's fault
)

// statuses are all of them, the least successful first.
var statuses = [...]Status{
	StatusFail, StatusRejected, StatusFixtureGap, StatusNeedsDecision, StatusRetry,
	StatusPartial, StatusDecomposed, StatusNoChanges, StatusOK,
}

// Statuses returns the statuses of the protocol, the least successful first.
func Statuses() []Status { return slices.Clone(statuses[:]) }

// Known reports whether s is a status of the protocol.
func (s Status) Known() bool { return slices.Contains(statuses[:], s) }

// rank orders statuses by success. One that is unknown may mean anything but
// success.
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
	Skip State = "skip"
)

var states = [...]State{Pass, Fail, Skip}

// Tests are a state and perhaps a count, as in "pass" or "fail:2"; empty if
// nothing was said.
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

// A Report is what an agent says about its work.
type Report struct {
	Status        Status
	FilesCreated  []string // as the agent wrote them: they may point anywhere
	FilesModified []string
	Tests         Tests
	Build         State  // empty if nothing was said
	Error         string // empty if absent
	Learned       string // empty if absent
	Extra         []Field
}

// OK reports whether the agent says that nothing is left to do.
func (r Report) OK() bool { return r.Status == StatusOK || r.Status == StatusNoChanges }

// A Field is one that the protocol does not know. It is kept.
type Field struct {
	Name  string `json:"name"` // upper case
	Value string `json:"value"`
}
