package hub

import (
	"encoding/json"
	"slices"
)

// A HandoffID is a UUIDv7, like an EnvelopeID.
type HandoffID string

// Valid reports whether id is a UUIDv7 in lower case.
func (id HandoffID) Valid() bool { return EnvelopeID(id).Valid() }

// A HandoffState says how far a handoff has come.
type HandoffState string

// The states of a handoff.
const (
	HandoffDraft      HandoffState = "draft"
	HandoffProposed   HandoffState = "proposed"   // offered; the receiver has not answered
	HandoffValidating HandoffState = "validating" // the receiver answered; its claims are being checked
	HandoffAccepted   HandoffState = "accepted"   // checked and taken
	HandoffRejected   HandoffState = "rejected"
	HandoffActivated  HandoffState = "activated" // the receiver owns the task
	HandoffCompleted  HandoffState = "completed"
	HandoffClosed     HandoffState = "closed"
)

// HandoffStates lists every state in the order of a handoff's life.
var HandoffStates = []HandoffState{
	HandoffDraft, HandoffProposed, HandoffValidating, HandoffAccepted,
	HandoffRejected, HandoffActivated, HandoffCompleted, HandoffClosed,
}

// handoffNext is the whole state machine. A closed handoff becomes active again if its task was
// done and a landing queue or a reviewer returns the work.
var handoffNext = map[HandoffState][]HandoffState{
	HandoffDraft:      {HandoffProposed},
	HandoffProposed:   {HandoffValidating},
	HandoffValidating: {HandoffAccepted, HandoffRejected},
	HandoffAccepted:   {HandoffActivated},
	HandoffRejected:   {HandoffClosed},
	HandoffActivated:  {HandoffCompleted},
	HandoffCompleted:  {HandoffClosed},
	HandoffClosed:     {HandoffActivated},
}

// CanBecome reports whether a handoff in state s may move to next.
func (s HandoffState) CanBecome(next HandoffState) bool { return slices.Contains(handoffNext[s], next) }

// Known reports whether s is one of HandoffStates.
func (s HandoffState) Known() bool { return slices.Contains(HandoffStates, s) }

// ActiveHandoffs lists the states in which a handoff claims its task: there is
// at most one such handoff for a task.
var ActiveHandoffs = []HandoffState{HandoffProposed, HandoffValidating, HandoffAccepted, HandoffActivated}

// Active reports whether s is one of ActiveHandoffs.
func (s HandoffState) Active() bool { return slices.Contains(ActiveHandoffs, s) }

// EndedHandoffs lists the states in which a handoff has ended. It leaves them only if its work is
// returned.
var EndedHandoffs = []HandoffState{HandoffRejected, HandoffCompleted, HandoffClosed}

// Ended reports whether s is one of EndedHandoffs.
func (s HandoffState) Ended() bool { return slices.Contains(EndedHandoffs, s) }

// A RejectReason says why a handoff was rejected.
type RejectReason string

// The reasons.
const (
	RejectMissingArtifact   RejectReason = "missing_artifact"
	RejectHashMismatch      RejectReason = "hash_mismatch"
	RejectSchemaInvalid     RejectReason = "schema_invalid"
	RejectPolicyViolation   RejectReason = "policy_violation"
	RejectCapacity          RejectReason = "capacity_unavailable"
	RejectCapability        RejectReason = "capability_mismatch"
	RejectCriteriaAmbiguous RejectReason = "success_criteria_ambiguous"
	RejectOwnershipConflict RejectReason = "ownership_conflict"
	RejectTimeoutRisk       RejectReason = "timeout_risk"
	RejectOther             RejectReason = "other"
)

// RejectReasons lists every reason.
var RejectReasons = []RejectReason{
	RejectMissingArtifact, RejectHashMismatch, RejectSchemaInvalid, RejectPolicyViolation, RejectCapacity,
	RejectCapability, RejectCriteriaAmbiguous, RejectOwnershipConflict, RejectTimeoutRisk, RejectOther,
}

// An Ownership says how the item of a queue that the task names changed its owner.
type Ownership string

// The values. The stored value of a task that names no item is empty.
const (
	OwnershipHub         Ownership = ""
	OwnershipPending     Ownership = "pending"         // the queue is about to be told; of tasks alone
	OwnershipTransferred Ownership = "transferred"     // the queue says that the receiver owns the item
	OwnershipDegraded    Ownership = "degraded"        // the queue was changed or may have been, and the receiver does not own the item
	OwnershipManual      Ownership = "manual_required" // the queue cannot be used: the operator must move the item in it
	OwnershipConfirmed   Ownership = "confirmed"       // the operator says that it was moved
)

// NeedsOperator reports whether the operator has to look at the queue.
func (o Ownership) NeedsOperator() bool { return o == OwnershipManual || o == OwnershipDegraded }

// A Transfer is a change of the owner of an item in a queue, for a handoff.
type Transfer struct {
	Item     string
	Handoff  HandoffID
	From, To AgentID
	Session  string // from which the receiver accepted; may be empty
	Title    string
	Branch   string
	Worktree string
}

// An ItemClaim is the ownership of an item of the hub's own queue by an agent, as the
// operations of the queue return it.
type ItemClaim struct {
	Item  string  `json:"item"`
	Owner AgentID `json:"owner"`
	At    Time    `json:"claimed_at,omitzero"`
}

// An Ending is the way in which a handoff ended.
type Ending string

// The endings. A task that was handed on is not done: its owner gave it to the
// next one.
const (
	EndedDone      Ending = "done"
	EndedHandedOn  Ending = "handed_on"
	EndedReleased  Ending = "released"  // the operator took it away
	EndedRejected  Ending = "rejected"  // by the receiver, or because a check failed
	EndedWithdrawn Ending = "withdrawn" // by the sender
)

// A Verdict is the result of a check.
type Verdict string

// The verdicts. A claim about something outside the hub's roots is unverifiable:
// neither right nor wrong.
const (
	CheckVerified     Verdict = "verified"
	CheckFailed       Verdict = "failed"
	CheckUnverifiable Verdict = "unverifiable"
)

// A Proof says how far the hub has checked the work of a handoff.
type Proof string

// The values. Unproven and refused come with a reason.
const (
	ProofNone     Proof = "-"        // there is nothing to prove: the task is not completed
	ProofVerified Proof = "verified" // the hub has checked the work
	ProofUnproven Proof = "unproven" // the owner says that it is done, and the hub could not check it
	ProofRefused  Proof = "refused"  // a claim of the package does not hold, so that the handoff was rejected
)

// A Check is one claim that was compared with the facts, and the result.
type Check struct {
	What   string       `json:"what"`
	Result Verdict      `json:"result"`
	Detail string       `json:"detail"`           // for people; programs read the other members
	Reason RejectReason `json:"reason,omitempty"` // the reason with which a failed check rejects the handoff

	Kind      CheckKind     `json:"kind,omitempty"`      // of the thing that What names; empty in the records of earlier versions
	Compared  ComparedFiles `json:"compared,omitzero"`   // of a worktree, when the task was accepted; zero if none were compared
	Ownership Ownership     `json:"ownership,omitempty"` // of the task in its queue; only in the last check of an activation
	State     *WorkState    `json:"state,omitempty"`     // of the worktree, when the task was accepted
	Change    *WorkChange   `json:"change,omitempty"`    // of the work, since then; nil in completions of earlier versions
}

// A CheckKind is the kind of thing that a check is about. The check of an artifact has the
// type of its reference as kind, so that others than these occur.
type CheckKind string

// The kinds that the hub itself checks.
const (
	CheckKindPackage    CheckKind = "package"
	CheckKindApproval   CheckKind = "approval"
	CheckKindRepository CheckKind = "repository"
	CheckKindWorktree   CheckKind = "worktree" // that it is there, and its state
	CheckKindFiles      CheckKind = "files"    // all files of a worktree
	CheckKindFile       CheckKind = "file"
	CheckKindBranch     CheckKind = "branch"
	CheckKindCommit     CheckKind = "commit"
	CheckKindEvidence   CheckKind = "evidence" // of a run, with its files and its commit
	CheckKindClaim      CheckKind = "claim"    // of an item of the hub's own queue
	CheckKindQueue      CheckKind = "queue"    // an item of a queue outside the hub
	CheckKindWork       CheckKind = "work"
)

// A ComparedFiles is the comparison of the files of a worktree with the commit that was
// checked out there, or the content of one file.
type ComparedFiles struct {
	Path   string `json:"path"`            // of the worktree or the file
	Commit string `json:"commit"`          // its whole name; empty for a file
	Clean  bool   `json:"clean,omitempty"` // the files are those of the commit

	// Visible is the digest of a text file without blanks, line ends and characters that cannot be seen.
	Visible string `json:"visible,omitempty"`
}

// A Patch is the difference of a worktree from a commit.
type Patch struct {
	Commit string // its whole name
	Text   string // a unified diff; empty without a change
	More   int    // files that differ and are not in Text
}

// RestrictedText stands for the title of a restricted handoff, and for the task of a run
// on it, where they are withheld.
const RestrictedText = "restricted"

// A Handoff is a task that changes its owner. Its package is immutable from the
// proposal on.
type Handoff struct {
	ID       HandoffID
	ThreadID string
	TaskID   string
	From     AgentID // the authenticated caller
	To       AgentID
	Title    string
	Reason   string // why the task changes hands
	Package  json.RawMessage
	Hash     string // of the package; see PackageHash
	Status   HandoffState

	Previous   HandoffID // the handoff by which the sender got the task, or ""
	Restricted bool      // the package must not leave the hub
	NeedsHuman bool      // cannot be accepted before the operator approves
	ApprovedAt Time      // when the operator did
	Ownership  Ownership
	Deadline   Time // of the task; zero for none
	AcceptedAt Time
	Escalated  Time // when the coordinators were last told that it is late

	Team           TeamID  // into which the task is handed, or ""
	TeamApprovedBy AgentID // the member that approved it for the team

	Ending       Ending
	RejectReason RejectReason
	InitiatedAt  Time
	ResolvedAt   Time   // completed or rejected
	Notes        string // how it ended, for people
}

// Advance returns h moved to next at the given time. It reports CodeConflict
// when the state machine has no such move, and then returns h unchanged.
func (h Handoff) Advance(next HandoffState, now Time) (Handoff, error) {
	isReturned := h.Status == HandoffClosed && next == HandoffActivated
	if !h.Status.CanBecome(next) || (isReturned && h.Ending != EndedDone) {
		return h, Errorf(CodeConflict, "hub.Advance", "handoff %s is %s and cannot become %s", h.ID, h.Status, next)
	}
	h.Status = next
	if isReturned {
		h.Ending = ""
		h.ResolvedAt = Time{}
		h.Notes = ""
	}
	switch next {
	case HandoffAccepted:
		h.AcceptedAt = now
	case HandoffRejected, HandoffCompleted:
		h.ResolvedAt = now
	}
	return h, nil
}

// Concerns reports whether an agent gives or takes the task.
func (h Handoff) Concerns(agent AgentID) bool { return agent == h.From || agent == h.To }

// A HandoffStep is one row of a handoff's history: the new state, the actor, and
// the checks that were made. Steps are never changed or deleted.
type HandoffStep struct {
	N      int          `json:"n"` // 1, 2, 3; given by the store
	State  HandoffState `json:"state"`
	At     Time         `json:"at,omitzero"`
	Actor  AgentID      `json:"actor"`
	Note   string       `json:"note,omitempty"`
	Checks []Check      `json:"checks,omitempty"`
}

// A Lateness says when an accepted handoff that is not completed counts as late.
type Lateness struct {
	AcceptedBefore  Time // it was accepted before this time
	DeadlineBy      Time // or its deadline has come by this time
	EscalatedBefore Time // and it was not escalated at or after this time
}

// WaitsForOperator reports whether the handoff cannot be accepted before the operator
// approves it.
func (h Handoff) WaitsForOperator() bool {
	return h.Status == HandoffProposed && h.NeedsHuman && h.ApprovedAt.IsZero()
}

// WaitsForTeam reports whether the handoff cannot be accepted before a member of its team
// approves it.
func (h Handoff) WaitsForTeam() bool {
	return h.Status == HandoffProposed && h.Team != "" && h.TeamApprovedBy == ""
}

// A HandoffQuery chooses handoffs. Empty members do not restrict.
type HandoffQuery struct {
	Viewer AgentID // restricts to handoffs that this agent gives or takes
	Agent  AgentID // gives or takes it
	From   AgentID
	To     AgentID
	Task   string
	States []HandoffState
	Owned  bool      // was accepted at some time
	Late   *Lateness // is late
	Cursor HandoffID // the last one of the page before
	Limit  int       // how many at most; positive
}
