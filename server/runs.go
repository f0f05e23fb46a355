package server

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/internal/work/fleet"
	runner "github.com/parley-agents/parley/internal/work/run"
)

// openRepeater builds the part that executes runs again.
// A run that is executed again runs inside of the hub, with the authority of the
// caller who asked for it, and its files lie beside those of other runs in the
// home.
func (s *Server) openRepeater(context.Context) error {
	home := s.opts.Home
	s.runFiles = runner.NewFiles(home)
	s.repeater = runner.NewRepeater(home, s.opts.Version, func(actor hub.Caller) runner.Hub { return ownRuns{s, actor, home} }, s.askFiles)
	return nil
}

// askFiles returns the function with which the agent of a run that the hub executes asks about
// files.
func (s *Server) askFiles(r hub.Run, _ string) acpguard.Ask {
	actor := hub.Caller{Kind: hub.CallerAgent, ID: r.Agent}
	return func(ctx context.Context, q reservation.Question) (reservation.Answer, error) {
		return s.files.Guard(ctx, actor, q)
	}
}

// ownRuns is the hub of a run that the hub itself executes for a caller. It
// implements runner.Hub by direct calls of the services, with the authority of that
// caller.
type ownRuns struct {
	*Server
	actor hub.Caller
	home  string
}

// BeginRun records a run.
func (o ownRuns) BeginRun(ctx context.Context, r hub.Run, timeout time.Duration) (hub.Run, string, error) {
	return o.runs.Begin(ctx, o.actor, run.Beginning{ID: r.ID, Agent: r.Agent, Task: r.Task, Dir: r.Dir, Handoff: r.Handoff, TimeoutS: int(timeout.Seconds())})
}

// MoveRun records that a run entered a state.
func (o ownRuns) MoveRun(ctx context.Context, id hub.RunID, next hub.RunState, session string) error {
	_, err := o.runs.Move(ctx, o.actor, id, next, session)
	return err
}

// EndRun records the end of a run.
func (o ownRuns) EndRun(ctx context.Context, r hub.Run) (hub.Run, error) {
	return o.runs.Finish(ctx, o.actor, r.ID, endingOf(r))
}

// RecordUsage records the model calls of a run.
func (o ownRuns) RecordUsage(ctx context.Context, r hub.Run, cli string, calls []hub.ModelCall) error {
	return o.usage.RecordRun(ctx, r, cli, calls)
}

// Tools returns the hub's tools.
func (o ownRuns) Tools(key string) *fleet.Tools {
	t := &fleet.Tools{Name: "parley", URL: o.url, Key: key, BridgeEnv: []string{"PARLEY_HOME=" + o.home}}
	if o.opts.Bridge != "" {
		t.Bridge = []string{o.opts.Bridge, "mcp"}
	}
	return t
}

// endingOf returns the end of a run that was executed here.
func endingOf(r hub.Run) run.Ending {
	return run.Ending{
		State: r.State, StopReason: r.StopReason, Reason: r.Reason, Report: r.Report, Verdict: r.SentVerdict(),
		Contradictions: r.Contradictions, Evidence: r.Evidence,
	}
}
