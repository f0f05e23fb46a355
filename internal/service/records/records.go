// Package records keeps the history of a hub in files, all in one format, the
// segment: a header, lines, and a seal with counts and hashes. The trail is the
// segments that follow the journal while it grows, an archive is a segment with
// old entries and messages that have left the store, and an export is a segment
// with a snapshot of every table.
//
// A process that is killed at any instant loses and doubles nothing, and the
// same store gives the same bytes. Verify compares the store, the trail and the
// archives with the journal. It proves that they agree, not that they are true:
// see docs/audit.md.
package records

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Folders are the places of the files. Verify reports an empty name as
// unchecked.
type Folders struct {
	Trail    string // the trail and the head of the journal
	Archives string
	Position string // the file with the position of a verification that paused

	// Name tells the trails of several hubs on one store apart: each has its own cursor.
	Name string
}

// cursor returns the name of the trail among the consumers of the journal.
func (f Folders) cursor() string {
	if f.Name == "" {
		return trailCursor
	}
	return trailCursor + "/" + f.Name
}

// Options changes how Records work. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Bus   hub.Bus      // gives hints that the journal has grown; without one Run copies every minute
	Log   *slog.Logger // default silent

	// Consumers are the cursors that follow the journal. Entries that one of
	// them has not passed are not archived. The trail is always among them.
	Consumers []string

	EmptyLog  func(context.Context) error // removes replaced bytes from the log of the store; may be nil
	Artifacts Artifacts                   // loses the content that a forgotten message alone named; may be nil
	Refs      Refs                        // reads the branches that work landed in; may be nil

	Keep time.Duration // age at which Run archives; default 90 days
	Seal int64         // bytes after which a file of the trail is sealed; default 64 MiB
}

// Artifacts keeps content by its SHA-256.
type Artifacts interface {
	// Remove removes content, if it is there.
	Remove(sha256 string) error
}

// Records are the records of one store. They are safe for concurrent use.
type Records struct {
	store     hub.Store
	folders   Folders
	clock     hub.Clock
	bus       hub.Bus
	log       *slog.Logger
	consumers []string
	keep      time.Duration
	trail     *trail
	artifacts Artifacts
	refs      Refs
	emptyLog  func(context.Context) error
	archiving sync.Mutex   // one archive or removal at a time; before files
	verifying sync.Mutex   // one verification with a position at a time; before files
	files     sync.RWMutex // held to read while segments are verified, to write while they are written again
}

// New returns the records of a store. Folders are made when they are needed.
// opts may be nil.
func New(store hub.Store, folders Folders, opts *Options) *Records {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Seal <= 0 {
		o.Seal = sealAfter
	}
	return &Records{
		store: store, folders: folders, clock: o.Clock, bus: o.Bus, log: o.Log, consumers: o.Consumers, keep: o.Keep, artifacts: o.Artifacts, refs: o.Refs, emptyLog: o.EmptyLog,
		trail: &trail{store: store, cursor: folders.cursor(), dir: folders.Trail, sealAfter: o.Seal, log: o.Log},
	}
}

// Copy brings the trail up to the journal.
func (r *Records) Copy(ctx context.Context) error { return r.trail.copy(ctx) }

// Run keeps the trail up to date and archives once a day, until ctx ends.
func (r *Records) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := hub.Contain("records.Forget", func() error { return r.resumeRemoval(ctx) }); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot remove the text of a message from all files, the next start retries", "op", "records.Forget", "err", err)
		}
		r.runArchive(ctx)
	})
	r.trail.run(ctx, r.bus)
}
