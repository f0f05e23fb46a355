// Package evidence looks at files and repositories and says what is there.
//
// It has two entrances. An Inspector checks what others claim about things
// under the roots that an operator chose. A Base remembers what lay in a folder
// that the user of this machine chose, and checks the report of an agent that
// worked there: Snapshot before the work; after it Compare, then Command for
// what the user wants to see pass, Since for what that changed, and Judge.
//
// # Claims under roots
//
// An Inspector compares what somebody claims (a file with a hash, a branch, a
// commit, a worktree) with what lies under the roots it was given, and answers
// each claim with a Check: verified, failed or unverifiable, and why.
//
// It promises:
//
//   - Nothing outside the roots is looked at. A path that is not under a root
//     gets the same answer whether or not something is there; so does one that
//     leads out of a root through a link or "..".
//   - Nothing that a claim or a repository says is run. Git runs with fixed
//     arguments in an empty repository made for the occasion, which borrows the
//     objects of the one looked at and nothing else: the configuration, hooks,
//     filters, index and files of that repository never reach git.
//   - Everything is bounded: bytes read, entries listed, git's output, time.
//   - Nothing under the roots is changed.
//
// It does not prove who made what, and it does not fetch: what is named by a
// web address or lies with another service is unverifiable. Commits claimed and
// files are hashed here; that the folders of a commit and the history between
// commits are what their names say is git's word. Somebody who can
// replace files inside a repository's object store at the very moment git reads
// them can make git open a file outside the roots; all that shows is whether
// that file is the git object asked for.
//
// # Reports
//
// A Base compares trees, not commits: who commits, stages, or switches branches
// is judged by the files alone. Each file that git does not ignore is read and
// hashed here; git sees the rule files, the objects of the repository and, to
// count lines, copies of what changed, in a repository of its own in a
// temporary folder. It promises, as above, that nothing a repository says is
// run, that everything is bounded, and that neither the working tree nor
// anything in the repository is changed. The one thing that is run is what the
// user gave to Command.
//
// It does not see what is written to files that git ignores, unless a report
// names them; what is written outside the folder; and what is undone before it
// looks. Nor does it know who wrote: what somebody else changes in the folder
// meanwhile is taken for the agent's work.
//
// The first look at 10,000 files with 50 MB takes about 0.6 seconds on a machine
// with two cores, and a later one 0.1 seconds: a file whose times and size are
// what they were is not read again.
package evidence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Result is the verdict on one claim.
type Result string

// The results.
const (
	Verified     Result = "verified"     // it is as claimed
	Failed       Result = "failed"       // it was looked at and is not as claimed
	Unverifiable Result = "unverifiable" // it could not be looked at; the claim may still be true
)

// What a Check can be about.
const (
	WhatFile       = "file"
	WhatReference  = "reference"
	WhatRepository = "repository"
	WhatBranch     = "branch"
	WhatCommit     = "commit"
	WhatWorktree   = "worktree"
	WhatClean      = "clean"
)

// A Check is the answer to one claim.
type Check struct {
	What   string   `json:"what"`
	Result Result   `json:"result"`
	Code   hub.Code `json:"code,omitempty"` // why it is not verified; empty if it is
	Detail string   `json:"detail"`         // what was found, for people
}

// results says which verdict the reason for a refusal leads to. Any other
// reason is trouble of the hub's own, which proves nothing.
var results = map[hub.Code]Result{
	hub.CodeInvalid:      Failed,       // the claim itself cannot be true
	hub.CodeHashMismatch: Failed,       // other content is there
	hub.CodeNotFound:     Failed,       // nothing is there
	hub.CodeConflict:     Failed,       // something else is there
	hub.CodePolicy:       Failed,       // a link under a root that leads out of it
	hub.CodeDenied:       Unverifiable, // not under a root
	hub.CodeTooLarge:     Unverifiable, // over a bound
	hub.CodeNotEnabled:   Unverifiable, // of a kind that is not looked at
	hub.CodeDegraded:     Unverifiable, // cannot be read, or not in time
}

// verified returns the check of a claim that holds.
func verified(what, format string, args ...any) Check {
	return Check{What: what, Result: Verified, Detail: fmt.Sprintf(format, args...)}
}

// refuted returns the check of a claim that could not be verified because of
// err.
func refuted(what string, err error) Check {
	code := hub.CodeOf(err)
	result, ok := results[code]
	if !ok {
		code, result = hub.CodeDegraded, Unverifiable
	}
	return Check{What: what, Result: result, Code: code, Detail: err.Error()}
}

// Options changes how an Inspector works. The zero value works.
type Options struct {
	MaxFile     int64         // bytes of a file that is hashed; default 1 GiB
	Timeout     time.Duration // for one call; default one minute
	Parallel    int           // calls that work at the same time, others wait; default 4
	Git         string        // the git program; default the one on the path
	OtherOwners bool          // look at repositories of other users, too

	// Scratch is the folder for temporary files, by default the system's. A
	// process that is killed leaves its own there, as parley-evidence-*; New
	// removes those that are a day old. It must not be in a working tree that
	// is looked at.
	Scratch string
}

// An Inspector looks at what lies under its roots. It is safe for concurrent
// use and holds nothing open between calls.
type Inspector struct {
	roots       []root
	maxFile     int64
	timeout     time.Duration
	slots       chan struct{} // holds one value for each call that works
	git         string        // empty if there is none
	otherOwners bool
	scratch     string // empty for the system's folder
}

// New returns an Inspector for what lies under roots, which are absolute paths
// of folders. Without roots everything is unverifiable. opts may be nil.
func New(roots []string, opts *Options) (*Inspector, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxFile <= 0 {
		o.MaxFile = 1 << 30
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	if o.Git == "" {
		o.Git = "git"
	}
	in := &Inspector{
		maxFile:     o.MaxFile,
		timeout:     o.Timeout,
		slots:       make(chan struct{}, o.Parallel),
		otherOwners: o.OtherOwners,
		scratch:     o.Scratch,
	}
	for _, name := range roots {
		r, err := newRoot(name)
		if err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
		in.roots = append(in.roots, r)
	}
	// A hub without git still looks at files.
	if git, err := exec.LookPath(o.Git); err == nil {
		if in.git, err = filepath.Abs(git); err != nil {
			return nil, fmt.Errorf("evidence: find git: %w", err)
		}
	}
	in.sweep()
	return in, nil
}

// begin waits for a free slot and bounds the time. The caller calls end.
func (in *Inspector) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, in.timeout)
	select {
	case in.slots <- struct{}{}:
		end = func() { <-in.slots; cancel() }
	case <-ctx.Done():
		end = cancel
	}
	if err := ctx.Err(); err != nil {
		defer end()
		return nil, nil, in.late(ctx, err)
	}
	return ctx, end, nil
}

// late returns err, or that the time is over if that is why err came.
func (in *Inspector) late(ctx context.Context, err error) error {
	const op = "evidence.Inspector"
	switch cause := ctx.Err(); {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, context.DeadlineExceeded):
		return hub.Errorf(hub.CodeDegraded, op, "the check was given up after %s or at the caller's deadline", in.timeout)
	default:
		return hub.Errorf(hub.CodeDegraded, op, "the check was cancelled")
	}
}

// Reference answers for what is named by something other than a path or a
// branch: a web address, a pull request, a ticket. Nothing is fetched, so it is
// always unverifiable.
func Reference(kind string) Check {
	return refuted(WhatReference, hub.Errorf(hub.CodeNotEnabled, "evidence.Reference",
		"a reference of type %s is not looked at: only files and repositories on this machine are", show(kind)))
}

// show quotes what came from outside, cut to a length that fits in a sentence.
func show(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%q and %d more bytes", s[:most], len(s)-most)
	}
	return fmt.Sprintf("%q", s)
}

// A root is a folder that is looked at.
type root struct {
	dir   string   // where it is, without links
	names []string // the paths it goes by
}

func newRoot(name string) (root, error) {
	if !filepath.IsAbs(name) {
		return root{}, fmt.Errorf("the root %s is not an absolute path", show(name))
	}
	name = filepath.Clean(name)
	dir, err := filepath.EvalSymlinks(name)
	if err != nil {
		return root{}, fmt.Errorf("a root must be a folder that exists: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return root{}, fmt.Errorf("a root must be a folder that exists: %w", err)
	}
	if !info.IsDir() {
		return root{}, fmt.Errorf("the root %s is not a folder", show(name))
	}
	return root{dir: dir, names: slices.Compact([]string{name, dir})}, nil
}
