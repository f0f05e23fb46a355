// Package handoff moves tasks from one agent to another, with proof.
//
// An invalid package is refused and stores nothing. A proposed package never
// changes. Every move of the state machine is one guarded write with a step in the
// handoff's history, a journal entry and, where the other side must know, a message,
// all in one transaction. Before the receiver owns the task, an Inspector checks the
// claims of the package; it never runs anything.
//
// A task has at most one active handoff. The hub keeps the list of the owners of a
// task itself, against the word of a package, and no earlier owner gets the task again.
package handoff

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Sender writes the messages that handoffs make. The mailroom is one.
type Sender interface {
	// Recipient returns an agent, or reports CodeUnknownRecipient.
	Recipient(ctx context.Context, id hub.AgentID) (hub.Agent, error)
	// Post writes a message from actor inside tx. fresh is true for a message
	// that starts a conversation: it counts against the limits of the actor.
	Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error)
	// Tell writes a message from the hub to the coordinators, except the agent
	// it is about. Over the hub's own limit nothing is written, and the message
	// returned has no id.
	Tell(tx hub.Tx, about hub.AgentID, t hub.MessageType, thread string, payload any) (hub.Message, error)
	// Notify writes a message of the hub inside tx. It is never dropped.
	Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error)
	// MarkRead marks a message in the actor's inbox as read.
	MarkRead(tx hub.Tx, actor hub.Caller, id hub.EnvelopeID) error
	// Share lets agents read artifacts that the actor may read.
	Share(tx hub.Tx, actor hub.Caller, refs []hub.ArtifactRef, with []hub.AgentID) error
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
	// Capabilities returns the capabilities of the hub.
	Capabilities() hub.Capabilities
}

// An Inspector checks claims about files and repositories. It never runs a command
// from a claim, and reveals nothing about paths outside the roots it was given.
type Inspector interface {
	// Artifact checks one artifact. worktree is the folder of the work that the
	// claim names, or "".
	Artifact(ctx context.Context, ref hub.ArtifactRef, worktree string) hub.Check
	// Commit checks that a commit exists in the repository of a worktree.
	Commit(ctx context.Context, worktree, commit string) hub.Check
	// Worktree checks that a worktree exists and, if a branch is named, that it
	// is on that branch.
	Worktree(ctx context.Context, path, branch string) []hub.Check
	// Rooted reports whether a path lies under a root, so that a claim about it
	// can be checked.
	Rooted(ctx context.Context, path string) (bool, error)
	// State records the files of a worktree and the commits that exist now, for a
	// handoff. It reports CodeUnreachable if the worktree is on a machine whose hub is
	// away.
	State(ctx context.Context, path string, id hub.HandoffID) (hub.WorkState, error)
	// Compare returns the change of a worktree since a state. It reports
	// CodeUnreachable as State does, and CodeNotEnabled if the state is not kept any
	// more.
	Compare(ctx context.Context, q hub.Comparison) (hub.WorkChange, error)
	// MakeCommit commits files of a worktree on its branch and returns the commit. It
	// reports CodeConflict if another process works there.
	MakeCommit(ctx context.Context, c hub.NewCommit) (commit string, err error)
	// Missing reports since when the work of a change is not there any more; the zero
	// time if it is.
	Missing(ctx context.Context, c hub.WorkChange) (hub.Time, error)
	// Diff returns the difference of a worktree from a commit, or from the one that is
	// checked out if from is empty. Its size is bounded.
	Diff(ctx context.Context, path, from string) (hub.Patch, error)
}

// A Board keeps the tasks of teams. Its functions refuse with the code of the cause.
type Board interface {
	// Handable refuses a handoff into a team that roles, members or the task forbid. It
	// reports whether the handoff waits for the operator.
	Handable(r hub.Reader, h hub.Handoff) (waits bool, err error)
	// Approvable refuses an actor that may not approve a handoff into its team.
	Approvable(r hub.Reader, actor hub.Caller, h hub.Handoff) error
	// Succeeds reports whether the policy of the team names the receiver as a successor of owners
	// that cannot go on.
	Succeeds(r hub.Reader, h hub.Handoff) (bool, error)
	// Approvers returns the members that may approve a handoff into their team.
	Approvers(r hub.Reader, h hub.Handoff) ([]hub.AgentID, error)
	// Ask asks those members and the operator to approve a handoff, inside tx.
	Ask(tx hub.Tx, actor hub.Caller, h hub.Handoff) ([]hub.Message, error)
	// Taken gives the task to the receiver, and Ended moves it on, inside tx.
	Taken(tx hub.Tx, actor hub.Caller, h hub.Handoff) ([]hub.Message, error)
	Ended(tx hub.Tx, actor hub.Caller, h hub.Handoff) ([]hub.Message, error)
	// Returned moves the task of a handoff that is active again, inside tx.
	Returned(tx hub.Tx, actor hub.Caller, h hub.Handoff, reason string) ([]hub.Message, error)
}

// A Queue is a queue of work items outside the hub, whose items belong to agents.
type Queue interface {
	// Inspect compares the owner of an item with the parties of its handoff. It fails
	// for an item of a third agent.
	Inspect(ctx context.Context, t hub.Transfer) hub.Check
	// Transfer moves an item to the receiver and returns the result with its steps:
	// OwnershipTransferred, OwnershipDegraded or OwnershipManual. Repeated, it
	// completes a transfer that was cut off.
	Transfer(ctx context.Context, t hub.Transfer) (hub.Ownership, []hub.Check)
}

// Files reserves the files that handoffs name, so that other agents do not change them.
type Files interface {
	// ReserveScope reserves files for the owner of a task. It returns the paths that it
	// reserved, and sentences about files that it could not reserve or that others change.
	ReserveScope(ctx context.Context, actor hub.Caller, s hub.FileScope) (reserved, warnings []string)
	// Done frees the files that were reserved for a task or handoff, inside tx. The caller
	// announces the messages after the commit.
	Done(tx hub.Tx, actor hub.Caller, task hub.TaskID, handoff hub.HandoffID) ([]hub.Message, error)
}

// Checks runs the checks of repositories on the commits of completions.
type Checks interface {
	// Known returns the names of the checks of the repository around a folder.
	Known(ctx context.Context, folder string) ([]string, error)
	// Relevant reports whether that repository has checks or requires some. It fails for a folder
	// in which the hub cannot look.
	Relevant(ctx context.Context, folder string) (bool, error)
	// Plan chooses the checks for work: those with names, and the required ones that the change
	// from base touches. A revision names the commit in a folder; the one that is checked out if
	// it is empty.
	Plan(ctx context.Context, folder, revision, base string, names []string) (hub.CheckPlan, error)
	// Within reports whether a commit is another one, named in a folder, or an ancestor of it.
	Within(ctx context.Context, folder, commit, of string) (bool, error)
	// Queue stores the runs of a plan inside tx and returns the ids of their results. Start
	// starts them after the commit.
	Queue(tx hub.Tx, actor hub.Caller, p hub.CheckPlan, id hub.HandoffID) ([]hub.CheckResultID, error)
	Start()
	// Seen returns results as readers see them.
	Seen(r hub.Reader, ids []hub.CheckResultID, withTails bool) ([]hub.CheckResult, error)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Checks    Checks        // without it no checks run
	Bus       hub.Bus       // brings hints about results of checks; needed with Checks
	Board     Board         // without one no handoff goes into a team
	Files     Files         // without it no files are reserved
	Clock     hub.Clock     // default time.Now
	Log       *slog.Logger  // default silent
	Inspector Inspector     // without one every claim is unverifiable
	Queue     Queue         // without one items belong to the hub's own queue
	Onward    Continuations // without it no task goes on with another owner by itself
	SLA       time.Duration // from acceptance to completion; default DefaultSLA
	Inspect   time.Duration // the time limit of the checks of one package; default a minute

	// Page is the number of handoffs per read where all are needed; default 200.
	Page int

	// RequireProof refuses a handoff that is declared unproven, and a completion
	// that the hub cannot check.
	RequireProof bool

	// RequireChecks refuses a completion without passed checks.
	RequireChecks bool
}

// DefaultSLA is the time after which an accepted task is late.
const DefaultSLA = 24 * time.Hour

// A Service runs the handoffs of a hub. It is safe for concurrent use.
type Service struct {
	store     hub.Store
	sender    Sender
	inspector Inspector
	board     Board
	files     Files
	queue     Queue
	onward    Continuations
	checks    Checks
	bus       hub.Bus
	checking  checkingCalls
	clock     hub.Clock
	ids       *hub.IDs
	log       *slog.Logger
	sla       time.Duration
	inspect   time.Duration
	page      int
	diffs     diffs

	requireProof  bool
	requireChecks bool
	missing       missingWork
}

// New returns a service that keeps handoffs in store and notifies their parties
// through sender. opts may be nil.
func New(store hub.Store, sender Sender, opts *Options) *Service {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SLA <= 0 {
		o.SLA = DefaultSLA
	}
	if o.Inspect <= 0 {
		o.Inspect = time.Minute
	}
	if o.Page <= 0 {
		o.Page = maxPage
	}
	return &Service{
		store: store, sender: sender, inspector: o.Inspector, board: o.Board, files: o.Files, queue: o.Queue, onward: o.Onward, checks: o.Checks, bus: o.Bus, clock: o.Clock, ids: hub.NewIDs(o.Clock), log: o.Log,
		sla: o.SLA, inspect: o.Inspect, page: o.Page, requireProof: o.RequireProof, requireChecks: o.RequireChecks, diffs: newDiffs(),
	}
}

// An Approver is a word for those who approve a handoff before it can be accepted.
type Approver string

// The approvers.
const (
	ApproverOperator Approver = "operator"
	ApproverTeam     Approver = "team" // a member whose role permits it, or the operator
)

// A Report is a handoff as its parties see it.
type Report struct {
	ID       hub.HandoffID    `json:"handoff_id"`
	ShortID  hub.ShortID      `json:"short_id,omitempty"`
	TaskID   string           `json:"task_id"`
	Title    string           `json:"title"`
	From     hub.AgentID      `json:"from"`
	To       hub.AgentID      `json:"to"`
	Status   hub.HandoffState `json:"status"`
	Hash     string           `json:"package_hash"`
	ThreadID string           `json:"thread_id"`
	Reason   string           `json:"reason"`                     // why the task changes hands
	Criteria []string         `json:"success_criteria,omitempty"` // only in the answer to accept
	Reserved []string         `json:"reserved,omitempty"`         // likewise: the files of the scope that are reserved for the receiver
	Claims   []hub.Check      `json:"claims"`                     // the most recent checks of claims
	Proof    hub.Proof        `json:"proof"`

	// The members up to Checking follow from the progress of the work. Name fills them in.
	Checks   hub.ChecksWord    `json:"checks"`
	Review   hub.ReviewWord    `json:"review"`
	Landing  string            `json:"landing"`         // a hub.LandingWord, with the commit of work that landed
	Stage    hub.Stage         `json:"stage,omitempty"` // empty before the owner claims that the work is done
	Results  []hub.CheckResult `json:"results"`
	Returned string            `json:"returned,omitempty"` // why the work went back to its owner
	Checking bool              `json:"checking,omitempty"` // the checks of a completion still run; a message follows

	ProofReason      string           `json:"proof_reason,omitempty"` // why it is unproven or refused
	ProofNote        string           `json:"proof_note,omitempty"`   // what qualifies it, such as "not committed"
	TrivialWhy       string           `json:"trivial_why,omitempty"`  // why a trivial change is the task, says its owner; a part of ProofNote
	OtherNotes       []string         `json:"other_notes,omitempty"`  // the other parts of ProofNote
	Change           string           `json:"change,omitempty"`       // what changed, in one line
	Commit           string           `json:"commit,omitempty"`       // that has the work; empty if a part is not committed
	Attribution      []hub.Credit     `json:"attribution,omitempty"`  // agents that may have made a part of the change
	MissingSince     hub.Time         `json:"gone_since,omitzero"`    // when the work was taken back; only in Show and List
	ApprovalRequired bool             `json:"approval_required"`      // by the operator, or by a member of its team
	Approved         bool             `json:"approved"`               // by all that have to
	WaitsFor         []Approver       `json:"waits_for,omitempty"`    // whose approval it lacks
	Ownership        hub.Ownership    `json:"ownership,omitempty"`
	Team             hub.TeamID       `json:"team,omitempty"`
	TeamApproved     hub.AgentID      `json:"team_approved_by,omitempty"`
	Previous         hub.HandoffID    `json:"previous_handoff_id,omitempty"`
	Restricted       bool             `json:"restricted,omitempty"`
	Ending           hub.Ending       `json:"ending,omitempty"`
	RejectReason     hub.RejectReason `json:"reject_reason,omitempty"`
	Notes            string           `json:"resolution_notes,omitempty"`
	InitiatedAt      hub.Time         `json:"initiated_at,omitzero"`
	AcceptedAt       hub.Time         `json:"accepted_at,omitzero"`
	DueAt            hub.Time         `json:"due_at,omitzero"` // when it becomes late, while it is active
	ResolvedAt       hub.Time         `json:"resolved_at,omitzero"`

	Package json.RawMessage   `json:"package,omitempty"` // only in Show
	History []hub.HandoffStep `json:"history,omitempty"` // only in Show
	Runs    []hub.Run         `json:"runs,omitempty"`    // only in Show: the newest runs on the task

	Warnings     []string         `json:"warnings"`
	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
	Unread       int              `json:"unread"` // in the caller's own inbox; filled in by the surface

	work *hub.WorkChange // nil before the completion
}

// report returns a handoff as its parties see it, without package and history.
// checks are the most recent ones.
func (s *Service) report(h hub.Handoff, checks []hub.Check) Report {
	r := Report{
		ID: h.ID, TaskID: h.TaskID, Title: h.Title, From: h.From, To: h.To, Status: h.Status, Hash: h.Hash, ThreadID: h.ThreadID,
		Reason: h.Reason, Claims: checks, Checks: hub.ChecksNone, Review: hub.ReviewNone, Landing: string(hub.LandingNone), Results: []hub.CheckResult{}, ApprovalRequired: h.NeedsHuman || h.Team != "", Ownership: h.Ownership,
		Team: h.Team, TeamApproved: h.TeamApprovedBy, Previous: h.Previous, Restricted: h.Restricted, Ending: h.Ending, RejectReason: h.RejectReason, Notes: h.Notes,
		InitiatedAt: h.InitiatedAt, AcceptedAt: h.AcceptedAt, ResolvedAt: h.ResolvedAt, Warnings: []string{},
	}

	// A handoff can need the approval of the operator, of its team, or of both.
	byOperator := !h.NeedsHuman || !h.ApprovedAt.IsZero()
	byTeam := h.Team == "" || h.TeamApprovedBy != ""
	r.Approved = r.ApprovalRequired && byOperator && byTeam
	if h.WaitsForOperator() {
		r.WaitsFor = append(r.WaitsFor, ApproverOperator)
	}
	if h.WaitsForTeam() {
		r.WaitsFor = append(r.WaitsFor, ApproverTeam)
	}

	proof := proofOf(h, checks)
	r.Proof = proof.Proof
	r.ProofReason = proof.Reason
	r.ProofNote = proof.Note
	if c := proof.Change; c != nil {
		r.Change = c.Text
		r.Attribution = c.Credits
		r.work = c
		// The reason for a trivial change is the first note, and has a field of its own.
		r.TrivialWhy, r.OtherNotes = c.TrivialWhy, c.Notes
		if c.TrivialWhy != "" {
			r.OtherNotes = c.Notes[1:]
		}
		if c.Uncommitted == 0 {
			r.Commit = c.Now.Commit
		}
	}

	if r.Claims == nil {
		r.Claims = []hub.Check{}
	}
	if h.Status == hub.HandoffAccepted || h.Status == hub.HandoffActivated {
		r.DueAt = s.due(h)
	}

	switch {
	case h.Ownership.NeedsOperator():
		r.Warnings = append(r.Warnings, queueProblems[h.Ownership]+": the operator moves it by hand and then runs parley handoff workq "+string(h.ID)+" --done")
	case h.Ownership == hub.OwnershipHub && !h.AcceptedAt.IsZero():
		r.Ownership = hub.QueueNone
	}
	return r
}

// withholdFrom takes the text of a restricted handoff out of its report for an actor that reads
// it as an auditor only: its title, and everything that was written about it. Its parties,
// states, times and the id of its task stay.
func (r *Report) withholdFrom(rd hub.Reader, actor hub.Caller, h hub.Handoff) error {
	if !h.Restricted || !actor.ReadsAsAuditor() {
		return nil
	}
	isParty, err := takesPart(rd, actor.ID, h)
	if err == nil && !isParty {
		r.withhold()
	}
	return err
}

// withhold takes the text of a restricted handoff out of its report.
func (r *Report) withhold() {
	r.Title = hub.RestrictedText
	r.Reason, r.Notes = "", ""
	if r.ProofNote != "" || !r.MissingSince.IsZero() {
		r.ProofNote = withheldNote
	}
	r.TrivialWhy, r.OtherNotes = "", nil
	r.ProofReason = ""
	r.Change = ""
	r.Commit = ""
	r.Attribution, r.MissingSince = nil, hub.Time{}
	r.Claims, r.Package = []hub.Check{}, nil
	r.Results, r.Returned = []hub.CheckResult{}, ""
	for i := range r.History {
		r.History[i].Checks, r.History[i].Note = nil, ""
	}
	for i := range r.Runs {
		r.Runs[i] = r.Runs[i].Withheld()
	}
}

// withheldNote stands for the qualifications of a proof that a reader may not see.
const withheldNote = "qualified: read it on the hub"

// answer is a report with the capabilities of the hub.
func (s *Service) answer(h hub.Handoff, checks []hub.Check) Report {
	r := s.report(h, checks)
	r.Capabilities = s.sender.Capabilities()
	return r
}

// visible returns a handoff that the actor may see. To others it reports the same
// error as for one that does not exist.
func visible(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID) (hub.Handoff, error) {
	h, err := r.Handoff(id)
	isHidden := false
	if err == nil && !actor.Audits() {
		var isParty bool
		isParty, err = takesPart(r, actor.ID, h)
		isHidden = err == nil && !isParty
	}
	if isHidden || hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Handoff{}, notVisible(op, id)
	}
	return h, err
}

// takesPart reports whether an agent has a part in a handoff: it gives or gets the task, asked
// for it, or is a member of its team.
func takesPart(r hub.Reader, agent hub.AgentID, h hub.Handoff) (bool, error) {
	if h.Concerns(agent) {
		return true, nil
	}
	asked, err := askers(r, h)
	if err != nil || slices.Contains(asked, agent) {
		return err == nil, err
	}
	if h.Team == "" {
		return false, nil
	}
	m, err := r.Teamspaces().Members(hub.MemberQuery{Team: h.Team, Agent: agent, Limit: 1})
	return len(m) > 0, err
}

// notVisible is the error for a handoff that does not exist, or that the caller may
// not see.
func notVisible(op string, id hub.HandoffID) error {
	return hub.Errorf(hub.CodeNotFound, op, "no handoff %q that you can see", id).WithHint("{handoff.list} lists yours")
}

// Show returns a handoff with its package and history.
func (s *Service) Show(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	var out Report
	err := s.store.View(ctx, func(r hub.Reader) error {
		h, err := visible(r, "handoff.Show", actor, id)
		if err != nil {
			return err
		}
		steps, err := readSteps(r, id)
		if err != nil {
			return err
		}
		out = s.answer(h, lastChecks(steps))
		out.Package, out.History = h.Package, steps
		if out.Runs, err = r.Runs(hub.RunQuery{Handoff: id, Limit: maxRuns}); err != nil {
			return err
		}
		return out.withholdFrom(r, actor, h)
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: show %s: %w", id, err)
	}
	one := []Report{out}
	s.lookForWork(ctx, 0, one)
	return one[0], nil
}

// lastChecks returns the checks of the newest step that has any, but for the activation:
// it has the steps of the queue.
func lastChecks(steps []hub.HandoffStep) []hub.Check {
	for _, step := range slices.Backward(steps) {
		if len(step.Checks) > 0 && step.State != hub.HandoffActivated {
			return step.Checks
		}
	}
	return nil
}

// A Listing is a page of handoffs, newest first.
type Listing struct {
	Handoffs     []Report         `json:"handoffs"`
	Next         string           `json:"next"` // cursor for the page after this one, or ""
	Warnings     []string         `json:"warnings"`
	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
	Unread       int              `json:"unread"` // as in a Report
}

// maxRuns is the number of runs in the report of one handoff.
const maxRuns = 20

const (
	defaultPage = 50
	maxPage     = 200
)

// List returns handoffs: to callers that audit all of them, to others their own. The
// first page begins with those of others that wait for the approval of the caller as a
// member of their team. With mine, all callers get their own alone.
func (s *Service) List(ctx context.Context, actor hub.Caller, q hub.HandoffQuery, mine bool) (Listing, error) {
	if q.Limit == 0 {
		q.Limit = defaultPage
	}
	if err := checkList("handoff.List", q); err != nil {
		return Listing{}, err
	}

	own := mine || !actor.Audits()
	if own {
		q.Viewer = actor.ID
	}
	showsProposed := len(q.States) == 0 || slices.Contains(q.States, hub.HandoffProposed)
	withApprovable := own && !mine && q.Cursor == "" && showsProposed

	out, err := hub.Read(ctx, s.store, func(r hub.Reader) (Listing, error) { return s.readPage(r, actor, q, withApprovable) })
	if err != nil {
		return Listing{}, fmt.Errorf("handoff: list: %w", err)
	}
	out.Capabilities = s.sender.Capabilities()
	s.lookForWork(ctx, missingAge, out.Handoffs)
	return out, nil
}

// checkList refuses a limit, a state or a cursor of a listing that is none.
func checkList(op string, q hub.HandoffQuery) error {
	if q.Limit < 0 || q.Limit > maxPage {
		return hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, got %d", maxPage, q.Limit)
	}
	for _, st := range q.States {
		if !st.Known() {
			return hub.Errorf(hub.CodeInvalid, op, "unknown state %q", st).WithHint("use %s", hub.JoinWords(hub.HandoffStates))
		}
	}
	if q.Cursor != "" && !q.Cursor.Valid() {
		return hub.Errorf(hub.CodeInvalid, op, "invalid cursor %q", q.Cursor)
	}
	return nil
}

// readPage reads one page of handoffs, after those that the actor can approve if they are
// asked for.
func (s *Service) readPage(r hub.Reader, actor hub.Caller, q hub.HandoffQuery, withApprovable bool) (Listing, error) {
	out := Listing{Handoffs: []Report{}, Warnings: []string{}}
	limit := q.Limit
	q.Limit++ // one more than asked for tells whether there is a next page
	found, err := r.Handoffs(q)
	if err != nil {
		return out, err
	}
	if len(found) > limit {
		found = found[:limit]
		out.Next = string(found[limit-1].ID)
	}

	if withApprovable {
		waiting, err := s.approvable(r, actor, q)
		if err != nil {
			return out, err
		}
		found = append(waiting, found...)
	}

	// The checks decide the proof of a row, and are then left out.
	for _, h := range found {
		steps, err := readSteps(r, h.ID)
		if err != nil {
			return out, err
		}
		row := s.report(h, lastChecks(steps))
		row.Claims = []hub.Check{}
		if err := row.withholdFrom(r, actor, h); err != nil {
			return out, err
		}
		out.Handoffs = append(out.Handoffs, row)
	}
	return out, nil
}

// actionOf is the action of the journal entry for each move.
var actionOf = map[hub.HandoffState]actions.Action{
	hub.HandoffDraft:      actions.HandoffDrafted,
	hub.HandoffProposed:   actions.HandoffProposed,
	hub.HandoffValidating: actions.HandoffValidating,
	hub.HandoffAccepted:   actions.HandoffAccepted,
	hub.HandoffRejected:   actions.HandoffRejected,
	hub.HandoffActivated:  actions.HandoffActivated,
	hub.HandoffCompleted:  actions.HandoffCompleted,
	hub.HandoffClosed:     actions.HandoffClosed,
}

// stepFacts are the facts of the journal entry for a move, never the package.
type stepFacts struct {
	TaskID string           `json:"task_id"`
	From   hub.AgentID      `json:"from"`
	To     hub.AgentID      `json:"to"`
	Hash   string           `json:"package_hash"`
	Step   string           `json:"step_sha256"`
	Digest string           `json:"sha256,omitempty"` // of the handoff, with its first step
	Reason hub.RejectReason `json:"reject_reason,omitempty"`
	Ending hub.Ending       `json:"ending,omitempty"`
	Proof  hub.Proof        `json:"proof,omitempty"`
	Tree   string           `json:"tree,omitempty"`   // of the worktree at the completion
	Commit string           `json:"commit,omitempty"` // likewise
}

// A mover makes the moves of one transaction and collects its messages.
type mover struct {
	tx     hub.Tx
	actor  hub.Caller
	now    hub.Time
	files  Files         // may be nil
	onward Continuations // may be nil
	posted []hub.Message
}

// update runs fn in one transaction and, after the commit, announces the messages
// that fn posted. The store may run fn more than once; each time it gets a new
// mover.
func (s *Service) update(ctx context.Context, op string, actor hub.Caller, fn func(*mover) error) error {
	var m *mover
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		m = &mover{tx: tx, actor: actor, now: s.clock.Now(), files: s.files, onward: s.onward}
		return fn(m)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	s.sender.Announce(m.posted...)
	return nil
}

// move advances h to next with a step in its history and a journal entry. When it ends, the
// files that were reserved for it become free.
func (m *mover) move(h *hub.Handoff, next hub.HandoffState, note string, checks []hub.Check) error {
	moved, err := h.Advance(next, m.now)
	if err != nil {
		return err
	}
	step := hub.HandoffStep{State: next, At: m.now, Actor: m.actor.ID, Note: note, Checks: checks}
	if err := m.tx.PutHandoff(moved, h.Status, &step); err != nil {
		return err
	}
	ends := next.Ended() && !h.Status.Ended()
	*h = moved
	if err := m.record(*h, step); err != nil {
		return err
	}
	if m.onward != nil {
		posted, err := m.onward.Moved(m.tx, *h)
		if err != nil {
			return err
		}
		m.posted = append(m.posted, posted...)
	}
	if !ends || m.files == nil {
		return nil
	}
	posted, err := m.files.Done(m.tx, m.actor, "", h.ID)
	m.posted = append(m.posted, posted...)
	return err
}

// record writes the journal entry for a step.
func (m *mover) record(h hub.Handoff, step hub.HandoffStep) error {
	f := stepFacts{TaskID: h.TaskID, From: h.From, To: h.To, Hash: h.Hash, Step: step.Digest()}
	switch step.State {
	case hub.HandoffDraft:
		f.Digest = h.Digest()
	case hub.HandoffRejected:
		f.Reason, f.Ending = h.RejectReason, h.Ending
	case hub.HandoffCompleted:
		proof := proofOf(h, step.Checks)
		f.Ending, f.Proof = h.Ending, proof.Proof
		if proof.Change != nil {
			f.Tree, f.Commit = proof.Change.Now.Tree, proof.Change.Now.Commit
		}
	}
	return m.entry(actionOf[step.State], h, f)
}

// entry writes a journal entry about a handoff.
func (m *mover) entry(a actions.Action, h hub.Handoff, facts any) error {
	_, err := m.tx.Append(m.actor.Entry(m.now, a, string(h.ID), facts))
	return err
}

// active refuses an actor that is paused.
func active(op string, actor hub.Caller) error {
	if actor.Paused {
		return hub.Errorf(hub.CodeDenied, op, "%s is paused and cannot change a handoff", actor.ID).
			WithHint("to end the pause, {agent.resume} %s", actor.ID)
	}
	return nil
}

// post writes the message about a move to the receiver of a handoff and to the agents that asked for
// its work, except the actor.
func (s *Service) post(m *mover, actor hub.Caller, h hub.Handoff, t hub.MessageType, priority hub.Priority, payload any, fresh bool) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	policy := hub.DefaultPolicy
	if h.Restricted {
		policy.Sensitivity = hub.SensitivityHigh // notices outside the hub do not quote it
	}
	if priority == hub.PriorityCritical {
		policy.Visibility = hub.VisibilityAudit
	}
	to, err := audience(m.tx, actor, h, t)
	if err != nil || len(to) == 0 {
		return err
	}
	msg, err := s.sender.Post(m.tx, actor, hub.Envelope{
		To: to, Type: t, ThreadID: h.ThreadID, Priority: priority, Payload: raw, Policy: policy,
	}, fresh)
	m.posted = append(m.posted, msg)
	return err
}

// tell writes a message about a handoff from the hub to the coordinators, except
// the agent it is about. summary is cut to the length that a payload allows. ok is
// false if the hub is over its own limit of messages.
func (s *Service) tell(m *mover, about hub.AgentID, h hub.Handoff, summary, reason string, more map[string]any) (ok bool, err error) {
	payload := map[string]any{"summary": cut(summary, 270), "reason": reason, "handoff_id": h.ID}
	maps.Copy(payload, more)
	msg, err := s.sender.Tell(m.tx, about, hub.TypeStatusBlocked, h.ThreadID, payload)
	if err != nil || msg.ID == "" {
		return false, err
	}
	m.posted = append(m.posted, msg)
	return true, nil
}
