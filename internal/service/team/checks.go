package team

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// maxChecks is the most checks that a task asks for.
const maxChecks = 64

// checkAsked refuses checks that the repository of a task does not have.
func (s *Service) checkAsked(ctx context.Context, op string, r CreateTask) error {
	switch {
	case len(r.Checks) == 0:
		return nil
	case len(r.Checks) > maxChecks:
		return hub.Errorf(hub.CodeTooLarge, op, "checks: a task asks for at most %d, got %d", maxChecks, len(r.Checks))
	case r.Worktree == "":
		return hub.Errorf(hub.CodeInvalid, op, "checks: the task names no worktree").WithHint("name it in worktree_path")
	case s.checks == nil:
		return hub.Errorf(hub.CodeNotEnabled, op, "this hub does not run checks")
	}
	known, err := s.checks.Known(ctx, r.Worktree)
	if err != nil {
		return fmt.Errorf("team: find the checks: %w", err)
	}
	for _, name := range r.Checks {
		if !slices.Contains(known, name) {
			return hub.Errorf(hub.CodeInvalid, op, "checks: the repository of %s has no check named %.100q", r.Worktree, name).
				WithHint("its checks are %s", strings.Join(known, ", "))
		}
	}
	return nil
}

// checkSubmitted runs the checks of a task that its owner submits for review. It refuses work whose
// checks did not pass, or still run: the task stays in work.
func (s *Service) checkSubmitted(ctx context.Context, op string, in call, r MoveTask) (p hub.Progress, results []hub.CheckResult, err error) {
	if s.checks == nil || r.State != hub.TaskInReview {
		return p, nil, nil
	}
	t, err := hub.Read(ctx, s.store, func(rd hub.Reader) (hub.Task, error) { return rd.Teamspaces().Task(r.Task) })
	isOwn := t.Team == in.team && t.Owner == in.actor.ID
	if err != nil || !isOwn || t.State != hub.TaskInProgress {
		return p, nil, nil // the transaction refuses what is wrong
	}
	if p, results, err = s.checks.CheckTask(ctx, in.actor, t); err != nil {
		return p, nil, err
	}
	switch p.Checks {
	case hub.ChecksRunning:
		return p, nil, hub.Errorf(hub.CodeConflict, op, "the checks of %s still run", t.ID).WithHint("submit it again later: results are kept")
	case hub.ChecksFailed:
		return p, nil, hub.Errorf(hub.CodeUnproven, op, "%s", p.Reason).WithHint("repair it, commit, and submit it again")
	}
	return p, results, nil
}
