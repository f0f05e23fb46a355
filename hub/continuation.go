package hub

import (
	"slices"
	"strconv"
	"strings"
)

// A ContinuationReason says why an agent cannot go on with a task.
type ContinuationReason string

// The reasons.
const (
	ContinueQuota    ContinuationReason = "quota"    // its account has nothing left to spend, or is limited for long
	ContinueRate     ContinuationReason = "rate"     // its vendor refuses further calls for some time
	ContinueContext  ContinuationReason = "context"  // its context is full
	ContinueLogin    ContinuationReason = "login"    // its login is not valid any more
	ContinueOverload ContinuationReason = "overload" // its vendor has too much to do
	ContinueCrash    ContinuationReason = "crash"    // its program ended
	ContinueHang     ContinuationReason = "hang"     // it makes no progress
	ContinueError    ContinuationReason = "error"    // its turns fail for another reason
	ContinueBudget   ContinuationReason = "budget"   // a budget of this hub is spent
	ContinueClosed   ContinuationReason = "closed"   // a person closed its window
)

// ContinuationReasons lists the reasons.
var ContinuationReasons = []ContinuationReason{
	ContinueQuota, ContinueRate, ContinueContext, ContinueLogin, ContinueOverload, ContinueCrash, ContinueHang, ContinueError, ContinueBudget, ContinueClosed,
}

// Passes reports whether the reason passes by itself, after a time that may be known.
func (r ContinuationReason) Passes() bool {
	return r == ContinueQuota || r == ContinueRate || r == ContinueOverload
}

// Known reports whether r is one of ContinuationReasons.
func (r ContinuationReason) Known() bool { return slices.Contains(ContinuationReasons, r) }

// Text returns the reason in words that follow the name of an agent.
func (r ContinuationReason) Text() string {
	switch r {
	case ContinueQuota:
		return "is out of quota"
	case ContinueRate:
		return "is refused by a rate limit"
	case ContinueContext:
		return "has a full context"
	case ContinueLogin:
		return "lost its login"
	case ContinueOverload:
		return "is refused by an overloaded vendor"
	case ContinueHang:
		return "made no progress"
	case ContinueError:
		return "failed with an error"
	case ContinueBudget:
		return "spent its budget"
	case ContinueClosed:
		return "was closed"
	}
	return "crashed"
}

// A ContinuationState says how far a continuation is.
type ContinuationState string

// The states. A task that nobody took can be offered again.
const (
	ContinuationWaiting ContinuationState = "waiting" // for a person, or for an agent that can take it
	ContinuationOffered ContinuationState = "offered" // to another agent, by a handoff
	ContinuationTaken   ContinuationState = "taken"   // by that agent, or by the same one again
	ContinuationRefused ContinuationState = "refused" // by that agent, or the task ended otherwise
)

// continuationNext is the whole state machine. A state without an entry is final.
var continuationNext = map[ContinuationState][]ContinuationState{
	ContinuationWaiting: {ContinuationWaiting, ContinuationOffered, ContinuationTaken, ContinuationRefused},
	ContinuationOffered: {ContinuationTaken, ContinuationRefused},
	ContinuationRefused: {ContinuationOffered, ContinuationTaken},
}

// A ContinuationID names a continuation: k and a number.
type ContinuationID string

// NewContinuationID returns the id with a number.
func NewContinuationID(n int64) ContinuationID {
	return ContinuationID("k" + strconv.FormatInt(n, 10))
}

// Number returns the number of the id; 0 if it has none.
func (id ContinuationID) Number() int64 { return numberAfter("k", string(id)) }

// A RescueID names a rescue: s and a number.
type RescueID string

// NewRescueID returns the id with a number.
func NewRescueID(n int64) RescueID { return RescueID("s" + strconv.FormatInt(n, 10)) }

// Number returns the number of the id; 0 if it has none.
func (id RescueID) Number() int64 { return numberAfter("s", string(id)) }

// numberAfter returns the number in an id after a letter; 0 if there is none.
func numberAfter(letter, id string) int64 {
	text, ok := strings.CutPrefix(id, letter)
	n, err := strconv.ParseInt(text, 10, 64)
	isPlain := err == nil && n > 0 && strconv.FormatInt(n, 10) == text
	if !ok || !isPlain {
		return 0
	}
	return n
}

// A Rescue is the uncommitted work of a working tree, kept as a commit in the hub's own copy of
// the repository. Ignored files are not in it.
type Rescue struct {
	ID         RescueID  `json:"id"`
	Copy       string    `json:"copy"` // the folder of the hub's copy
	Ref        string    `json:"ref"`  // in the copy
	Commit     string    `json:"commit"`
	Base       string    `json:"base,omitempty"` // the commit that was checked out; empty if there was none
	Agent      AgentID   `json:"agent"`          // whose work it is
	Handoff    HandoffID `json:"handoff,omitempty"`
	Folder     string    `json:"folder"` // of the working tree
	Files      int       `json:"files"`
	Insertions int       `json:"insertions"`
	Deletions  int       `json:"deletions"`
	Bytes      int64     `json:"bytes"`
	Paths      []string  `json:"paths,omitempty"`      // the changed files, at most MaxRescuePaths
	Submodules []string  `json:"submodules,omitempty"` // whose own changes are not in it
	Unreadable []string  `json:"unreadable,omitempty"` // files that could not be read, and are not in it
	At         Time      `json:"at,omitzero"`
	Until      Time      `json:"until,omitzero"` // when the hub drops it
}

// MaxRescuePaths is the number of paths that a rescue lists.
const MaxRescuePaths = 100

// A Continuation is the way of one task from an agent that cannot go on to the next owner.
type Continuation struct {
	ID      ContinuationID     `json:"id"`
	Handoff HandoffID          `json:"handoff"` // by which the agent owns the task; empty for a task of a team that came without one
	Task    string             `json:"task"`
	Title   string             `json:"title"`
	Of      AgentID            `json:"of"`           // the agent that cannot go on
	To      AgentID            `json:"to,omitempty"` // the next owner
	Next    HandoffID          `json:"next_handoff,omitempty"`
	Reason  ContinuationReason `json:"reason"`
	Until   Time               `json:"until,omitzero"` // when the agent can go on, if that is known
	Folder  string             `json:"folder,omitempty"`
	Branch  string             `json:"branch,omitempty"`
	Head    string             `json:"head,omitempty"` // the commit that is checked out in the folder
	Tree    string             `json:"tree,omitempty"` // the state of the folder: the tree of the rescue, or of the head
	Rescue  *Rescue            `json:"rescue,omitempty"`
	Said    string             `json:"said,omitempty"` // the last summary or plan that the agent sent
	State   ContinuationState  `json:"state"`
	Why     string             `json:"why,omitempty"`  // why it waits, or was refused
	Told    bool               `json:"told,omitempty"` // the operator, and the agents that asked for the task, know that nobody has it
	At      Time               `json:"at,omitzero"`
	MovedAt Time               `json:"moved_at,omitzero"` // when the state was reached

	Revision int64 `json:"-"` // of the stored row; 0 for a new one
}

// Advance returns c in another state. It reports CodeConflict when the state machine has no such
// move, and then returns c unchanged.
func (c Continuation) Advance(next ContinuationState, now Time) (Continuation, error) {
	if !slices.Contains(continuationNext[c.State], next) {
		return c, Errorf(CodeConflict, "Continuation.Advance", "continuation %s is %s and cannot become %s", c.ID, c.State, next)
	}
	c.State = next
	c.MovedAt = now
	return c, nil
}

// Over reports whether the continuation ended.
func (c Continuation) Over() bool { return c.State == ContinuationTaken }

// A ContinuationQuery selects continuations, the newest first. Empty members do not restrict it.
type ContinuationQuery struct {
	Of      AgentID
	Task    string
	Handoff HandoffID // of the agent that cannot go on
	Next    HandoffID
	States  []ContinuationState
	Cursor  ContinuationID // the last one of the page before
	Limit   int            // positive
}

// A ContinuationReader reads continuations and rescues.
type ContinuationReader interface {
	Continuation(id ContinuationID) (Continuation, error)
	Continuations(q ContinuationQuery) ([]Continuation, error)
	Rescue(id RescueID) (Rescue, error)
	// Rescues returns the rescues, the newest first, at most limit.
	Rescues(limit int) ([]Rescue, error)
}

// A ContinuationWriter writes continuations and rescues.
type ContinuationWriter interface {
	// PutContinuation stores a new continuation, or c provided its revision is still the stored
	// one; otherwise it reports CodeConflict. It returns the id.
	PutContinuation(c Continuation) (ContinuationID, error)
	// AddRescue stores a rescue under the next id, which it returns.
	AddRescue(r Rescue) (RescueID, error)
	// RemoveRescue removes a rescue, and reports CodeNotFound when there is none.
	RemoveRescue(id RescueID) error
}

// An Onward says how a task is handed on for an owner that cannot go on.
type Onward struct {
	ID        ContinuationID // of the continuation
	To        AgentID
	Reason    ContinuationReason
	Summary   string // what is done, for the next owner
	NextStep  string
	Worktree  string
	Branch    string
	Head      string   // the commit that is checked out in the worktree
	Questions []string // of the owner that nobody answered
	Rescue    *Rescue
}
