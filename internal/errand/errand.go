// Package errand sends one agent on one task and comes back with a verdict: it
// looks at the place of work, has the agent run there, reads its report, looks
// again, and says whether the report is true. What happened is recorded in files
// and, if there is a hub, on the hub.
//
// Whatever goes wrong on the way is recorded, too: an agent that cannot be
// started, breaks down, gives no report, takes too long or is stopped leaves a
// run that says so. Nothing is ever confirmed that was not looked at.
package errand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/fleet"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/report"
	"github.com/parley-agents/parley/sandbox"
)

// An Order says who shall do what.
type Order struct {
	Agent    hub.AgentID // who the agent is on the hub
	Command  []string    // that starts it over ACP
	Dir      string      // where it works
	Dispatch report.Dispatch
	Verify   string // shell command that shows that it is done; from the user, never from elsewhere
	Build    string // likewise, for the build
	Worktree bool   // work in a worktree of its own, made for the run
	Handoff  hub.HandoffID
	Timeout  time.Duration // how long the agent may take
}

// A Hub is where a run is recorded, besides the files.
type Hub struct {
	Client *api.Client
	URL    string

	Bridge    []string // see fleet.Tools
	BridgeEnv []string

	// Patience is how long it may be out of reach before a call fails, because
	// it may be changing hands.
	Patience time.Duration
}

// call calls the hub, again and again for as long as its patience lasts.
func (h *Hub) call(ctx context.Context, fn func() error) error {
	giveUp := time.Now().Add(h.Patience)
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		err := fn()
		if !errors.Is(err, api.ErrUnreachable) || !time.Now().Before(giveUp) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// Options changes how an errand is run. The zero value works.
type Options struct {
	Name, Version string // of this program, as the agent is told
	Policy        sandbox.Policy
	Ask           sandbox.Asker
	Auth          string
	V2            bool

	Hub       *Hub            // nil to record in files only
	Retention fleet.Retention // of the files of earlier runs
	Clock     hub.Clock       // default time.Now

	// Kill ends the agent at once when it ends. The context of Run asks it to
	// stop.
	Kill context.Context

	VerifyTimeout time.Duration // for VERIFY and BUILD each; default that of evidence
	StartTimeout  time.Duration // see fleet.Options
	CancelGrace   time.Duration

	// On is told what happens; each may be nil.
	On Listener
}

// A Listener is told what happens in an errand, as it does.
type Listener struct {
	State   func(r hub.Run)      // the run has come further
	Update  func(u *acp.Update)  // the agent says or does something
	Problem func(err error)      // something is wrong, and the errand goes on
	Frame   func(line []byte)    // a frame as it is recorded, with a line end
	Command func(what, c string) // a command is run: VERIFY or BUILD
	Place   func(worktree, branch string)
}

// A Result is how an errand ended.
type Result struct {
	fleet.Record
	Err error // what kept the run from ending well, for people; may be nil
}

// OK reports whether the work is done and that was confirmed.
func (r Result) OK() bool {
	var claim struct {
		Status report.Status `json:"status"`
	}
	return r.State == hub.RunDone && r.Verdict == hub.RunConfirmed && json.Unmarshal(r.Report, &claim) == nil &&
		(claim.Status == report.StatusOK || claim.Status == report.StatusNoChanges)
}

// An errand is one that is under way.
type errand struct {
	order   Order
	opts    Options
	clock   hub.Clock
	ledger  *fleet.Ledger
	account *fleet.Account
	base    *evidence.Base
	key     string // lent by the hub; empty without one
}

// Run sends an agent on an errand. The error says why it could not even be
// recorded; everything else is in the result. home is where the records are kept.
func Run(ctx context.Context, home string, order Order, opts *Options) (Result, error) {
	e := &errand{order: order}
	if opts != nil {
		e.opts = *opts
	}
	if e.opts.Kill == nil {
		e.opts.Kill = context.WithoutCancel(ctx)
	}
	if e.clock = e.opts.Clock; e.clock == nil {
		e.clock = time.Now
	}
	home, err := filepath.Abs(home)
	if err != nil {
		return Result{}, fmt.Errorf("errand: %w", err)
	}
	if e.order.Dir, err = filepath.Abs(order.Dir); err != nil {
		return Result{}, fmt.Errorf("errand: %w", err)
	}
	e.ledger = fleet.NewLedger(home)
	if err := e.tidy(ctx); err != nil {
		e.problem(err)
	}
	run := hub.Run{
		ID: hub.RunID(hub.NewIDs(e.clock).Next()), Agent: order.Agent, Task: order.Dispatch.Task, Dir: e.order.Dir, Handoff: order.Handoff,
		State: hub.RunStarting, Contradictions: []hub.Contradiction{},
	}
	run.StartedAt = run.ID.Time()
	record := fleet.Record{Run: run}
	secrets := fleet.NewRedactor()
	for _, word := range order.Command {
		record.Command = append(record.Command, string(secrets.Redact([]byte(word))))
	}
	if order.Worktree {
		if err := e.makeWorktree(ctx, home, &record); err != nil {
			return Result{}, err
		}
	}
	if e.base, err = evidence.Snapshot(ctx, e.order.Dir, nil); err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{}, fmt.Errorf("errand: look at %s: %w", e.order.Dir, err)
	}
	defer e.base.Close()
	if e.account, err = e.ledger.Open(record); err != nil {
		return Result{}, err
	}
	if err := e.enlist(ctx); err != nil {
		err = errors.Join(err, e.conclude(ctx, ending{state: hub.RunFailed, reason: hub.RunNotStarted}))
		return Result{}, err
	}
	e.tell()
	return e.work(ctx)
}

// tidy sees to what earlier runs left behind.
func (e *errand) tidy(ctx context.Context) error {
	var client *api.Client
	if e.opts.Hub != nil {
		client = e.opts.Hub.Client
	}
	err := Recover(ctx, e.ledger, client, e.clock.Now())
	_, swept := e.ledger.Sweep(e.opts.Retention, e.clock.Now())
	return errors.Join(err, swept)
}

// Recover ends what is left of runs that nobody watches over any more, and tells
// the hub of runs whose end it has not heard. client may be nil.
func Recover(ctx context.Context, ledger *fleet.Ledger, client *api.Client, now hub.Time) error {
	untold, err := ledger.Recover(now)
	if client == nil {
		return err
	}
	errs := []error{err}
	for _, r := range untold {
		_, err := client.EndRun(ctx, endOf(r.Run))
		switch hub.CodeOf(err) {
		case "", hub.CodeNotFound: // a hub that does not know it will not learn of it
			errs = append(errs, ledger.MarkTold(r.ID))
		default:
			errs = append(errs, fmt.Errorf("errand: the hub was not told of the end of run %s: %w", r.ID, err))
		}
	}
	return errors.Join(errs...)
}

// endOf returns what the hub is told of a run that is over.
func endOf(r hub.Run) api.RunEndParams {
	return api.RunEndParams{
		ID: r.ID, State: r.State, StopReason: r.StopReason, Reason: r.Reason, Report: r.Report, Verdict: r.Verdict,
		Contradictions: r.Contradictions, Evidence: r.Evidence,
	}
}

// enlist records the run on the hub, and gets the key for the agent. A call that
// got no answer may have had its effect all the same, so the hub will be told how
// the run ended.
func (e *errand) enlist(ctx context.Context) error {
	if e.opts.Hub == nil {
		return nil
	}
	if err := e.account.Update(func(r *fleet.Record) { r.Hub = true }); err != nil {
		return err
	}
	r := e.account.Record().Run
	var begun api.RunKey
	err := e.opts.Hub.call(ctx, func() (err error) {
		begun, err = e.opts.Hub.Client.BeginRun(ctx, api.RunParams{
			ID: r.ID, Agent: r.Agent, Task: r.Task, Dir: r.Dir, Handoff: r.Handoff, TimeoutS: int(max(e.order.Timeout, time.Second) / time.Second),
		})
		return err
	})
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, api.ErrUnreachable) {
			err = errors.Join(err, e.account.Update(func(r *fleet.Record) { r.Hub = false }))
		}
		return err
	}
	e.key = begun.Key
	return e.account.Update(func(r *fleet.Record) { r.Run = begun.Run })
}

// work has the agent do the task, and everything after that.
func (e *errand) work(ctx context.Context) (Result, error) {
	end := e.run(ctx)
	err := e.conclude(ctx, end)
	return Result{Record: e.account.Record(), Err: end.err}, err
}

// errTimeout is why a turn ends that takes too long.
var errTimeout = errors.New("the agent took too long")

// An ending is how a run ended, before it is recorded.
type ending struct {
	state  hub.RunState
	stop   string
	reason string
	report *report.Result
	found  *found // nil if nothing was looked at
	err    error
}

// run starts the agent, has it work, and checks what it reports.
func (e *errand) run(ctx context.Context) ending {
	id := e.account.Record().ID
	record, err := e.recorder()
	if err != nil {
		return ending{state: hub.RunFailed, reason: hub.RunNotStarted, err: err}
	}
	defer func() {
		if err := record.Close(); err != nil {
			e.problem(err)
		}
	}()
	agent, err := fleet.Launch(ctx, e.opts.Kill, fleet.Spec{Command: e.order.Command, Dir: e.order.Dir, Run: id, Tools: e.tools()}, &fleet.Options{
		Name: e.opts.Name, Version: e.opts.Version, Policy: e.opts.Policy, Ask: e.opts.Ask, Auth: e.opts.Auth, V2: e.opts.V2,
		OnUpdate: e.opts.On.Update, OnProblem: e.opts.On.Problem, Record: record, Track: e.track,
		StartTimeout: e.opts.StartTimeout, CancelGrace: e.opts.CancelGrace,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return ending{state: hub.RunInterrupted, reason: hub.RunCancelled, err: err}
	case err != nil:
		return ending{state: hub.RunFailed, reason: hub.RunNotStarted, err: err}
	}
	e.move(ctx, hub.RunRunning, agent.Session())
	within, cancel := ctx, func() {}
	if e.order.Timeout > 0 {
		within, cancel = context.WithTimeoutCause(ctx, e.order.Timeout, errTimeout)
	}
	reply, err := agent.Work(within, e.order.Dispatch)
	cancel()
	if closed := agent.Close(); closed != nil {
		e.problem(closed)
	}
	end := ending{state: hub.RunDone, stop: string(reply.StopReason), report: reply.Report, err: err}
	switch {
	case ctx.Err() != nil:
		end.state, end.reason = hub.RunInterrupted, hub.RunCancelled
	case errors.Is(err, errTimeout):
		end.state, end.reason = hub.RunFailed, hub.RunTimeout
	case err != nil:
		end.state, end.reason = hub.RunFailed, hub.RunBroke
	case reply.Report == nil:
		end.state, end.reason = hub.RunFailed, hub.RunNoReport
	}
	e.check(ctx, &end)
	return end
}

// tools returns the hub's tools for the agent.
func (e *errand) tools() *fleet.Tools {
	if e.key == "" {
		return nil
	}
	h := e.opts.Hub
	return &fleet.Tools{Name: "parley", URL: h.URL, Key: e.key, Bridge: h.Bridge, BridgeEnv: h.BridgeEnv}
}

// recorder returns what records the frames.
func (e *errand) recorder() (*fleet.Recorder, error) {
	var copies writerFunc
	if e.opts.On.Frame != nil {
		copies = func(b []byte) (int, error) {
			e.opts.On.Frame(b)
			return len(b), nil
		}
	}
	return fleet.NewRecorder(e.account.Frames(), fleet.NewRedactor(e.key), copies.orNil())
}

func (e *errand) track(group int, running bool) {
	if err := e.account.Track(group, running); err != nil {
		e.problem(err)
	}
}

func (e *errand) problem(err error) {
	if e.opts.On.Problem != nil {
		e.opts.On.Problem(err)
	}
}

// tell says how far the run has come.
func (e *errand) tell() {
	if e.opts.On.State != nil {
		e.opts.On.State(e.account.Record().Run)
	}
}

// move records that the run has come further. A hub that cannot be reached holds
// nothing up.
func (e *errand) move(ctx context.Context, next hub.RunState, session string) {
	err := e.account.Update(func(r *fleet.Record) {
		if moved, err := r.Advance(next, e.clock.Now()); err == nil {
			r.Run = moved
		}
		if session != "" {
			r.Session = session
		}
	})
	if err != nil {
		e.problem(err)
	}
	if e.opts.Hub != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
		defer cancel()
		err := e.opts.Hub.call(ctx, func() error {
			_, err := e.opts.Hub.Client.MoveRun(ctx, api.RunMoveParams{ID: e.account.Record().ID, State: next, Session: session})
			return err
		})
		if err != nil {
			e.problem(fmt.Errorf("errand: the hub was not told that the run is %s: %w", next, err))
		}
	}
	e.tell()
}

// maxClaims is how many bytes of a report are kept whole.
const maxClaims = 200 << 10

// claims returns a report as it is recorded, nil if there is none. Of one that is
// too large only what matters most is kept.
func (e *errand) claims(r *report.Result) (json.RawMessage, error) {
	if r == nil {
		return nil, nil
	}
	raw, err := json.Marshal(r)
	if len(raw) > maxClaims {
		raw, err = json.Marshal(map[string]any{
			"status": r.Status, "status_known": r.Status.Known(), "tests": r.Tests, "build": r.Build, "truncated": true,
			"files_created_total": len(r.FilesCreated), "files_modified_total": len(r.FilesModified),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("errand: %w", err)
	}
	return e.redact(raw), nil
}

// redact takes secrets out of what is recorded.
func (e *errand) redact(raw []byte) []byte { return fleet.NewRedactor(e.key).Redact(raw) }

// tellTime is how long telling the hub may take.
const tellTime = 15 * time.Second

// conclude records how the run ended, in the files first.
func (e *errand) conclude(ctx context.Context, end ending) error {
	claims, err := e.claims(end.report)
	if err != nil {
		return err
	}
	err = e.account.Update(func(r *fleet.Record) {
		if moved, err := r.Advance(end.state, e.clock.Now()); err == nil {
			r.Run = moved
		}
		r.StopReason, r.Reason, r.Report, r.Verdict = end.stop, end.reason, claims, hub.RunUnverified
		if end.found != nil {
			r.Verdict, r.Contradictions, r.Evidence = end.found.verdict, end.found.contradictions, end.found.evidence
		}
	})
	if err != nil {
		return err
	}
	defer e.tell()
	if !e.account.Record().Hub {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer cancel()
	var told hub.Run
	err = e.opts.Hub.call(ctx, func() (err error) {
		told, err = e.opts.Hub.Client.EndRun(ctx, endOf(e.account.Record().Run))
		return err
	})
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound: // it never began there
		return e.account.Update(func(r *fleet.Record) { r.Hub = false })
	case err != nil:
		e.problem(fmt.Errorf("errand: the hub was not told how the run ended, and hears of it when somebody looks at runs again: %w", err))
		return nil
	}
	return e.account.Update(func(r *fleet.Record) { r.Message, r.EndedAt, r.Told = told.Message, told.EndedAt, true })
}
