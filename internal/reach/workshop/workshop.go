// Package workshop runs the checks of repositories: it takes a commit of a bare copy of a
// repository, makes a clean worktree of it, runs the setup and the command of a check there,
// confined and with limits, and returns the result.
//
// Nothing that a run changes reaches a later run, with one exception: the kept folders and the
// home folder of a run on the target branch that passed. Every run gets a copy of them.
//
// A [Shop] owns its folder. After a kill of the program, [Open] ends the processes of the runs
// that were cut off, and removes their worktrees.
//
// The package knows no policy: which command is allowed, which commit is one of the target
// branch and whether a result is used again is decided by its callers.
package workshop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/internal/ground/process/confine"
)

// Defaults of the limits of a run.
const (
	DefaultTimeout   = 10 * time.Minute
	DefaultProcesses = 1024
	TailBytes        = 64 << 10 // of the end of the output
	DefaultDisk      = 10 << 30 // bytes
	LeastJobs        = 2        // so that a check that does not end leaves a place for others
	OutputBytes      = 8 << 20  // of the output in a file
)

// A State says how a run ended.
type State string

// The states of a run.
const (
	StatePassed     State = "passed"
	StateFailed     State = "failed"
	StateTimedOut   State = "timed_out"
	StateNotStarted State = "not_started" // the setup failed, or the command could not be started
	StateCancelled  State = "cancelled"
)

// ErrUnconfined is the error about a check that must be confined, on a system that cannot.
var ErrUnconfined = confine.ErrUnsupported

// supported reports a system that cannot confine. Tests replace it.
var supported = confine.Supported

// A Check is a command that the operator allowed for a repository.
type Check struct {
	Name     string
	Command  []string // the program and its arguments
	Setup    []string // runs before the command, unless the cache has its result; may be empty
	SetupKey []string // patterns of the files on which the result of Setup depends
	Keep     []string // folders, relative to the worktree, that the cache has
	Env      map[string]string
	Writable []string // absolute paths of folders outside that it may write to
	Timeout  time.Duration
	Offline  bool   // without the network, where the system can do it
	JUnit    string // pattern of the files with the results of tests, relative to the worktree

	Unconfined bool // nothing keeps it from the files of the user
}

// A Job is one run to make.
type Job struct {
	Copy    string // the folder of a bare repository that has the commit
	Commit  string // its id
	Check   Check
	Target  bool      // the commit is one of the target branch: if it passes, its kept folders fill the cache
	InPlace string    // run in this working tree instead; then there is neither setup nor cache
	Home    string    // of a run in place: the name of a home folder that its next runs have, too; "" for one of its own
	Live    io.Writer // gets the output as it comes; it must not block; may be nil

	Contract []byte // content of the version of a contract to test, which PARLEY_CONTRACT names; nil for none
}

// Tests are the counts of tests in the files of JUnit.
type Tests struct {
	Total, Failed, Skipped int
}

// An Output is what a run wrote.
type Output struct {
	Tail   []byte // its end
	Bytes  int64  // how many there were
	SHA256 string // of all of them
	File   string // with the first OutputBytes of them; the caller removes it
}

// A Result is the outcome of a run.
type Result struct {
	State    State
	Reason   string // why it did not start, or was ended
	ExitCode int    // of the command; -1 if it did not end by itself
	Duration time.Duration
	Tests    *Tests // nil without readable files of JUnit
	Output   Output

	Confined bool
	Coverage confine.Coverage
	Sealed   bool   // see confine.Report
	Network  string // what was done to turn the network off; see confine.Report
	InPlace  bool
	Before   string // digest of the working tree before a run in place, and after it
	After    string
	Cached   bool // kept folders were there, and the setup did not run
	Left     int  // processes that the check left behind, which were ended
}

// Options are the settings of a Shop.
type Options struct {
	Jobs      int      // runs at a time; 0 for half of the processors, and at least LeastJobs
	Hidden    []string // absolute paths that checks may not read, beside confine.Secrets: the hub's home
	Program   string   // whose command "confined" calls confine.Main; "" for this program
	Processes int      // of a run at a time; 0 for DefaultProcesses
	Memory    int64    // bytes of a run; 0 for half of the machine's
	Disk      int64    // bytes of a file of a run, and of all its files; 0 for DefaultDisk

	// Checkout makes a clean worktree of a commit in a folder that does not exist; nil for git
	// without filters. The worktree is removed by removing its folder and pruning.
	Checkout func(ctx context.Context, repository, commit, folder string) error
}

// A Shop runs checks. It is safe for concurrent use.
type Shop struct {
	folder string
	opts   Options
	queue  *queue
	caches *caches

	level confine.Level // the best one to take; 0 for that of the machine. Tests set it

	mu   sync.Mutex
	best confine.Coverage // of this machine, as Probe found it first; the zero value before that
}

// Open returns a Shop that has its files in folder. It ends and removes the runs of a process
// that was killed. One process has a folder at a time. opts may be nil.
func Open(ctx context.Context, folder string, opts *Options) (*Shop, error) {
	s := &Shop{folder: folder}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Jobs <= 0 {
		s.opts.Jobs = max(LeastJobs, runtime.NumCPU()/2)
	}
	if s.opts.Disk <= 0 {
		s.opts.Disk = DefaultDisk
	}
	if s.opts.Processes <= 0 {
		s.opts.Processes = DefaultProcesses
	}
	if s.opts.Memory <= 0 {
		s.opts.Memory = machineMemory() / 2
	}
	if s.opts.Checkout == nil {
		s.opts.Checkout = checkout
	}

	real, err := realFolder(folder)
	if err != nil {
		return nil, fmt.Errorf("workshop: %w", err)
	}
	s.folder = real
	s.queue = newQueue(s.opts.Jobs)
	s.caches = &caches{folder: filepath.Join(s.folder, "caches")}
	if err := s.recover(ctx); err != nil {
		return nil, fmt.Errorf("workshop: remove the runs of before: %w", err)
	}
	for _, dir := range []string{s.runs(), s.outputs(), s.homes(), s.caches.folder} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("workshop: %w", err)
		}
	}
	return s, nil
}

// realFolder makes a folder and returns its path without links.
func realFolder(folder string) (string, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(folder)
}

func (s *Shop) runs() string    { return filepath.Join(s.folder, "runs") }
func (s *Shop) outputs() string { return filepath.Join(s.folder, "outputs") }
func (s *Shop) homes() string   { return filepath.Join(s.folder, "homes") }

// Run runs a check and returns its result. It waits until a place is free. The error is about a
// job that cannot be run, such as ErrUnconfined, or about this machine; whatever the check does
// is in the result. When ctx ends, every process of the check is ended and the result is
// cancelled.
func (s *Shop) Run(ctx context.Context, job Job) (Result, error) {
	if err := s.check(job); err != nil {
		return Result{}, err
	}
	place, err := s.queue.take(ctx, job.repository())
	if err != nil {
		return Result{State: StateCancelled, ExitCode: -1, InPlace: job.InPlace != ""}, nil
	}
	defer s.queue.give(place)

	r, err := s.newRun(place, job)
	if err != nil {
		return Result{}, fmt.Errorf("workshop: %w", err)
	}
	err = r.do(ctx)
	if removed := r.remove(ctx); err == nil {
		err = removed
	}
	if err != nil {
		os.Remove(r.output.path)
		return Result{}, fmt.Errorf("workshop: check %s: %w", job.Check.Name, err)
	}
	return r.result, nil
}

// Probe returns how this machine confines a check, as it did the first time. A check may take from
// the later ones what a level needs, so a hub calls it at its start; else the first check does.
func (s *Shop) Probe() (confine.Coverage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.best.Level != confine.LevelNone {
		return s.best, nil
	}
	best, err := confine.Probe(s.opts.Program)
	if err == nil {
		s.best = best
	}
	return best, err
}

// Confines reports ErrUnconfined on a machine that cannot confine a check.
func (s *Shop) Confines() error {
	best, err := s.Probe()
	if err == nil && best.Level == confine.LevelNone {
		err = ErrUnconfined
	}
	return err
}

// repository names the repository of a job, for the order of runs.
func (j Job) repository() string {
	if j.InPlace != "" {
		return j.InPlace
	}
	return j.Copy
}

// check reports a job that cannot be run.
func (s *Shop) check(job Job) error {
	if len(job.Check.Command) == 0 {
		return errors.New("workshop: the check has no command")
	}
	if !job.Check.Unconfined {
		if err := supported(); err != nil {
			return fmt.Errorf("workshop: check %s: %w", job.Check.Name, err)
		}
		if _, err := s.Probe(); err != nil {
			return fmt.Errorf("workshop: try how this machine confines a check: %w", err)
		}
	}
	for _, folder := range job.Check.Keep {
		clean := filepath.Clean(folder)
		if !filepath.IsLocal(folder) || clean == "." || strings.EqualFold(strings.Split(filepath.ToSlash(clean), "/")[0], ".git") {
			return fmt.Errorf("workshop: check %s: %q is not a folder of the worktree that can be kept", job.Check.Name, folder)
		}
	}
	isName := filepath.IsLocal(job.Home) && filepath.Base(job.Home) == job.Home
	if job.Home != "" && (job.InPlace == "" || !isName) {
		return fmt.Errorf("workshop: %q is not the name of a home folder", job.Home)
	}
	if job.InPlace != "" {
		if err := s.mayWrite(job.InPlace, false); err != nil {
			return fmt.Errorf("workshop: check %s: %w", job.Check.Name, err)
		}
	} else if !filepath.IsAbs(job.Copy) {
		return fmt.Errorf("workshop: the copy %q is not an absolute path", job.Copy)
	}
	for _, folder := range job.Check.Writable {
		if err := s.mayWrite(folder, true); err != nil {
			return fmt.Errorf("workshop: check %s: %w", job.Check.Name, err)
		}
	}
	return nil
}

// mayWrite reports a folder that no check may write to: one with a hidden file in it, and with
// within one that is in a hidden folder. Agents can have working trees in the hub's home.
func (s *Shop) mayWrite(folder string, within bool) error {
	if !filepath.IsAbs(folder) {
		return fmt.Errorf("the folder %s is not an absolute path", folder)
	}
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	for _, hidden := range s.hidden() {
		path, err := filepath.EvalSymlinks(hidden)
		if err != nil {
			continue // there is no such file
		}
		if confine.Covers(real, path) || (within && confine.Covers(path, real)) {
			return fmt.Errorf("a check cannot write to %s, because it must not read %s", folder, hidden)
		}
	}
	return nil
}

// hidden returns the paths that no check may read.
func (s *Shop) hidden() []string {
	return slices.Concat(confine.Secrets(), s.opts.Hidden, []string{s.folder})
}
