// Package check keeps the checks of repositories: commands that the operator allowed, which the
// hub runs on commits, and their results.
//
// A command comes from the operator alone: by Add, or by Trust of the checks that a repository
// proposes in a file. Nothing that an agent sends, and nothing that a branch changes, is a
// command. A run is a row of the store before it starts. A hub that is stopped queues its runs again;
// one that was killed finds them and calls them interrupted, so that a run that kills the hub does so
// once. A result is kept by the tree of the commit and the digest of the check, and answers
// later requests for the same.
//
// The package runs nothing itself. A Runner runs one command on one commit; Repositories reads
// commits from the hub's own copies. Both are connected in package server, where the whole is
// tested; the rules are tested here.
package check

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/tail"
)

const (
	DefaultTimeout = 10 * time.Minute
	minTimeout     = time.Second
	maxTimeout     = 24 * time.Hour
	maxWords       = 256      // of a command
	maxWord        = 16 << 10 // bytes
	maxList        = 64       // of other lists of a check
	maxPath        = 4096     // bytes
	maxListed      = 200
	tailBytes      = 64 << 10
	quota          = 512 << 20 // bytes of outputs that are kept as artifacts
	tidyAfter      = 20        // runs between two looks at the quota

	// DefaultWait and MaxWait bound the time that a call waits for results.
	DefaultWait = 20 * time.Second
	MaxWait     = 100 * time.Second
)

// A Commit is a commit in the hub's own copy of a repository.
type Commit = hub.Commit

// Repositories reads the repositories of this machine.
type Repositories interface {
	// Find returns the repository around an absolute path. It reports CodeOutsideRoots for a path
	// under no root, CodeInvalid for one in no repository, and CodeUnreachable for one on a
	// machine whose hub is away.
	Find(ctx context.Context, folder string) (hub.Repository, error)
	// Fetch brings the commit that a revision names in a folder into the hub's copy. It reports
	// CodeNotFound when there is none.
	Fetch(ctx context.Context, folder, revision string) (Commit, error)
	// Keep protects a commit of the hub's copy while results name it.
	Keep(ctx context.Context, folder, name, commit string) error
	// Changes returns the files that differ between two commits of the hub's copy.
	Changes(ctx context.Context, folder, old, new string) ([]hub.CommitChange, error)
	// Within reports whether a commit is another one or an ancestor of it.
	Within(ctx context.Context, folder, commit, of string) (bool, error)
	// File returns a file of a commit, nil if there is none.
	File(ctx context.Context, folder, commit, name string) ([]byte, error)
	// OnTarget reports whether a commit is one of the branch that work lands in.
	OnTarget(ctx context.Context, folder, commit string) (bool, error)
	// Before returns the commits of that branch on which a commit of the copy is based, the
	// nearest first, at most so many.
	Before(ctx context.Context, folder, commit string, most int) ([]Commit, error)
}

// A Job is one run of a check on a commit.
type Job struct {
	Repository hub.Repository
	Commit     Commit
	Check      hub.RepositoryCheck
	Fills      bool      // its caches are those of later runs
	Folder     string    // where it runs if the check runs in place
	Live       io.Writer // gets the output as it comes
	Contract   []byte    // content of the version of a contract to test; nil for none
}

// An Outcome is the end of a job.
type Outcome struct {
	State     hub.CheckState
	ExitCode  int
	Duration  time.Duration
	Tests     *hub.TestCount
	Tail      []byte // the end of the output
	Bytes     int64  // of the whole output
	SHA256    string // likewise
	Output    io.ReadCloser
	Confined  bool
	Level     int      // of its confinement
	Not       []string // what that does not cover
	InPlace   bool
	Before    string // of a run in place: the files as a git tree
	After     string
	Reason    string // why it was not started or ended early
	Abandoned bool   // the hub ends: the run counts as never started
}

// NotStarted returns the end of a job that was not started.
func NotStarted(reason string) Outcome {
	return Outcome{State: hub.ResultNotStarted, Reason: reason}
}

// A Runner runs jobs. After a kill of the hub, it ends what is left of them at the next start.
type Runner interface {
	// Run runs a job until its end. It returns an error only for a fault of the hub.
	Run(ctx context.Context, j Job) (Outcome, error)
}

// Content keeps outputs by their SHA-256.
type Content interface {
	Put(io.Reader) (path, sha256 string, size int64, err error)
	Remove(sha256 string) error
}

// Contracts knows the contracts of the projects that a repository is in.
type Contracts interface {
	// Version returns the version that a text such as User@2 names in a project of a repository.
	Version(ctx context.Context, r hub.Repository, text string) (hub.ContractRef, error)
	// Content returns the content of a version.
	Content(ctx context.Context, ref hub.ContractRef) ([]byte, error)
	// Test makes a check the only test of a contract in a repository.
	Test(ctx context.Context, actor hub.Caller, r hub.Repository, ref hub.ContractRef, check string) error
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock   hub.Clock    // default time.Now
	Log     *slog.Logger // default silent
	Content Content      // without it only the ends of outputs are kept
	Jobs    int          // runs at a time; default half of the cores, at least two
	Machine string       // the name of this machine where hubs of others have the same store, else ""
	Hub     string       // the name of this hub among those, else ""

	// Tell writes a message to the operator or an agent, and Announce wakes its reader after the commit.
	// Both may be nil.
	Tell     func(tx hub.Tx, to hub.AgentID, payload any) (hub.Message, error)
	Announce func(messages ...hub.Message)

	Contracts Contracts // without it no run names a contract

	// Require reports whether the settings want passed checks for every completion in a
	// repository. It may be nil.
	Require func(hub.Repository) bool

	// Judge returns what a change does to the things that judge it. Default: nothing.
	Judge func(JudgedChange) []hub.JudgeFinding
}

// A JudgedChange is the change of a commit, with the checks that judge it.
type JudgedChange struct {
	Files         []hub.CommitChange
	Checks        []hub.RepositoryCheck
	Before, After func(name string) []byte // the content of a file without and with the change; nil if there is none, or it is large
}

// A Service keeps the checks of repositories and runs them. It is safe for concurrent use.
type Service struct {
	store   hub.Store
	repos   Repositories
	runner  Runner
	content Content
	clock   hub.Clock
	log     *slog.Logger
	bus     hub.Bus
	jobs    int
	machine string
	hub     string
	require func(hub.Repository) bool
	judge   func(JudgedChange) []hub.JudgeFinding
	tell    func(tx hub.Tx, to hub.AgentID, payload any) (hub.Message, error)
	say     func(messages ...hub.Message)

	contracts Contracts

	mu      sync.Mutex // guards the fields below
	live    map[hub.CheckResultID]*tail.Buffer
	running map[hub.CheckResultID]lane
	last    map[hub.Repository]lane // of the last run that began
	untidy  int                     // runs since the quota was looked at
}

// New returns a Service. bus gets a hint after every change; opts may be nil.
func New(store hub.Store, repos Repositories, runner Runner, bus hub.Bus, opts *Options) *Service {
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
	if o.Tell == nil || o.Announce == nil {
		o.Tell = func(hub.Tx, hub.AgentID, any) (hub.Message, error) { return hub.Message{}, nil }
		o.Announce = func(...hub.Message) {}
	}
	if o.Jobs <= 0 {
		o.Jobs = max(2, runtime.NumCPU()/2)
	}
	return &Service{
		store: store, repos: repos, runner: runner, content: o.Content, clock: o.Clock, log: o.Log, bus: bus, jobs: o.Jobs, machine: o.Machine, hub: o.Hub, require: o.Require, judge: o.Judge, tell: o.Tell, say: o.Announce, contracts: o.Contracts,
		live: map[hub.CheckResultID]*tail.Buffer{}, running: map[hub.CheckResultID]lane{}, last: map[hub.Repository]lane{},
	}
}

// hint wakes the executor and the calls that wait for results, here and on other hubs.
func (s *Service) hint() {
	s.bus.Publish(hub.TopicChecks)
	s.bus.Publish(hub.TopicJournal)
}
