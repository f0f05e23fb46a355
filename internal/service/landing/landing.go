// Package landing brings finished work into the target branch of a repository: reviews, and one
// queue for each repository and branch.
//
// The queue takes the head of the target, merges entries onto it in a repository of the hub's
// own, runs the checks of the policy on the state that will be, and moves the target by
// compare-and-set. Several entries are tried together; a red batch is divided until the culprit
// is alone, and that one goes back to its owner with the reason. The function next in plan.go
// decides what a queue does, from facts alone; worker.go does it.
//
// The target branch is the truth. Before it is moved, each entry records the commit that it is
// about to be moved to. After a kill the queue compares that commit with the target: the entry
// has landed, or it is tried again. So each entry lands once or not at all.
//
// The package runs no git and no check itself: Git and Checks do, on the machine of the
// repository. It is tested here with real repositories, and through a whole hub in package
// server.
package landing

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

const (
	DefaultBatch   = 4
	maxBatch       = 64
	maxReturns     = 5    // of one entry, before the operator decides
	maxOpen        = 1000 // entries that wait in all queues
	maxChecks      = 64   // of one policy
	maxRef         = 500  // bytes
	maxReason      = 1000 // bytes
	maxFindings    = 200  // of one review
	maxFindingText = 2000 // bytes
	maxListed      = 500
	maxReturned    = 100 // returned entries whose branches are looked at
	maxCompleted   = 200 // completed handoffs and tasks that are looked at
	maxTexts       = 20  // conflicting files whose texts are sent
	maxText        = 64 << 10
	maxTail        = 2000    // bytes of output in a message
	maxJudged      = 20      // findings about things that judge one change
	maxHeld        = 200     // handoffs that a branch or a commit is compared with
	maxPart        = 1 << 20 // bytes of one part of a difference to review

	RespondWithin = 30 * time.Minute // for a reviewer, before the hub reminds it, and again before the operator is told

	leaseTime   = 30 * time.Second
	heldFor     = 90 * 24 * time.Hour // of handoffs that a branch or a commit is compared with
	reviewAge   = 7 * 24 * time.Hour  // of completed handoffs whose reviews are asked for
	lookEvery   = 5 * time.Second     // at branches, trees in the way and finished work
	againAfter  = time.Minute         // for an entry whose checks could not run
	sweepEvery  = time.Minute         // of reviews
	noticeTopic = "landing"
)

// The states of repositories that Git returns.
type (
	Commit     = hub.Commit
	Conflict   = hub.FileConflict
	Merge      = hub.CommitMerge
	Forwarding = hub.Forwarding
	Change     = hub.BranchChange
	Patch      = hub.ReviewPatch
	File       = hub.FileChange
	Join       = hub.MergeCommit
)

// Git reads and writes the repositories of users, and the hub's own copies of them. All but
// Repository take the name that Repository returned.
type Git interface {
	// Repository returns the name of the repository around a folder: the folder of its main
	// working tree, or its own if it has none, without links. It reports CodeInvalid if there is
	// no repository.
	Repository(ctx context.Context, folder string) (string, error)
	// Resolve returns the commit of a revision in the user's repository, and brings it into the
	// copy. It reports CodeNotFound if there is none.
	Resolve(ctx context.Context, repository, revision string) (Commit, error)
	// Branch returns the commit of a branch of the user's repository. It reports CodeNotFound if
	// there is none.
	Branch(ctx context.Context, repository, branch string) (Commit, error)
	// Contains reports whether a commit is in the history of another, or is that one. Commits that
	// the copy does not have are in no history.
	Contains(ctx context.Context, repository, head, commit string) (bool, error)
	// Merge merges a change onto a commit, in the copy.
	Merge(ctx context.Context, repository string, onto, change Commit, message string) (Merge, error)
	// Revert makes a commit onto another that takes back a merge commit, in the copy.
	Revert(ctx context.Context, repository string, onto Commit, merged, message string) (Merge, error)
	// Forward moves a branch of the user's repository from one commit to the next, and working
	// trees in which it is checked out. It changes nothing, or all of that.
	Forward(ctx context.Context, repository, branch, from, to string) (Forwarding, error)
	// Change returns the difference of a commit from the common ancestor with another, of which the
	// patch has at most a number of bytes.
	Change(ctx context.Context, repository, target, commit string, most int) (Change, error)
	// Files returns the files that differ between two commits or trees.
	Files(ctx context.Context, repository, from, to string) ([]File, error)
	// Fork returns the commit at which a change left a target: the oldest commit of the target's
	// history that a commit of the change has as a parent. It is "" if there is none.
	Fork(ctx context.Context, repository, target, commit string) (string, error)
	// Missing returns those of some commits that a target does not have, each with whether a change has
	// it. Commits that are gone are left out.
	Missing(ctx context.Context, repository, target, change string, commits []string) (map[string]bool, error)
	// Joins returns the merge commits of a change that a target does not have.
	Joins(ctx context.Context, repository, target, commit string) ([]Join, error)
	// Combine merges two commits as files: from a base, or from the one that the history has if base
	// is "". It returns the tree, in which conflicting files have marks, and the conflicting paths.
	Combine(ctx context.Context, repository, base, ours, theirs string) (tree string, conflicts []string, err error)
	// Compose makes a commit of a tree, with parents.
	Compose(ctx context.Context, repository, tree, message string, parents ...string) (Commit, error)
	// SamePatch reports whether two commits bring the same changes to a target.
	SamePatch(ctx context.Context, repository, target, a, b string) (bool, error)
	// Patch returns the difference between two commits, with a text of at most a number of bytes.
	Patch(ctx context.Context, repository, from, to string, most int) (Patch, error)
	// Keep protects a commit of the copy under a name; Drop ends that.
	Keep(ctx context.Context, repository, name, commit string) error
	Drop(ctx context.Context, repository, name string) error
}

// The questions about checks, and the answers.
type (
	CheckRun    = hub.CommitChecks
	Check       = hub.KnownCheck
	CheckReport = hub.CommitReport
)

// Checks runs the commands that the operator allowed for a repository.
type Checks interface {
	// Known returns the checks that the operator allowed for a repository.
	Known(ctx context.Context, repository string) ([]Check, error)
	// Concerned returns those of the named checks that the difference between two commits concerns:
	// the ones without patterns, and the ones of which it touches a pattern.
	Concerned(ctx context.Context, repository, from, to string, names []string) ([]string, error)
	// Judged returns what a change does to the named checks and to tests, which judge it: the change of
	// a commit since it left a target.
	Judged(ctx context.Context, repository, target, commit string, names []string) ([]hub.JudgeFinding, error)
	// Run runs checks, or takes the kept results for the tree of the commit. An error means that
	// they could not run: it says nothing about the commit.
	Run(ctx context.Context, q CheckRun) (CheckReport, error)
	// Output returns the end of the output of the check that runs now on a commit; "" if none does.
	Output(ctx context.Context, repository string, c Commit) string
}

// Contracts knows the contracts that a repository is a party of.
type Contracts interface {
	// Broken returns a sentence about the first contract that does not hold, or for which a commit
	// may not be merged, with the repositories that use it; "" if there is no such contract. The zero
	// Commit asks about the contracts alone.
	Broken(ctx context.Context, repository string, c Commit) (string, error)
	// Names returns the contracts about which Broken asks, by name and version, such as User@2.
	Names(ctx context.Context, repository string) ([]string, error)
}

// A Subject names the handoff or the task of a team whose work lands. One of its members is set.
type Subject struct {
	Handoff hub.HandoffID
	Task    hub.TaskID
}

// String returns the id of the handoff or the task.
func (s Subject) String() string {
	if s.Handoff != "" {
		return string(s.Handoff)
	}
	return string(s.Task)
}

// A Finished names work that its owner completed, with the time. Work that was returned and
// completed again has another time.
type Finished struct {
	Subject
	At hub.Time
}

// A Piece is the finished work of a handoff or a task.
type Piece struct {
	Subject
	Short    hub.ShortID // of its handoff, such as h3; may be empty
	Folder   string      // of its working tree
	Commit   string
	Base     string // the commit that was checked out when the task was accepted; may be empty
	Branch   string // may be empty
	Owner    hub.AgentID
	Authors  []hub.AgentID // agents that made a part of it
	Title    string
	Criteria []string // by which the work succeeds
	Priority hub.Priority
	Review   string      // the reviewer that its package asks for; "" for none
	Asker    hub.AgentID // the sender of the package
	Checks   []string    // that its package or task asks for
	IsDone   bool        // its owner completed it, and no check of it runs: it can be reviewed
	Missing  string      // why it is not complete, such as "its checks failed"; "" if proof and checks are complete
	Note     string      // for its reviewer: results of checks
	Fewer    string      // such as "tests: 41 before, 12 now", if a check has fewer tests than before
	Ended    hub.Time    // when it was completed
}

// ref returns the name of the work for readers: the short id of its handoff, or the id.
func (p Piece) ref() string { return cmp.Or(string(p.Short), p.Subject.String()) }

// Work knows the work of handoffs and of tasks of teams.
type Work interface {
	// Piece returns the work of a handoff or a task that the actor may see.
	Piece(ctx context.Context, actor hub.Caller, s Subject) (Piece, error)
	// Completed returns the work that was completed since a time, at most limit handoffs and limit
	// tasks.
	Completed(ctx context.Context, since hub.Time, limit int) ([]Finished, error)
	// Held returns the work of handoffs in a repository that were accepted since a time: what a change
	// may have that was queued as a branch or a commit.
	Held(ctx context.Context, repository string, since hub.Time, limit int) ([]Piece, error)
	// Reviewed closes the handoff of work that a review approved, or that landed if review is nil,
	// inside tx. The caller announces the messages after the commit.
	Reviewed(tx hub.Tx, id hub.HandoffID, review *hub.Review) (posted []hub.Message, err error)
	// Return makes the task of returned work active again, inside tx. It reports whether it is: not
	// if its owner does not have it any more. The caller announces the messages after the commit.
	Return(tx hub.Tx, s Subject, reason string) (active bool, posted []hub.Message, err error)
}

// Mail writes messages of the hub.
type Mail interface {
	// Notify writes a message of the hub inside tx. It is never dropped.
	Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error)
	// KeepText stores a text and returns a reference to it.
	KeepText(text string) (hub.ArtifactRef, error)
	// Kept returns a reference to a text that was stored before.
	Kept(sha256 string) (hub.ArtifactRef, error)
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock     hub.Clock    // default time.Now
	Bus       hub.Bus      // gets a hint after every change; may be nil
	Log       *slog.Logger // default silent
	Contracts Contracts    // without it no contracts are asked
	Work      Work         // without it no handoffs and no tasks land

	Vendors Vendors // without it no agent is of another vendor

	// RespondWithin is the time for a reviewer; default RespondWithin.
	RespondWithin time.Duration
	// Machine is the name of this machine where hubs of others have the same store, else "".
	Machine string
}

// A Service keeps the landing queues of a hub in a store. It is safe for concurrent use.
type Service struct {
	store     hub.Store
	git       Git
	checks    Checks
	contracts Contracts
	work      Work
	vendors   Vendors
	mail      Mail
	clock     hub.Clock
	bus       hub.Bus
	log       *slog.Logger
	respond   time.Duration
	machine   string

	mu     sync.Mutex             // guards what follows
	live   map[string]*live       // by queue
	moving map[hub.LandingID]bool // entries whose target is being moved
	swept  hub.Time               // when reviews were last looked at
	others hub.Time               // when reviews of another vendor were last looked at
	looked hub.Time               // when finished work of repositories without a queue was last looked at
	passed []Finished             // of that, the work that needs nothing more
	target map[string]Target      // by queue
}

// New returns a Service. opts may be nil.
func New(store hub.Store, git Git, checks Checks, mail Mail, opts *Options) *Service {
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
	if o.RespondWithin <= 0 {
		o.RespondWithin = RespondWithin
	}
	return &Service{
		store: store, git: git, checks: checks, contracts: o.Contracts, work: o.Work, vendors: o.Vendors, mail: mail, clock: o.Clock, bus: o.Bus, log: o.Log,
		respond: o.RespondWithin, machine: o.Machine, live: map[string]*live{}, moving: map[hub.LandingID]bool{}, target: map[string]Target{},
	}
}

// topic is where a hint goes after every change of a queue.
const topic = "landing"

// publish tells the queues and the consumers of the journal that something changed.
func (s *Service) publish() {
	if s.bus != nil {
		s.bus.Publish(topic)
		s.bus.Publish(hub.TopicJournal)
	}
}

// follow calls the steps of a consumer after each change of a queue, and from time to time.
func (s *Service) follow(ctx context.Context, c hub.Consumer) {
	if s.bus != nil {
		hints, cancel := s.bus.Subscribe(topic)
		defer cancel()
		c.Kick = hints
	}
	hub.Follow(ctx, s.store, nil, c)
}

// move marks entries while their target is moved, and returns the function that ends that. Nothing
// else changes them meanwhile.
func (s *Service) move(group []hub.LandingEntry) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range group {
		s.moving[e.ID] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range group {
			delete(s.moving, e.ID)
		}
	}
}

// isMoving reports whether the target of an entry is being moved: it must not be changed.
func (s *Service) isMoving(e hub.LandingEntry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moving[e.ID] || (e.Step != "" && e.State == hub.EntryTrying)
}
