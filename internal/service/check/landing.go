package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// Git reads the repositories of this machine for the checks of landing policies.
type Git interface {
	// Find returns the repository around a folder.
	Find(ctx context.Context, folder string) (hub.Repository, error)
	// Keep protects a commit of the hub's copy under a name.
	Keep(ctx context.Context, folder, name, commit string) error
	// Files returns the files that differ between two commits.
	Files(ctx context.Context, repository, from, to string) ([]hub.FileChange, error)
	// Base returns the common ancestor of two commits.
	Base(ctx context.Context, repository, target, commit string) (string, error)
}

// Landing runs the checks of landing policies, on commits of this machine's repositories.
type Landing struct {
	s   *Service
	git Git
}

// Landing returns the checks of landing policies.
func (s *Service) Landing(g Git) Landing { return Landing{s, g} }

// Known returns the checks that the operator allowed for a repository.
func (l Landing) Known(ctx context.Context, repository string) (out []hub.KnownCheck, err error) {
	all, err := l.all(ctx, repository)
	for _, c := range all {
		out = append(out, hub.KnownCheck{Name: c.Name, Required: c.Required, InPlace: c.InPlace})
	}
	return out, err
}

// all returns the checks of a repository.
func (l Landing) all(ctx context.Context, repository string) ([]hub.RepositoryCheck, error) {
	repo, err := l.git.Find(ctx, repository)
	if err != nil {
		return nil, err
	}
	return hub.Read(ctx, l.s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().OfRepository(repo) })
}

// Concerned returns those of the named checks that the difference between two commits concerns: the ones
// without patterns, and the ones of which it touches a pattern.
func (l Landing) Concerned(ctx context.Context, repository, from, to string, names []string) (out []string, err error) {
	all, err := l.all(ctx, repository)
	if err != nil {
		return nil, err
	}
	plan := hub.CheckPlan{Base: from}
	isNarrow := func(c hub.RepositoryCheck) bool { return len(c.When) > 0 && slices.Contains(names, c.Name) }
	if slices.ContainsFunc(all, isNarrow) {
		files, err := l.git.Files(ctx, repository, from, to)
		if err != nil {
			return nil, err
		}
		for _, d := range files {
			plan.Changes = append(plan.Changes, hub.CommitChange{Path: d.Path})
		}
	}
	for _, c := range all {
		if slices.Contains(names, c.Name) && Touches(c, plan) {
			out = append(out, c.Name)
		}
	}
	return out, nil
}

// Judged returns what a change does to the named checks and to tests, which judge it: the change of a commit
// since it left a target.
func (l Landing) Judged(ctx context.Context, repository, target, commit string, names []string) ([]hub.JudgeFinding, error) {
	all, err := l.all(ctx, repository)
	if err != nil {
		return nil, err
	}
	plan := hub.CheckPlan{Commit: commit}
	if plan.Base, err = l.git.Base(ctx, repository, target, commit); err != nil {
		return nil, err
	}
	files, err := l.git.Files(ctx, repository, plan.Base, commit)
	if err != nil {
		return nil, err
	}
	for _, d := range files {
		plan.Changes = append(plan.Changes, hub.CommitChange{Path: d.Path, Was: d.Before, Is: d.After})
	}
	plan.Checks = slices.DeleteFunc(all, func(c hub.RepositoryCheck) bool { return !slices.Contains(names, c.Name) })
	return l.s.Judged(ctx, repository, plan)
}

// Run runs checks, or takes the kept results for the tree of the commit. An error means that they could not
// run: it says nothing about the commit. A check that runs in a working tree does not count for landing.
func (l Landing) Run(ctx context.Context, q hub.CommitChecks) (hub.CommitReport, error) {
	const op = "check.Landing"
	repo, err := l.git.Find(ctx, q.Repository)
	if err != nil {
		return hub.CommitReport{}, err
	}
	plan := hub.CheckPlan{Repository: repo, Worktree: q.Repository, Commit: q.Commit.ID, Tree: q.Commit.Tree, Fills: q.Target}
	all, err := hub.Read(ctx, l.s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().OfRepository(repo) })
	if err != nil {
		return hub.CommitReport{}, err
	}
	for _, name := range q.Names {
		i := slices.IndexFunc(all, func(c hub.RepositoryCheck) bool { return c.Name == name })
		switch {
		case i < 0:
			return hub.CommitReport{}, hub.Errorf(hub.CodeNotFound, op, "the check %s was removed", name)
		case all[i].InPlace:
			return hub.CommitReport{}, hub.Errorf(hub.CodeInvalid, op, "the check %s runs in place, which does not count for landing", name)
		}
		plan.Checks = append(plan.Checks, all[i])
	}

	if q.Kept {
		return l.kept(ctx, plan)
	}
	if err := l.git.Keep(ctx, q.Repository, "checked/"+q.Commit.ID, q.Commit.ID); err != nil {
		return hub.CommitReport{}, err
	}
	_, results, err := l.s.Try(ctx, hub.Caller{ID: hub.Self}, plan, false, q.Since)
	if err != nil {
		return hub.CommitReport{}, err
	}
	notes := map[string]string{}
	for range q.Repeat {
		if err := l.repeat(ctx, plan, results, notes); err != nil {
			return hub.CommitReport{}, err
		}
	}
	return reportOf(plan, results, notes)
}

// kept sums up the kept results of checks. It reports CodeNotFound if one has none.
func (l Landing) kept(ctx context.Context, plan hub.CheckPlan) (hub.CommitReport, error) {
	var results []hub.CheckResult
	for _, c := range plan.Checks {
		found, err := hub.Read(ctx, l.s.store, func(r hub.Reader) ([]hub.CheckResult, error) {
			return r.Checks().Results(hub.CheckResultQuery{Repository: plan.Repository, Tree: plan.Tree, Digest: c.Digest, States: []hub.CheckState{hub.ResultPassed, hub.ResultFailed}, Limit: 1})
		})
		if err != nil {
			return hub.CommitReport{}, err
		}
		if len(found) == 0 {
			return hub.CommitReport{}, hub.Errorf(hub.CodeNotFound, "check.Landing", "no kept result of %s for this commit", c.Name)
		}
		results = append(results, found[0])
	}
	return reportOf(plan, results, nil)
}

// repeat runs the checks that failed once more, and notes which result each new one repeats.
func (l Landing) repeat(ctx context.Context, plan hub.CheckPlan, results []hub.CheckResult, notes map[string]string) error {
	for i, r := range results {
		if r.State != hub.ResultFailed {
			continue
		}
		one := plan
		one.Checks = plan.Checks[i : i+1]
		_, again, err := l.s.Try(ctx, hub.Caller{ID: hub.Self}, one, true, hub.Time{})
		if err != nil {
			return err
		}
		notes[r.Name] = fmt.Sprintf(", repeated after %s failed", r.ID)
		results[i] = again[0]
	}
	return nil
}

// reportOf sums up the results of checks. A run that was cancelled says nothing about the commit.
func reportOf(plan hub.CheckPlan, results []hub.CheckResult, notes map[string]string) (hub.CommitReport, error) {
	out := hub.CommitReport{Passed: true, Tests: map[string]hub.TestCount{}}
	for i, r := range results {
		if plan.Checks[i].JUnit != "" { // without a report there are no tests
			out.Tests[r.Name] = hub.TestCount{}
		}
		if r.Tests != nil {
			out.Tests[r.Name] = *r.Tests
		}
		out.Results = append(out.Results, string(r.ID))
		evidence := fmt.Sprintf("%s %s%s", r.ID, r.State, notes[r.Name])
		if level := r.Confinement(); level != "" {
			evidence += " (" + level + ")"
		}
		out.Asked = append(out.Asked, hub.GateEvidence{What: "check " + r.Name, Evidence: evidence, Of: plan.Commit, By: hub.Self, At: r.EndedAt})
		switch {
		case r.State == hub.ResultCancelled:
			return out, hub.Errorf(hub.CodeConflict, "check.Landing", "the run of %s was cancelled", r.Name)
		case r.State != hub.ResultPassed && out.Passed:
			out.Passed = false
			out.Failed = r.Name
			out.State = string(r.State)
			out.Output = r.Output.Tail
			if out.Output == "" {
				out.Output = r.Reason
			}
		}
	}
	return out, nil
}

// Output returns the end of the output of the check that runs now on a commit; "" if none does.
func (l Landing) Output(ctx context.Context, repository string, c hub.Commit) string {
	repo, err := l.git.Find(ctx, repository)
	if err != nil {
		return ""
	}
	page, err := l.s.Results(ctx, hub.CheckResultQuery{Repository: repo, Tree: c.Tree, Limit: maxShown})
	if err != nil {
		return ""
	}
	for _, r := range page.Results {
		if r.State == hub.ResultRunning {
			if got, err := l.s.Result(ctx, r.ID); err == nil {
				return got.Output.Tail
			}
		}
	}
	return ""
}

// maxShown is the number of results that are searched for one that runs.
const maxShown = 20

// QueueTest queues a check on a commit for a version of a contract, such as ID@2, unless its result is known or
// on its way.
func (s *Service) QueueTest(ctx context.Context, caller hub.Caller, r hub.Repository, commit, name, version string) error {
	_, err := s.Run(ctx, caller, Request{Folder: r.Path, Name: name, Commit: commit, Contract: version})
	return err
}
