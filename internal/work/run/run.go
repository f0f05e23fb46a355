// Package run executes one task with one agent and reaches a verdict: it records
// the files of the working folder, starts the agent there, reads its report,
// compares the report with the files, and closes the run.
//
// Everything about a run is kept in [Files], a folder per run with its record and
// the recording of its frames, and on a [Hub] if there is one. A run that goes
// wrong is recorded like any other: an agent that cannot be started, breaks down,
// gives no report, exceeds its time or is stopped leaves a run with the reason.
// The files survive a kill of this process: [Files.Recover] ends the remaining
// processes of such a run and records it as interrupted.
//
// A report is never confirmed without a comparison, and the package decides
// nothing about runs on the hub: service/run does.
package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/process/stray"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/report"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A Spec describes a run: the agent, the task and the checks.
type Spec struct {
	Agent    hub.AgentID // the agent's name on the hub
	Command  []string    // starts the agent; it speaks ACP on its standard streams
	Dir      string      // the working folder
	Dispatch report.Dispatch
	Verify   string // shell command that the user gave to check the task; never from a message or a repository
	Build    string // likewise, for the build

	// AllowTestChanges says that the task is to change tests, or the files that Verify
	// and Build run. Otherwise such a change leaves the verdict unverified.
	AllowTestChanges bool

	Worktree bool // work in a git worktree that is made for the run
	Handoff  hub.HandoffID
	Timeout  time.Duration // for the agent's work; 0 for no limit

	// Prompt is given in place of the dispatch, whose task is recorded. The answer
	// need not be a report then.
	Prompt []string
}

// Options changes how a run is executed. The zero value works.
type Options struct {
	Agent     fleet.Options // Tap and OnProblem are set by Execute
	Hub       Hub           // nil to record in files only
	Usage     UsageHub      // gets the model calls; default the Hub, if it is one
	Retention Retention     // of the files of earlier runs
	Clock     hub.Clock     // default time.Now

	// Alone says that this process executes nothing but the run, so that every process
	// that is left below it is one of the run's, also if it cleared its environment.
	Alone bool

	// Guard is asked before the agent changes files. If it is nil, the run makes one that asks
	// the hub as the agent: Ask returns its function for a run and the key that the hub lends,
	// and is nil if nothing guards the files. DenyUnanswered is an option of that guard.
	Guard          *acpguard.Guard
	Ask            func(r hub.Run, key string) acpguard.Ask
	DenyUnanswered bool

	// Consent has the permissions that a person gave in the run; default one that hears
	// the answers to Agent.Ask. The caller of a process with several runs has one for all.
	Consent *sandbox.Consent

	// Kill ends the agent at once when it ends. The end of the context of
	// Execute asks the agent to stop.
	Kill context.Context

	CommandTimeout time.Duration // for Verify and Build each; default that of evidence
	On             Events

	// OnCommit runs a line of Verify or Build as a check of the repository around a folder, on a
	// commit that has all work, if it is one; else ok is false, and the line runs in the folder. It
	// may be nil.
	OnCommit func(ctx context.Context, dir, commit, line string) (o Outcome, ok bool)

	// Start returns the agent that works, and a function that is called when it has;
	// default one that fleet launches and that is closed. Both contexts are those of
	// fleet.Launch.
	// An agent that Start returns outlives the run, with its processes.
	Start func(ctx, alive context.Context, spec fleet.Spec, opts *fleet.Options) (*fleet.Agent, func() error, error)
}

// launch starts an agent for one run.
func launch(ctx, alive context.Context, spec fleet.Spec, opts *fleet.Options) (*fleet.Agent, func() error, error) {
	a, err := fleet.Launch(ctx, alive, spec, opts)
	if err != nil {
		return nil, nil, err
	}
	return a, a.Close, nil
}

// Events are called as a run proceeds. Each may be nil.
type Events struct {
	State    func(r hub.Run)                // the run entered a state
	Problem  func(err error)                // something failed and the run continues
	Frame    func(line []byte)              // a frame as it is recorded, with a line end
	Command  func(field, line string)       // a command begins; field is VERIFY or BUILD
	Worktree func(folder, gitBranch string) // a worktree was made
}

// A Result is a run that is over.
type Result struct {
	Record
	Err error // why the run did not end well, for people; may be nil
}

// OK reports whether the agent reported success and this process confirmed the report.
// That holds for its caller, also if the caller is an agent whose verdict is claimed on
// the hub.
func (r Result) OK() bool {
	var claim struct {
		Status report.Status `json:"status"`
	}
	return r.State == hub.RunDone && r.SentVerdict() == hub.RunConfirmed && json.Unmarshal(r.Report, &claim) == nil &&
		(claim.Status == report.StatusOK || claim.Status == report.StatusNoChanges)
}

// An execution is one run under way.
type execution struct {
	spec   Spec
	opts   Options
	files  *Files
	folder *Folder
	base   *evidence.Base
	guard  *acpguard.Guard // of the files that the agent changes; nil for none
	pen    *stray.Pen      // of the processes of the run; nil unless Options.Alone
	key    string          // lent by the hub; empty without one
	tokens *Tokens         // the newest that the agent reported
	agent  *fleet.Agent    // nil until it is started
	spent  int64           // tokens that the hub knows while the run works
}

// Execute executes a run and returns when it is over. Its files are kept in home.
// The error says why the run could not be recorded; everything else is in the
// result. opts may be nil.
func Execute(ctx context.Context, home string, spec Spec, opts *Options) (Result, error) {
	e := &execution{spec: spec}
	if opts != nil {
		e.opts = *opts
	}
	if e.opts.Kill == nil {
		e.opts.Kill = context.WithoutCancel(ctx)
	}
	if e.opts.Clock == nil {
		e.opts.Clock = time.Now
	}
	if e.opts.Consent == nil {
		e.opts.Consent = &sandbox.Consent{}
		e.opts.Agent.Ask = e.opts.Consent.Asker(e.opts.Agent.Ask)
	}
	e.opts.Consent.Begin()

	home, err := filepath.Abs(home)
	if err == nil {
		e.spec.Dir, err = filepath.Abs(spec.Dir)
	}
	if err != nil {
		return Result{}, fmt.Errorf("run: %w", err)
	}

	e.files = NewFiles(home)
	e.problem(e.cleanUp(ctx))
	record := e.newRecord()
	if spec.Worktree {
		if err := e.makeWorktree(ctx, home, &record); err != nil {
			return Result{}, err
		}
	}

	// The state of the files before the run is the base of the check at its end.
	if e.base, err = evidence.Snapshot(ctx, e.spec.Dir, nil); err != nil {
		return Result{}, cmp.Or(ctx.Err(), fmt.Errorf("run: record the files of %s: %w", e.spec.Dir, err))
	}
	defer e.base.Close()

	if e.folder, err = e.files.Create(record); err != nil {
		return Result{}, err
	}
	if err := e.begin(ctx); err != nil {
		return Result{}, errors.Join(err, e.finish(ctx, ending{state: hub.RunFailed, reason: hub.RunNotStarted}))
	}

	e.notify()
	end := e.work(ctx)
	err = e.finish(ctx, end)
	return Result{Record: e.folder.Record(), Err: end.err}, err
}

// newRecord returns the record of a run that starts now.
func (e *execution) newRecord() Record {
	r := Record{Run: hub.Run{
		ID: hub.RunID(hub.NewIDs(e.opts.Clock).Next()), Agent: e.spec.Agent, Task: e.spec.Dispatch.Task, Dir: e.spec.Dir, Handoff: e.spec.Handoff,
		State: hub.RunStarting, Contradictions: []hub.Contradiction{},
		By: hub.Operator, // the user of the home; a hub says who its caller is
	}}
	r.StartedAt = r.ID.Time()
	secrets := NewRedactor()
	for _, word := range e.spec.Command {
		r.Command = append(r.Command, string(secrets.Redact([]byte(word))))
	}
	if len(e.spec.Prompt) == 0 && slices.Equal(r.Command, e.spec.Command) {
		r.Order = e.order(secrets)
	}
	return r
}

// cleanUp recovers earlier runs and removes old ones.
func (e *execution) cleanUp(ctx context.Context) error {
	unreported, err := e.files.Recover(e.opts.Clock.Now())
	if e.opts.Hub != nil {
		err = errors.Join(err, e.files.Report(ctx, e.opts.Hub, unreported))
	}
	_, swept := e.files.Sweep(e.opts.Retention, e.opts.Clock.Now())
	return errors.Join(err, swept)
}

// begin records the run on the hub and keeps the key for the agent. A call without
// an answer may have taken effect, so the record says that the hub may know the
// run, and the hub is told of its end.
func (e *execution) begin(ctx context.Context) error {
	if e.opts.Hub == nil {
		return nil
	}
	if err := e.folder.Update(func(r *Record) { r.Hub = true }); err != nil {
		return err
	}
	begun, key, err := e.opts.Hub.BeginRun(ctx, e.folder.Record().Run, max(e.spec.Timeout, time.Second))
	if err != nil {
		if ctx.Err() == nil && hub.CodeOf(err) != hub.CodeDegraded {
			err = errors.Join(err, e.folder.Update(func(r *Record) { r.Hub = false }))
		}
		return err
	}
	e.key = key
	return e.folder.Update(func(r *Record) { r.Run = begun })
}

// errTimeout is the cause of the end of a turn that exceeds the run's time.
var errTimeout = errors.New("the agent timed out")

// An ending is the outcome of a run before it is recorded.
type ending struct {
	state  hub.RunState
	stop   string
	reason string
	report *report.Result
	err    error

	// The result of the check; zero if the files were not compared.
	verdict        hub.RunVerdict
	contradictions []hub.Contradiction
	evidence       json.RawMessage
	breach         *Breach
}

// work starts the agent, gives it the task, and checks its report.
func (e *execution) work(ctx context.Context) ending {
	recorder, err := NewRecorder(e.folder.Frames(), NewRedactor(e.key), e.opts.On.Frame)
	if err != nil {
		return ending{state: hub.RunFailed, reason: hub.RunNotStarted, err: err}
	}
	defer func() { e.problem(recorder.Close()) }()

	// The policy decides with which flags, environment and session mode the CLI starts.
	opts := e.opts.Agent
	opts.Tap = recorder.Frame
	opts.OnProblem = e.problem
	opts.OnUpdate = func(u *acp.Update) { e.update(ctx, u) }
	if e.guard = e.makeGuard(&opts); e.guard != nil {
		opts.Guard = e.guard
		e.guard.Begin(ctx)
	}
	mode, _ := cli.ModeOf(e.spec.Command, opts.Policy)
	spec := fleet.Spec{
		Command: slices.Concat(e.spec.Command, mode.Args), Env: mode.Env, Mode: mode.Session, Meta: mode.Meta,
		Dir: e.spec.Dir, Run: e.folder.Record().ID,
	}
	if e.key != "" {
		spec.Tools = e.opts.Hub.Tools(e.key)
	}

	start := launch
	if e.opts.Start != nil {
		start = e.opts.Start
	}
	if e.opts.Alone {
		e.pen = stray.NewPen()
		defer e.pen.Open()
	}
	agent, release, err := start(ctx, e.opts.Kill, spec, &opts)
	switch {
	case err != nil && ctx.Err() != nil:
		return ending{state: hub.RunInterrupted, reason: hub.RunCancelled, err: err}
	case err != nil:
		return ending{state: hub.RunFailed, reason: hub.RunNotStarted, err: err}
	}

	// The time limit holds for the turn and not for the start.
	e.agent = agent
	e.move(ctx, hub.RunRunning, agent.Session())
	within, cancel := ctx, func() {}
	if e.spec.Timeout > 0 {
		within, cancel = context.WithTimeoutCause(ctx, e.spec.Timeout, errTimeout)
	}
	var reply fleet.Reply
	if len(e.spec.Prompt) > 0 {
		reply, err = agent.Turn(within, e.spec.Prompt...)
	} else {
		reply, err = agent.Work(within, e.spec.Dispatch)
	}
	cancel()
	e.spend(ctx, agent.TakeUsage())
	if err != nil && ctx.Err() == nil {
		err = agent.Fail(err)
	}
	e.problem(release())
	if e.guard != nil {
		e.guard.End(context.WithoutCancel(ctx)) // a turn that was cancelled may have changed files
	}

	// The end of ctx counts before the errors that it causes.
	end := ending{state: hub.RunDone, stop: string(reply.StopReason), report: reply.Report, err: err}
	switch {
	case ctx.Err() != nil:
		end.state, end.reason = hub.RunInterrupted, hub.RunCancelled
	case errors.Is(err, errTimeout):
		end.state, end.reason = hub.RunFailed, hub.RunTimeout
	case err != nil:
		end.state, end.reason = hub.RunFailed, hub.RunBroke
	case reply.Report == nil && len(e.spec.Prompt) == 0:
		end.state, end.reason = hub.RunFailed, hub.RunNoReport
	}

	e.check(ctx, &end)
	return end
}

// update keeps the tokens that the agent reports, passes the update on, and follows the changes
// of files.
func (e *execution) update(ctx context.Context, u *acp.Update) {
	if used := u.Usage(); used != nil {
		tokens := Tokens(*used)
		e.tokens = &tokens
	}
	if e.opts.Agent.OnUpdate != nil {
		e.opts.Agent.OnUpdate(u)
	}
	if u.ToolCall() != nil {
		e.spendSoFar(ctx)
	}
	if e.guard != nil {
		e.guard.Update(context.WithoutCancel(ctx), u) // an edit that was made counts, even if the turn was cancelled
	}
}

// spend tells the hub the model calls of the run. A hub that does not answer holds nothing up.
func (e *execution) spend(ctx context.Context, calls []hub.ModelCall) {
	if h := e.usageHub(); h != nil {
		e.tellUsage(ctx, calls, h.RecordUsage)
	}
}

// spendSoFar tells the hub the model calls of the run until now, if there are more than it knows, so
// that budgets count them before the next tool call.
func (e *execution) spendSoFar(ctx context.Context) {
	h, ok := e.usageHub().(LiveUsageHub)
	if !ok || e.agent == nil || cli.TellsLastCall(e.spec.Command) {
		return
	}
	calls := e.agent.UsageSoFar(cli.TellsLevels(e.spec.Command))
	var sum int64
	for _, c := range calls {
		sum += c.Tokens.Sum()
	}
	if sum > e.spent {
		e.spent = sum
		e.tellUsage(ctx, calls, h.RecordUsageSoFar)
	}
}

// usageHub returns the hub that records usage, nil for none.
func (e *execution) usageHub() UsageHub {
	if e.opts.Usage != nil {
		return e.opts.Usage
	}
	h, _ := e.opts.Hub.(UsageHub)
	return h
}

// tellUsage passes the model calls of the run to a function of the hub.
func (e *execution) tellUsage(ctx context.Context, calls []hub.ModelCall, record func(context.Context, hub.Run, string, []hub.ModelCall) error) {
	r := e.folder.Record().Run
	for i := range calls {
		calls[i] = cli.Plain(calls[i])
		calls[i].ID = string(r.ID) + ":" + calls[i].ID
		if cli.TellsLastCall(e.spec.Command) {
			calls[i].Tokens = hub.Tokens{} // a part of the turn would be a wrong sum
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hubTime)
	defer cancel()
	if err := record(ctx, r, cli.AgentName(e.spec.Command), calls); err != nil {
		e.problem(fmt.Errorf("run: report usage to the hub: %w", err))
	}
}

// problem passes on an error after which the run continues; nil is none.
func (e *execution) problem(err error) {
	if err != nil && e.opts.On.Problem != nil {
		e.opts.On.Problem(err)
	}
}

// notify passes on the state of the run.
func (e *execution) notify() {
	if e.opts.On.State != nil {
		e.opts.On.State(e.folder.Record().Run)
	}
}

// hubTime is the time that one call to the hub may take, even after the run was
// cancelled.
const hubTime = 15 * time.Second

// move records that the run entered a state. A hub that does not answer holds
// nothing up.
func (e *execution) move(ctx context.Context, next hub.RunState, session string) {
	e.problem(e.folder.Update(func(r *Record) {
		if moved, err := r.Advance(next, e.opts.Clock.Now()); err == nil {
			r.Run = moved
		}
		r.Session = cmp.Or(session, r.Session)
	}))
	if e.opts.Hub != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hubTime)
		defer cancel()
		if err := e.opts.Hub.MoveRun(ctx, e.folder.Record().ID, next, session); err != nil {
			e.problem(fmt.Errorf("run: report to the hub that the run is %s: %w", next, err))
		}
	}
	e.notify()
}

// finish records the end of the run, in the files first.
func (e *execution) finish(ctx context.Context, end ending) error {
	claims, err := e.claims(end.report)
	if err != nil {
		return err
	}

	err = e.folder.Update(func(r *Record) {
		if moved, err := r.Advance(end.state, e.opts.Clock.Now()); err == nil {
			r.Run = moved
		}
		r.Run = r.Judged(cmp.Or(end.verdict, hub.RunUnverified), r.By)
		r.StopReason = end.stop
		r.Reason = end.reason
		r.Report = claims
		r.Contradictions, r.Evidence = append(r.Contradictions, end.contradictions...), end.evidence
		r.Breach, r.Tokens = end.breach, e.tokens
		if end.err != nil && !errors.Is(end.err, context.Canceled) {
			r.Problem, r.Hint = Explain(end.err)
		}
	})
	if err != nil {
		return err
	}

	// A hub that may have a record of the run is told of its end.
	defer e.notify()
	if !e.folder.Record().Hub {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hubTime)
	defer cancel()
	ended, err := e.opts.Hub.EndRun(ctx, e.folder.Record().Run)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound: // it never began there
		return e.folder.Update(func(r *Record) { r.Hub = false })
	case err != nil:
		e.problem(fmt.Errorf("run: report the end of the run to the hub: %w; the next parley run or parley run list reports it", err))
		return nil
	}
	return e.folder.Update(func(r *Record) { r.told(ended) })
}
