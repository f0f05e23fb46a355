// Package reservation decides which agent may change which file of a working tree.
//
// A reservation is taken by the edit: the guard of an agent's CLI asks before the edit, and the
// answer reserves the file in the same call. It is held by activity: by every sign of life of the
// holder's session, and not by a clock alone. Agents are bound by it; people are never asked.
//
// The rules are in rules.go as functions without a store: the end of a reservation, the holders
// of a file, content that an agent has not seen. ask.go applies them to one question in one
// transaction; sweep.go applies them in the background, so that every file becomes free after
// its holder is gone and agents that wait hear of it.
//
// The package reads no files itself. A Trees reads working trees on the machine of the hub;
// Sessions knows which sessions live. It is tested here against a model, and through a whole hub
// in package server.
package reservation

import (
	"context"
	"log/slog"
	"time"

	"github.com/parley-agents/parley/hub"
)

const (
	DefaultIdle = 15 * time.Minute // without a sign of life a reservation ends
	minIdle     = time.Minute
	maxIdle     = 24 * time.Hour

	editWithin   = 60 * time.Second // for an edit to come after its question
	takeWithin   = 2 * time.Minute  // for an agent that waited to take the file, before the next is told
	warnAfter    = 30 * time.Minute // of waiting, before the operator is told
	sweepEvery   = 15 * time.Second
	keepViews    = 30 * 24 * time.Hour // what agents saw of files is forgotten after this time
	keepOrphans  = 30 * 24 * time.Hour // changes that nobody committed are told for this time
	longest      = 24 * time.Hour      // of a reservation that was asked ahead
	maxPaths     = 4096                // reserved by one agent
	MaxQuestion  = 512                 // paths of one question; the transaction that decides it looks at each
	maxPatterns  = 64                  // reserved by one agent
	maxPattern   = 512                 // bytes of a pattern
	maxStars     = 16                  // of a pattern
	maxPath      = 4096                // bytes of a path
	maxSession   = 512                 // bytes of the id of a session
	maxCommand   = 1 << 18             // bytes of a command
	maxWhy       = 500                 // bytes
	maxText      = 400                 // bytes of the text of a denial, which a model reads
	maxNotes     = 20                  // of one answer
	maxListed    = 1000
	sweepLimit   = 200 // working trees of one sweep
	noticeTopic  = "reservations"
	overlapEvery = 24 * time.Hour // for one pair of agents and one path
)

// Files and differences of working trees.
type (
	File       = hub.TreeFile
	Difference = hub.TreeDifference
)

// Trees reads working trees on the machine of this hub.
type Trees interface {
	// Tree returns the working tree of an absolute path that is its top or lies in it. It
	// reports CodeOutsideRoots for a path under no root, CodeInvalid for one that is no folder.
	Tree(ctx context.Context, path string) (hub.WorkingTree, error)
	// Names returns paths relative to the top of a tree, with slashes. It reports CodeInvalid for a
	// path outside of the tree, also by a link, and for one in a submodule.
	Names(ctx context.Context, t hub.WorkingTree, paths []string) ([]string, error)
	// Files returns files of a tree. One that cannot be read has no digest.
	Files(ctx context.Context, t hub.WorkingTree, names []string) (map[string]File, error)
	// Count returns how many files of a tree a pathspec matches, at most limit.
	Count(ctx context.Context, t hub.WorkingTree, pattern string, limit int) (int, error)
	// Differs returns which of some files differ between the checked-out commit and another.
	Differs(ctx context.Context, t hub.WorkingTree, ref string, names []string) ([]string, error)
	// Staged returns the files whose state in the index differs from the checked-out commit.
	Staged(ctx context.Context, t hub.WorkingTree) ([]string, error)
	// Difference returns the change of a file since the checked-out commit.
	Difference(ctx context.Context, t hub.WorkingTree, name string) (Difference, error)
}

// A Life is what the hub knows about a session.
type Life = hub.SessionLife

// Sessions knows the sessions of agents.
type Sessions interface {
	// Life returns what is known about a session of an agent; about any live one of the agent if
	// session is "".
	Life(r hub.Reader, agent hub.AgentID, session string) (Life, error)
}

// Mail writes messages of the hub.
type Mail interface {
	// Notify writes a message of the hub inside tx. It is never dropped.
	Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error)
	// KeepText stores a text and returns a reference to it.
	KeepText(text string) (hub.ArtifactRef, error)
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock     // default time.Now
	Bus   hub.Bus       // gets a hint after every change; may be nil
	Log   *slog.Logger  // default silent
	Idle  time.Duration // default DefaultIdle; one minute to 24 hours

	// Machine is the name of this machine where hubs of others have the same store, else "".
	Machine string
	// IdleOf returns the time of idleness in the repository of a working tree, 0 for Idle. It may
	// be nil.
	IdleOf func(tree hub.WorkingTree) time.Duration
	// Off reports whether the repository of a working tree wants no guard: every edit there is
	// allowed, and reserves nothing. It may be nil.
	Off func(tree hub.WorkingTree) bool
	// Stops says which agents must stop, whatever they change.
	Stops Stops
}

// A Service keeps reservations in a store. It is safe for concurrent use.
type Service struct {
	store    hub.Store
	trees    Trees
	sessions Sessions
	mail     Mail
	must     Stops
	clock    hub.Clock
	bus      hub.Bus
	log      *slog.Logger
	idle     time.Duration
	idleOf   func(hub.WorkingTree) time.Duration
	off      func(hub.WorkingTree) bool
	machine  string
	watched  watched
	activity activity
	matchers matchers
	keeper   Keeper        // may be nil
	hurry    chan struct{} // tells Run to look at once
}

// New returns a Service. opts may be nil. It reports CodeInvalid for a time of idleness out of
// its bounds.
func New(store hub.Store, trees Trees, sessions Sessions, mail Mail, opts *Options) (*Service, error) {
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
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if err := CheckIdle(o.Idle); err != nil {
		return nil, err
	}

	return &Service{
		store: store, trees: trees, sessions: sessions, mail: mail,
		clock: o.Clock, bus: o.Bus, log: o.Log, idle: o.Idle, idleOf: o.IdleOf, off: o.Off, must: o.Stops, machine: o.Machine,
		watched:  watched{calls: map[callKey]map[string]string{}},
		activity: activity{last: map[hub.AgentID]hub.Time{}},
		hurry:    make(chan struct{}, 1),
	}, nil
}

// CheckIdle reports CodeInvalid for a time of idleness out of its bounds.
func CheckIdle(d time.Duration) error {
	if d < minIdle || d > maxIdle {
		return hub.Errorf(hub.CodeInvalid, "reservation.CheckIdle", "reservations.idle must be between %s and %s, got %s", minIdle, maxIdle, d)
	}
	return nil
}

// idleIn returns the time of idleness in a working tree.
func (s *Service) idleIn(t hub.WorkingTree) time.Duration {
	if s.idleOf != nil {
		if d := s.idleOf(t); d != 0 {
			return d
		}
	}
	return s.idle
}
