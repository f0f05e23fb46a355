package main

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/run"
)

// takeTask starts the task of a team that a run is given by its id, and puts its title
// in the place of the id. The function that it returns moves the task by the verdict of
// the run: to review if it is confirmed, else it is blocked. It is nil for other tasks.
func takeTask(ctx context.Context, c *rpc.Client, spec *run.Spec) (func(ctx context.Context, ok bool) error, error) {
	id := hub.TaskID(spec.Dispatch.Task)
	if !id.Valid() {
		return nil, nil
	}

	move := func(ctx context.Context, state hub.TaskState, reason string) error {
		_, err := rpc.Call(ctx, c, api.Team, api.TeamParams{Action: "task", Task: id, State: state, Reason: reason})
		return err
	}

	got, err := rpc.Call(ctx, c, api.Team, api.TeamParams{Action: "task", Task: id})
	if err != nil {
		return nil, err
	}
	t := *got.Task
	if t.Owner != spec.Agent {
		return nil, hub.Errorf(hub.CodeConflict, "parley", "task %s belongs to %q, not to %s", id, t.Owner, spec.Agent).
			WithHint(`run "parley team task %s %s --owner %s" to change its owner`, t.Team, id, spec.Agent)
	}

	// A run also takes up a task that is in progress already.
	if t.State != hub.TaskInProgress {
		if err := move(ctx, hub.TaskInProgress, ""); err != nil {
			return nil, err
		}
	}
	spec.Dispatch.Task = fmt.Sprintf("%s: %s", id, plaintext.Line(t.Title)) // another agent may have written it

	return func(ctx context.Context, ok bool) error {
		if ok {
			return move(ctx, hub.TaskInReview, "")
		}
		return move(ctx, hub.TaskBlocked, "failing_checks")
	}, nil
}
