// Package evidence checks claims against files and git repositories.
//
// It has two entries. [Inspector.Check] checks a claim about a file or a repository
// under the roots that an operator chose. [Base.Check] checks the report of an agent
// against a folder that the user of this machine chose: [Snapshot] records the
// folder before the work, Check compares it afterwards.
//
// Under both are the same parts: one walker that lists the files of a working tree
// with its limits (walk.go), the difference of a tree from a commit (difference.go)
// or from an earlier tree (changes.go), the reader of git's folders (gitdir.go,
// refs.go), the scratch repository in which git runs (scratch.go), and the judge of
// a report's claims (judge.go, claims.go).
//
// # Claims under roots
//
// An Inspector compares a claim (a file with a hash, a branch, a commit, a worktree)
// with the content of its roots and answers with checks: verified, failed or
// unverifiable, and why. It promises:
//
//   - It reads nothing outside the roots. A path that is not under a root gets the
//     same answer whether or not the file exists; so does one that leads out of a
//     root through a link or "..".
//   - It runs no command of a claim or a repository. Git runs with fixed arguments
//     in an empty repository made for the check, which borrows the objects of the
//     checked one and nothing else: the configuration, hooks, filters, index and
//     files of that repository never reach git.
//   - Everything is bounded: bytes read, entries listed, git's output, time.
//   - It changes nothing under the roots.
//
// It does not prove the author of a change, and it does not fetch: a web address or a
// reference to another service is unverifiable. Claimed commits and files are hashed
// here; for the folders of a commit and the history between commits git is trusted.
// A process that replaces files inside an object store while git reads them can make
// git open a file outside the roots; the answer then only shows whether that file is
// the git object in question.
//
// # Working trees
//
// [Trees] reads files of working trees under the same roots, to decide which agent may change
// them: their content, and whether the commit that is checked out has it. An answer takes
// milliseconds, so git runs in the repository itself, with commands that read its objects and
// its index alone.
//
// # Reports
//
// A Base compares trees, not commits: an agent that commits, stages or switches
// branches is judged by the files alone. Each file that git does not ignore is read
// and hashed here; git sees the rule files, the objects of the repository and, to
// count lines, copies of changed files, in a scratch repository in a temporary
// folder. The promises above hold; the only commands that run are those that the
// user gave to Check.
//
// A Base does not see changes of ignored files, unless a report names them, changes
// outside the folder, and changes that are undone before the check. Nor does it know
// the author: a change by another process in the folder counts as the agent's.
//
// The first walk over 10,000 files with 50 MB takes about 0.6 seconds on a machine
// with two cores, and a later one 0.1 seconds: a file with unchanged times and size
// is not read again.
package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// Options changes how an Inspector works. The zero value works.
type Options struct {
	MaxFile int64         // bytes of a file that is hashed; default 1 GiB
	Timeout time.Duration // for one call; default one minute
	Git     string        // the git program; default the one on the path
	Kept    string        // absolute path of the folder for states of working trees; without one State and Compare report CodeNotEnabled

	// Roots returns further roots, and is called for each check, so that a root
	// that is added or removed counts at once. One that is no folder any more is
	// left out. It may be nil.
	Roots func(context.Context) ([]string, error)
}

// parallel is the number of checks at the same time; others wait.
const parallel = 4

// An Inspector checks claims about files under its roots. It is safe for concurrent
// use and holds nothing open between calls.
type Inspector struct {
	roots       []root
	more        func(context.Context) ([]string, error)
	maxFile     int64
	timeout     time.Duration
	slots       chan struct{} // holds one value for each check
	git         string        // empty if there is none
	kept        string        // see Options
	otherOwners bool          // check repositories of other users, too
}

// New returns an Inspector for the files under roots, which are absolute paths of
// folders. Without roots every claim is unverifiable. It removes temporary folders
// that killed processes left a day ago or earlier. opts may be nil.
func New(roots []string, opts *Options) (*Inspector, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.MaxFile = cmp.Or(o.MaxFile, 1<<30)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Git = cmp.Or(o.Git, "git")
	in := &Inspector{maxFile: o.MaxFile, timeout: o.Timeout, slots: make(chan struct{}, parallel), more: o.Roots, kept: o.Kept}
	for _, name := range roots {
		r, err := newRoot(name)
		if err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
		in.roots = append(in.roots, r)
	}
	// A hub without git still checks files.
	if git, err := exec.LookPath(o.Git); err == nil {
		if in.git, err = filepath.Abs(git); err != nil {
			return nil, fmt.Errorf("evidence: find git: %w", err)
		}
	}
	sweep()
	return in, nil
}

// current returns the inspector with the roots of this moment.
func (in *Inspector) current(ctx context.Context) (*Inspector, error) {
	if in.more == nil {
		return in, nil
	}
	names, err := in.more(ctx)
	now := *in
	now.roots, now.more = slices.Clone(in.roots), nil
	for _, name := range names {
		if r, err := newRoot(name); err == nil {
			now.roots = append(now.roots, r)
		}
	}
	return &now, err
}

// Rooted reports whether a path lies under a root. It looks at no file: the path need
// not exist.
func (in *Inspector) Rooted(ctx context.Context, path string) (bool, error) {
	in, err := in.current(ctx)
	if err != nil {
		return false, err
	}
	_, err = in.places(path)
	return hub.CodeOf(err) != hub.CodeDenied, nil
}

// begin waits for a free slot and bounds the time. The caller calls end, also after an
// error.
func (in *Inspector) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, in.timeout)
	end = cancel
	select {
	case in.slots <- struct{}{}:
		end = func() { <-in.slots; cancel() }
	case <-ctx.Done():
	}
	return ctx, end, in.late(ctx, ctx.Err())
}

// late returns err, or an error about the end of ctx if that is the cause.
func (in *Inspector) late(ctx context.Context, err error) error {
	const op = "evidence.Inspector"
	switch cause := ctx.Err(); {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, context.DeadlineExceeded):
		return hub.Errorf(hub.CodeDegraded, op, "the check was stopped after %s or at the caller's deadline", in.timeout)
	default:
		return hub.Errorf(hub.CodeDegraded, op, "the check was cancelled")
	}
}

// show quotes input, cut to a length that fits in a sentence.
func show(s string) string { return strconv.Quote(shorten.Text(s, 200)) }

// A root is a folder whose files are checked.
type root struct {
	dir   string   // its path without links
	names []string // its paths with and without links
}

func newRoot(name string) (root, error) {
	if !filepath.IsAbs(name) {
		return root{}, fmt.Errorf("the root %s is not an absolute path", show(name))
	}
	name = filepath.Clean(name)
	dir, err := filepath.EvalSymlinks(name)
	if err != nil {
		return root{}, fmt.Errorf("a root must be an existing folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return root{}, fmt.Errorf("a root must be an existing folder: %w", err)
	}
	if !info.IsDir() {
		return root{}, fmt.Errorf("the root %s is not a folder", show(name))
	}
	return root{dir: dir, names: slices.Compact([]string{name, dir})}, nil
}
