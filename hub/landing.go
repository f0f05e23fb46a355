package hub

import (
	"slices"
	"strconv"
	"strings"
)

// A LandingBy says who puts finished work into a landing queue.
type LandingBy string

// The values.
const (
	LandingAuto     LandingBy = "auto"     // the hub, as soon as proof, checks and review are complete
	LandingOperator LandingBy = "operator" // the operator; an entry of an agent waits for the operator's yes
)

// A LandingPolicy says how changes land in one branch of one repository. A branch without a
// policy has no queue.
type LandingPolicy struct {
	Machine    string    `json:"machine,omitempty"` // of the hub that can write to the repository
	Repository string    `json:"repository"`        // its folder, without links
	Into       string    `json:"into"`              // the target branch
	Checks     []string  `json:"checks"`            // names of repository checks that run on the state that will be
	Review     string    `json:"review"`            // a reviewer, as Reviewer of a Review; ReviewerNone for none
	By         LandingBy `json:"by"`
	Batch      int       `json:"batch"` // the most entries that are tried together

	NoChecks         bool `json:"no_checks,omitempty"`         // changes may land where no check is asked for
	NoContracts      bool `json:"no_contracts,omitempty"`      // contracts are not asked
	Repeat           int  `json:"repeat,omitempty"`            // times that a failed check is run again
	UnconcernedLands bool `json:"unconcerned_lands,omitempty"` // a change that concerns no check lands

	Open  []OpenGate `json:"open,omitempty"` // the gates that the operator opened by name
	SetAt Time       `json:"set_at,omitzero"`

	// NamedAt is when the hub told the operator what is open in a policy of an earlier version, or why
	// nothing lands under it; unset after the next change.
	NamedAt Time `json:"named_at,omitzero"`
}

// Opened returns the record of a gate that the operator opened by name. It reports whether there is
// one.
func (p LandingPolicy) Opened(gate string) (OpenGate, bool) {
	i := slices.IndexFunc(p.Open, func(o OpenGate) bool { return o.Gate == gate })
	if i < 0 {
		return OpenGate{Gate: gate}, false
	}
	return p.Open[i], true
}

// Digest returns the SHA-256, in hexadecimal, of everything in p.
func (p LandingPolicy) Digest() string { return wholeDigest("landing policy", p) }

// ID returns a name that no other policy has.
func (p LandingPolicy) ID() string { return queueName(p.Machine, p.Repository, p.Into) }

// queueName names the queue of a branch of a repository on a machine.
func queueName(machine, repository, into string) string {
	name := repository + " " + into
	if machine != "" {
		name = machine + ":" + name
	}
	return name
}

// A LandingState says how far an entry of a landing queue has come.
type LandingState string

// The states of an entry.
const (
	EntryQueued    LandingState = "queued"
	EntryTrying    LandingState = "trying"  // merged onto the head of the target by the hub, and checked
	EntryWaiting   LandingState = "waiting" // for the event that Reason names
	EntryLanded    LandingState = "landed"
	EntryReturned  LandingState = "returned" // to its owner, with Reason; a new commit queues it again
	EntryCancelled LandingState = "cancelled"
	EntryUndone    LandingState = "undone" // it landed, and the target does not have it any more
)

// LandingStates lists every state in the order of an entry's life.
var LandingStates = []LandingState{EntryQueued, EntryTrying, EntryWaiting, EntryLanded, EntryReturned, EntryCancelled, EntryUndone}

// OpenLandings lists the states of entries that are in the queue.
var OpenLandings = []LandingState{EntryQueued, EntryTrying, EntryWaiting}

// landingNext is the whole state machine. A state without an entry is final.
var landingNext = map[LandingState][]LandingState{
	EntryQueued:   {EntryQueued, EntryTrying, EntryWaiting, EntryLanded, EntryReturned, EntryCancelled},
	EntryTrying:   {EntryTrying, EntryQueued, EntryWaiting, EntryLanded, EntryReturned, EntryCancelled},
	EntryWaiting:  {EntryWaiting, EntryQueued, EntryTrying, EntryLanded, EntryReturned, EntryCancelled},
	EntryReturned: {EntryQueued, EntryWaiting, EntryCancelled},
	EntryLanded:   {EntryUndone},
	EntryUndone:   {EntryLanded}, // the undo was undone
}

// Known reports whether s is one of LandingStates.
func (s LandingState) Known() bool { return slices.Contains(LandingStates, s) }

// Open reports whether s is one of OpenLandings.
func (s LandingState) Open() bool { return slices.Contains(OpenLandings, s) }

// A LandingWait is the kind of event that a waiting entry waits for.
type LandingWait string

// The kinds.
const (
	WaitsForOperator LandingWait = "operator" // to say yes
	WaitsForReview   LandingWait = "review"
	WaitsForFolder   LandingWait = "folder" // a working tree with the target checked out, whose files are in the way
	WaitsForTarget   LandingWait = "target" // whose own checks fail
	WaitsForChecks   LandingWait = "checks" // that cannot run now
)

// A LandingID names an entry of a landing queue: l and its number, such as l12.
type LandingID string

// NewLandingID returns the id of the entry with a number.
func NewLandingID(n int64) LandingID { return LandingID("l" + strconv.FormatInt(n, 10)) }

// Number returns the number of an entry; 0 for a text that is no id of one.
func (id LandingID) Number() int64 { return numbered("l", string(id)) }

// numbered returns the number after a letter; 0 for a text of another form.
func numbered(letter, id string) int64 {
	digits, ok := strings.CutPrefix(id, letter)
	n, err := strconv.ParseInt(digits, 10, 64)
	isPlain := ok && err == nil && n > 0 && strconv.FormatInt(n, 10) == digits
	if !isPlain {
		return 0
	}
	return n
}

// A LandingEntry is one change on its way into the target branch of a repository.
type LandingEntry struct {
	ID         LandingID `json:"id"` // given by the store
	Machine    string    `json:"machine,omitempty"`
	Repository string    `json:"repository"`
	Into       string    `json:"into"`
	Ref        string    `json:"ref"`    // as it was given: a handoff, a branch or a commit
	Branch     string    `json:"branch"` // whose new commits queue a returned entry again; may be empty
	Commit     string    `json:"commit"` // that is to land; its whole name
	Tree       string    `json:"tree"`   // of the commit
	Owner      AgentID   `json:"owner"`
	Handoff    HandoffID `json:"handoff,omitempty"`
	Task       TaskID    `json:"task,omitempty"` // of a team, if no handoff has the work
	Priority   Priority  `json:"priority"`       // critical goes first
	Undoes     LandingID `json:"undoes,omitempty"`

	State     LandingState `json:"state"`
	Waits     LandingWait  `json:"waits_for,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Conflicts []string     `json:"conflicts,omitempty"`   // paths
	Check     string       `json:"check,omitempty"`       // that failed
	Results   []string     `json:"results,omitempty"`     // ids of the results of checks on the state that landed, or that failed
	Tries     int          `json:"tries"`                 // times that the queue took it up with a new commit, or again
	Returns   int          `json:"returns,omitempty"`     // times that it was returned
	Fewer     string       `json:"fewer_tests,omitempty"` // such as "tests: 41 before, 12 now": the target would have fewer tests with it, so that it needs a review

	// Step is the commit that the target is about to be moved to, and that has the entry; the
	// hub compares it with the target after a kill. Merged is the merge commit of the entry.
	Step   string `json:"step,omitempty"`
	Merged string `json:"merged,omitempty"`

	LandedCommit string `json:"landed_commit,omitempty"` // the merge commit in the target
	Head         string `json:"head,omitempty"`          // of the target after the landing
	Output       string `json:"output,omitempty"`        // SHA-256 of the output of the check that failed, or of the conflicting texts

	// Checks are asked for by the package or the task, beside those of the policy. Holder is a handoff
	// of which the entry has the work, though it was queued as a branch or a commit: its review counts.
	Checks []string  `json:"checks,omitempty"`
	Holder HandoffID `json:"holder,omitempty"`

	// Asks are the reviewers of tasks of teams of which the entry has the work, as long as the teams have
	// not accepted it.
	Asks []string `json:"asks,omitempty"`

	Reviewers []string `json:"reviewers,omitempty"` // whose reviews it needs

	// TakesBack names the files of others that the change takes back, such as "takes back
	// src/alice.go, landed l4": it needs the word of the reviewer, else of the operator.
	TakesBack string      `json:"takes_back,omitempty"`
	Takes     []LandingID `json:"takes,omitempty"` // the landings of those files

	// Judged has what the change does to the things that judge it: checks, their scripts, and tests. A
	// finding with Word needs the word of the reviewer, else of the operator.
	Judged []JudgeFinding `json:"judged,omitempty"`

	// UndoneBy is the entry that took the change back; empty for a change that was taken back by hand.
	// Because is the reason.
	UndoneBy LandingID `json:"undone_by,omitempty"`
	Because  string    `json:"because,omitempty"`

	Without []Waiver `json:"without,omitempty"` // by the operator, for this commit alone
	GateAnswer

	Approved AgentID `json:"approved_by,omitempty"` // the operator who said yes
	Told     string  `json:"told,omitempty"`        // the reason that the operator was told, so that it is told once
	QueuedAt Time    `json:"queued_at,omitzero"`    // when it was last queued
	MovedAt  Time    `json:"moved_at,omitzero"`
	Revision int64   `json:"-"` // of the row; 0 for one that is not stored
}

// Queue names the queue that the entry is in.
func (e LandingEntry) Queue() string { return queueName(e.Machine, e.Repository, e.Into) }

// Subject returns the id of the handoff or the task whose work the entry is; "" for none.
func (e LandingEntry) Subject() string {
	if e.Handoff != "" {
		return string(e.Handoff)
	}
	return string(e.Task)
}

// Waives reports whether the operator lets the entry's commit land without a part.
func (e LandingEntry) Waives(what string) bool {
	return slices.ContainsFunc(e.Without, func(w Waiver) bool { return w.What == what && w.Commit == e.Commit })
}

// Waived reports whether the operator lets the entry's commit land without some part.
func (e LandingEntry) Waived() bool {
	return slices.ContainsFunc(e.Without, func(w Waiver) bool { return w.Commit == e.Commit })
}

// Digest returns the SHA-256, in hexadecimal, of everything in e but its revision.
func (e LandingEntry) Digest() string { return wholeDigest("landing", e) }

// Advance returns e in another state at the given time, without the facts that belong to the
// former state. It reports CodeConflict when the state machine has no such move, and then
// returns e unchanged.
func (e LandingEntry) Advance(next LandingState, now Time) (LandingEntry, error) {
	if !slices.Contains(landingNext[e.State], next) {
		return e, Errorf(CodeConflict, "hub.LandingEntry", "landing %s is %s and cannot become %s", e.ID, e.State, next)
	}
	if next == EntryTrying && e.State != EntryTrying {
		e.Tries++
	}
	if next == EntryReturned {
		e.Returns++
	}
	e.State = next
	e.Waits = ""
	e.Reason = ""
	e.Conflicts = nil
	e.Check = ""
	e.Output = ""
	e.Step = ""
	e.UndoneBy = ""
	if e.Undoes == "" {
		e.Because = ""
	}
	e.GateAnswer = GateAnswer{}
	e.MovedAt = now
	return e, nil
}

// A LandingQuery chooses entries. Empty members do not restrict.
type LandingQuery struct {
	Queue   string // as LandingEntry.Queue names it
	States  []LandingState
	Subject string // as LandingEntry.Subject names it
	Owner   AgentID
	Undoes  LandingID
	Newest  bool      // the newest first, not the oldest
	Cursor  LandingID // the last one of the page before
	Limit   int       // how many at most; positive
}

// A LandingReader reads landing queues and reviews.
type LandingReader interface {
	// Policies returns all policies by their ids.
	Policies() ([]LandingPolicy, error)
	Entry(id LandingID) (LandingEntry, error)
	// Entries returns those that match, in the order of their numbers.
	Entries(q LandingQuery) ([]LandingEntry, error)
	Review(id ReviewID) (Review, error)
	// Reviews returns those that match, the newest first.
	Reviews(q ReviewQuery) ([]Review, error)
}

// A LandingWriter writes landing queues and reviews.
type LandingWriter interface {
	// PutPolicy stores a policy, new or known.
	PutPolicy(LandingPolicy) error
	// RemovePolicy reports CodeNotFound when there is none with the id.
	RemovePolicy(id string) error
	// PutEntry stores a new entry if e.Revision is 0, and returns its id. Else it stores e provided
	// the stored one still has e.Revision; otherwise it reports CodeConflict. An entry that was
	// cancelled does not change, and one that has landed can only be undone.
	PutEntry(e LandingEntry) (LandingID, error)
	// PutReview stores a review in the same way. One that is over does not change.
	PutReview(r Review) (ReviewID, error)
}
