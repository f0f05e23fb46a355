package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/service/usage"
)

// RunParams are the parameters of parley/run/begin.
type RunParams = run.Beginning

// A RunKey is a new run with the key that its agent is lent. The secret is shown
// only here.
type RunKey struct {
	Run hub.Run `json:"run"`
	Key string  `json:"key"`
}

func runBegin(ctx context.Context, s *Services, a hub.Caller, p RunParams) (RunKey, error) {
	var err error
	if p.Handoff, err = s.Handoffs.Resolve(ctx, "parley/run/begin", a, p.Handoff); err != nil {
		return RunKey{}, err
	}
	r, key, err := s.Runs.Begin(ctx, a, p)
	return RunKey{r, key}, err
}

// RunMoveParams are the parameters of parley/run/move.
type RunMoveParams struct {
	ID      hub.RunID    `json:"run_id"`
	State   hub.RunState `json:"state"`
	Session string       `json:"session_id,omitempty"`
}

func runMove(ctx context.Context, s *Services, a hub.Caller, p RunMoveParams) (hub.Run, error) {
	return s.Runs.Move(ctx, a, p.ID, p.State, p.Session)
}

// A RunEnding is the end of a run.
type RunEnding = run.Ending

// RunEndParams are the parameters of parley/run/end.
type RunEndParams struct {
	ID hub.RunID `json:"run_id"`
	RunEnding
}

func runEnd(ctx context.Context, s *Services, a hub.Caller, p RunEndParams) (hub.Run, error) {
	return s.Runs.Finish(ctx, a, p.ID, p.RunEnding)
}

// A RunTrace is a run with its journal entries and its cost.
type RunTrace struct {
	run.Trace
	Spend *usage.Total `json:"spend,omitempty"` // nil if no usage was recorded
}

// RunIDParams name a run.
type RunIDParams struct {
	ID hub.RunID `json:"run_id"`
}

func runShow(ctx context.Context, s *Services, a hub.Caller, p RunIDParams) (RunTrace, error) {
	got, err := s.Runs.Show(ctx, a, p.ID)
	if err != nil {
		return RunTrace{}, err
	}
	out := RunTrace{Trace: got}
	out.Spend, err = s.spendOf(ctx, a, usage.Query{Run: got.ID})
	return out, err
}

// RunListParams choose runs. Empty members do not restrict.
type RunListParams struct {
	Agent   hub.AgentID      `json:"agent,omitempty"`
	Handoff hub.HandoffID    `json:"handoff_id,omitempty"`
	Open    bool             `json:"open,omitempty"`
	Limit   strictjson.Count `json:"limit,omitzero"`
	Cursor  hub.RunID        `json:"cursor,omitempty"`
}

func runList(ctx context.Context, s *Services, a hub.Caller, p RunListParams) (run.Listing, error) {
	var err error
	if p.Handoff, err = s.Handoffs.Resolve(ctx, "parley/run/list", a, p.Handoff); err != nil {
		return run.Listing{}, err
	}
	return s.Runs.List(ctx, a, hub.RunQuery{Agent: p.Agent, Handoff: p.Handoff, Open: p.Open, Limit: int(p.Limit), Cursor: p.Cursor})
}
