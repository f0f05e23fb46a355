package workshop

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/ground/process/stray"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// markName is the variable that every process of a run has, and by which it is found.
const markName = "PARLEY_CHECK_RUN"

// drainTime is the time in which the output ends after the last process has ended.
const drainTime = 5 * time.Second

// removeTime bounds the removal of a worktree.
const removeTime = 2 * time.Minute

// A run is one job with its folders. Places are used again, so the paths of a run are those of
// the one before: tools that keep absolute paths in their caches find them.
type run struct {
	shop   *Shop
	job    Job
	folder string // the folder of the place: the record, and the work folder
	work   string // the folder with tree, home and temporary files
	tree   string
	record record
	output *outputFile
	env    []string
	cache  entryCopy
	result Result
}

// A record is what a run leaves on disk for the next Open.
type record struct {
	Copy  string `json:"copy,omitempty"`
	Mark  string `json:"mark"`
	Pid   int    `json:"pid,omitempty"` // of the supervisor
	Stamp string `json:"stamp,omitempty"`
}

const recordName = "run.json"

// newRun makes the folders of a run.
func (s *Shop) newRun(place int, job Job) (*run, error) {
	folder := filepath.Join(s.runs(), strconv.Itoa(place))
	work := filepath.Join(folder, "work")
	r := &run{
		shop: s, job: job, folder: folder, work: work, tree: filepath.Join(work, "tree"),
		record: record{Copy: job.Copy, Mark: markName + "=" + rand.Text()},
		result: Result{ExitCode: -1, InPlace: job.InPlace != ""},
	}
	if job.InPlace != "" {
		tree, err := filepath.EvalSymlinks(job.InPlace)
		if err != nil {
			return nil, err
		}
		r.tree = tree
	}
	if err := removeAll(folder); err != nil { // of a run that could not be removed
		return nil, err
	}
	for _, dir := range []string{folder, work, r.temporary()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(r.home(), 0o700); err != nil {
		return nil, err
	}
	if err := r.write(); err != nil {
		return nil, err
	}
	if job.Contract != nil {
		if err := os.WriteFile(r.contract(), job.Contract, 0o600); err != nil {
			return nil, err
		}
	}
	r.env = r.environment()
	var err error
	r.output, err = newOutput(s.outputs(), job.Live)
	return r, err
}

func (r *run) home() string {
	if r.job.Home != "" {
		return filepath.Join(r.shop.homes(), r.job.Home)
	}
	return filepath.Join(r.work, "home")
}

func (r *run) contract() string { return filepath.Join(r.temporary(), "parley-contract.json") }

func (r *run) temporary() string { return filepath.Join(r.work, "tmp") }

// write stores the record. A kill of the machine ends the processes as well, so it need not be
// on disk.
func (r *run) write() error {
	raw, err := json.Marshal(r.record)
	if err != nil {
		return err
	}
	path := filepath.Join(r.folder, recordName)
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// environment returns the variables of the commands: those of this process that are known not to
// hold a key, those of the check, and the folders of the run.
func (r *run) environment() []string {
	own := []string{"HOME", "TMPDIR", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA"}
	env := slices.DeleteFunc(sandbox.Environment(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(own, name)
	})
	env = append(env, "HOME="+r.home(), "TMPDIR="+r.temporary())
	for _, name := range slices.Sorted(maps.Keys(r.job.Check.Env)) {
		env = append(env, name+"="+r.job.Check.Env[name])
	}
	if r.job.Contract != nil {
		env = append(env, "PARLEY_CONTRACT="+r.contract())
	}
	return append(env, "PWD="+r.tree, r.record.Mark)
}

// do makes the run and fills in the result. The error is about this machine.
func (r *run) do(ctx context.Context) error {
	began := time.Now()
	err := r.steps(ctx)
	if ctx.Err() != nil {
		r.result.State = StateCancelled
		err = nil
	}
	r.result.Duration = time.Since(began)
	output, closed := r.output.finish()
	r.result.Output = output
	return errors.Join(err, closed)
}

// steps makes the worktree, runs setup and command, and keeps what may be kept.
func (r *run) steps(ctx context.Context) error {
	check := r.job.Check
	if err := r.prepare(ctx); err != nil {
		return err
	}
	timeout := check.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	hasSetup := len(check.Setup) > 0 && r.job.InPlace == ""
	r.result.Cached = hasSetup && len(check.Keep) > 0 && r.cache.full
	if hasSetup && !r.result.Cached {
		report, err := r.command(limited, check.Setup)
		state := r.judge(limited, report, err)
		if state != StatePassed {
			if state == StateFailed {
				r.result.Reason = strings.TrimSuffix("the setup failed: "+r.result.Reason, ": ")
				r.result.State = StateNotStarted
			}
			return nil
		}
	}

	started := time.Now()
	report, err := r.command(limited, check.Command)
	r.judge(limited, report, err)
	return r.finish(ctx, started)
}

// prepare makes the worktree with its kept folders, or takes the digest of the tree of a run in
// place.
func (r *run) prepare(ctx context.Context) error {
	var err error
	if r.job.InPlace != "" {
		r.result.Before, err = treeDigest(ctx, r.tree)
		return err
	}
	if err := r.shop.opts.Checkout(ctx, r.job.Copy, r.job.Commit, r.tree); err != nil {
		return err
	}
	key, err := cacheKey(r.tree, r.job.Check, r.env)
	if err != nil {
		return err
	}
	r.cache, err = r.shop.caches.get(ctx, r.cacheFolder(), key, r.home(), r.tree, r.job.Check.Keep)
	return err
}

func (r *run) cacheFolder() string { return r.shop.caches.of(r.job.Copy, r.job.Check.Name) }

// command runs a command in the tree and waits until none of its processes is left.
func (r *run) command(ctx context.Context, args []string) (confine.Report, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return confine.Report{}, err
	}
	defer in.Close()
	p, err := confine.Start(r.shop.opts.Program, confine.Command{Args: args, Dir: r.tree, Env: r.env, Rules: r.rules()}, out)
	out.Close()
	if err != nil {
		return confine.Report{}, err
	}
	r.record.Pid = p.Pid()
	r.record.Stamp = process.Stamp(p.Pid())
	if err := r.write(); err != nil {
		p.End() // the run could not be ended after a kill
	}

	copied := make(chan struct{})
	go func() {
		io.CopyBuffer(struct{ io.Writer }{r.output}, struct{ io.Reader }{in}, make([]byte, 64<<10))
		close(copied)
	}()
	report, err := r.wait(ctx, p)
	if err != nil { // the supervisor was killed
		err = errors.Join(err, stray.Kill(r.record.Mark))
	}
	in.SetReadDeadline(time.Now().Add(drainTime))
	<-copied
	return report, err
}

// wait waits for the end of a command. It ends the command when ctx ends.
func (r *run) wait(ctx context.Context, p *confine.Process) (report confine.Report, err error) {
	done := make(chan struct{})
	go func() {
		report, err = p.Wait()
		close(done)
	}()
	select {
	case <-done:
		return report, err
	case <-ctx.Done():
		p.End()
	}
	late := time.NewTimer(confine.StopTime)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C: // the check stopped its supervisor
		p.Kill()
		stray.Kill(r.record.Mark) // again afterwards
		<-done
	}
	return report, err
}

// rules returns what a command of the run may do.
func (r *run) rules() confine.Rules {
	check := r.job.Check
	rules := confine.Rules{
		Unconfined: check.Unconfined, Offline: check.Offline, Hidden: r.shop.hidden(),
		Base:      r.work,
		Temporary: r.temporary(),
		Level:     r.shop.level,
		Write:     slices.Concat([]string{r.tree, r.home(), r.temporary()}, check.Writable),
		Processes: r.shop.opts.Processes, Memory: r.shop.opts.Memory, Disk: r.shop.opts.Disk,
	}
	if r.job.InPlace == "" {
		rules.Read = []string{r.job.Copy} // for git in the worktree
		return rules
	}
	if own := filepath.Join(r.tree, ".git"); plainFolder(r.tree, ".git") {
		rules.Protected = []string{own}
	}
	return rules
}

// judge fills in the state of the result from the report of a command, and returns it.
func (r *run) judge(ctx context.Context, report confine.Report, err error) State {
	res := &r.result
	res.Confined = report.Confined
	res.Coverage = report.Coverage
	res.Sealed = report.Sealed
	res.Network = report.Network
	res.Left += report.Left
	res.State = StateFailed
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		res.State = StateTimedOut
		res.Reason = "it did not end in time"
	case ctx.Err() != nil:
		res.State = StateCancelled
	case err != nil:
		res.Reason = err.Error()
	case !report.Started:
		res.State = StateNotStarted
		res.Reason = report.Error
	case r.isWeaker(report):
		res.State = StateNotStarted
		res.Reason = fmt.Sprintf("it does not count, because this machine confined it less than checks before: %s", report.Coverage)
	case report.Limit == confine.LimitProcesses:
		res.Reason = fmt.Sprintf("it was ended: it had more than %d processes", r.shop.opts.Processes)
	case report.Limit == confine.LimitDisk:
		res.Reason = fmt.Sprintf("it was ended: it wrote more than %d MiB", r.shop.opts.Disk>>20)
	case report.Limit == confine.LimitMemory:
		res.Reason = fmt.Sprintf("it was ended: it used more than %d MiB of memory", r.shop.opts.Memory>>20)
	case report.Error != "":
		res.Reason = report.Error
	default:
		res.ExitCode = report.ExitCode
		if report.ExitCode == 0 {
			res.State = StatePassed
		}
	}
	return res.State
}

// isWeaker reports whether a command was confined less than this machine could when it was probed: a
// check may have taken what the level needs, such as the namespaces of its user.
func (r *run) isWeaker(report confine.Report) bool {
	best, err := r.shop.Probe()
	return err == nil && !r.job.Check.Unconfined && report.Coverage.Weaker(best)
}

// finish reads the results of tests, takes the digest of a tree in place, and fills the cache.
func (r *run) finish(ctx context.Context, started time.Time) error {
	res := &r.result
	if r.job.Check.JUnit != "" {
		tests, err := CountTests(r.tree, r.job.Check.JUnit, started)
		res.Tests = tests
		if err != nil && res.Reason == "" {
			res.Reason = "the results of tests cannot be read: " + err.Error()
		}
		if hasFailed := tests != nil && tests.Failed > 0; hasFailed && res.State == StatePassed {
			res.State = StateFailed
			res.Reason = fmt.Sprintf("%d of %d tests failed by the files of JUnit, though the command ended with 0", tests.Failed, tests.Total)
		}
	}
	if r.job.InPlace != "" {
		var err error
		res.After, err = treeDigest(ctx, r.tree)
		return err
	}
	if r.job.Target && res.State == StatePassed {
		return r.shop.caches.put(ctx, r.cacheFolder(), r.cache, r.home(), r.tree, r.job.Check.Keep)
	}
	return nil
}

// remove removes the folders of the run and its worktree. It works after the end of ctx, too.
func (r *run) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	if err := removeAll(r.folder); err != nil {
		return err
	}
	if r.job.InPlace != "" {
		return nil
	}
	return prune(ctx, r.job.Copy)
}
