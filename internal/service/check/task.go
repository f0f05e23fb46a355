package check

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// CheckTask runs the checks that a task of a team asks for, and those that its repository requires, on
// the commit that is checked out in the worktree of the task. It waits for a while and returns how far
// the commit has come, with the results: a caller that repeats the call gets those that ended meanwhile.
func (s *Service) CheckTask(ctx context.Context, actor hub.Caller, t hub.Task) (hub.Progress, []hub.CheckResult, error) {
	const op = "check.CheckTask"
	none := hub.NewProgress(string(t.ID))
	if t.Worktree == "" {
		return none, nil, nil
	}
	relevant, err := s.Relevant(ctx, t.Worktree)
	lands := err == nil && s.lands(ctx, t.Worktree)
	isOurs := err == nil && (relevant || lands) // a folder that the hub cannot read is none of its repositories
	if len(t.Checks) == 0 && !isOurs {
		return none, nil, nil
	}
	plan, err := s.Plan(ctx, t.Worktree, "", "", t.Checks)
	if err != nil {
		return none, nil, err
	}
	if len(plan.Checks) == 0 && plan.Require {
		return none, nil, hub.Errorf(hub.CodeUnproven, op, "passed checks are required, and no check is set for this work").WithHint("{check.add}")
	}
	if len(plan.Checks) == 0 && !lands {
		return none, nil, nil
	}

	var p hub.Progress
	err = s.update(ctx, func(tx hub.Tx) (err error) {
		if p, err = tx.Checks().Progress(string(t.ID)); err != nil {
			return err
		}
		if p.Results, err = s.queue(tx, actor, plan, "", repetition{}); err != nil {
			return err
		}
		p = p.At(plan)
		p.Checks = hub.ChecksNone // until they have ended: the next call decides
		p.Names = plan.Names()
		p.Actor = actor.ID
		p.UpdatedAt = s.clock.Now()
		return tx.WriteChecks().PutProgress(p)
	})
	if err == nil {
		err = s.Wait(ctx, p.Results, DefaultWait)
	}
	if err != nil {
		return none, nil, err
	}
	return s.concludeTask(ctx, t.ID)
}

// lands reports whether a branch of the repository around a folder has a landing queue.
func (s *Service) lands(ctx context.Context, folder string) bool {
	repo, err := s.repos.Find(ctx, folder)
	if err != nil {
		return false
	}
	policies, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.LandingPolicy, error) { return r.Landings().Policies() })
	isOf := func(p hub.LandingPolicy) bool { return p.Machine == repo.Machine && p.Repository == repo.Path }
	return err == nil && slices.ContainsFunc(policies, isOf)
}

// concludeTask stores the word for the results of a task.
func (s *Service) concludeTask(ctx context.Context, id hub.TaskID) (p hub.Progress, results []hub.CheckResult, err error) {
	err = s.update(ctx, func(tx hub.Tx) (err error) {
		if p, err = tx.Checks().Progress(string(id)); err != nil {
			return err
		}
		if results, err = s.Seen(tx, p.Results, true); err != nil {
			return err
		}
		word, bad := Sum(results)
		if word == hub.ChecksRunning {
			p.Checks = word // for the answer alone
			return nil
		}
		p.Checks = word
		p.Reason = ""
		if bad != nil {
			p.Reason = bad.Failure()
		}
		return tx.WriteChecks().PutProgress(p)
	})
	return p, results, err
}
