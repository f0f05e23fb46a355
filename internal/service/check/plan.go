package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/checkfile"
	"github.com/parley-agents/parley/internal/ground/effects"
)

// Plan chooses the checks for work: those that were asked for by name, and the required ones whose
// patterns the change touches. The change is the difference of the commit, which a revision names
// in a folder, from base; without a base every required check runs. It reports CodeNotFound for a
// name that the repository does not have.
func (s *Service) Plan(ctx context.Context, folder, revision, base string, names []string) (hub.CheckPlan, error) {
	const op = "check.Plan"
	if revision == "" {
		revision = "HEAD"
	}
	p, err := s.plan(ctx, folder, revision)
	if err != nil {
		return p, err
	}
	if base != "" {
		if _, err := s.repos.Fetch(ctx, folder, base); err != nil {
			return p, fmt.Errorf("check: the commit before the work: %w", err)
		}
		p.Base = base
		if p.Changes, err = s.repos.Changes(ctx, folder, base, p.Commit); err != nil {
			return p, err
		}
	}

	all := p.Checks
	for _, name := range names {
		if named(all, name) == nil {
			return p, unknown(op, p.Repository, name, all)
		}
	}
	p.Checks = slices.DeleteFunc(slices.Clone(all), func(c hub.RepositoryCheck) bool {
		asked := slices.Contains(names, c.Name)
		return !asked && !(c.Required && Touches(c, p))
	})
	if p.Notes, err = s.notes(ctx, folder, p); err != nil {
		return p, err
	}
	if p.Judged, err = s.Judged(ctx, folder, p); err != nil {
		return p, err
	}
	for _, f := range p.Judged {
		if f.Word {
			p.Notes = append(p.Notes, f.Found)
		}
	}
	return p, nil
}

// maxJudgeFiles bounds the files of one commit that are read to find what judges a change.
const maxJudgeFiles = 200

// Judged returns what the change of a plan does to the checks and tests that judge it. A plan without a
// base has no change.
func (s *Service) Judged(ctx context.Context, folder string, p hub.CheckPlan) ([]hub.JudgeFinding, error) {
	if s.judge == nil || len(p.Changes) == 0 || p.Base == "" {
		return nil, nil
	}
	var failed error
	at := func(commit string) func(string) []byte {
		read := map[string][]byte{}
		return func(name string) []byte {
			content, isKnown := read[name]
			if isKnown || len(read) == maxJudgeFiles {
				return content
			}
			content, err := s.repos.File(ctx, folder, commit, name)
			if err != nil && hub.CodeOf(err) != hub.CodeTooLarge {
				failed = err
			}
			read[name] = content
			return content
		}
	}
	return s.judge(JudgedChange{Files: p.Changes, Checks: p.Checks, Before: at(p.Base), After: at(p.Commit)}), failed
}

// Relevant reports whether the repository around a folder has checks or requires some, so that its
// commits must be read.
func (s *Service) Relevant(ctx context.Context, folder string) (bool, error) {
	repo, err := s.repos.Find(ctx, folder)
	if hub.CodeOf(err) == hub.CodeUnreachable {
		isSet, readErr := s.elsewhere(ctx)
		if readErr != nil || isSet {
			return isSet, readErr
		}
	}
	if err != nil {
		return false, err
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) (bool, error) {
		policy, err := r.Checks().Policy(repo)
		if err != nil || s.required(policy) {
			return err == nil, err
		}
		all, err := r.Checks().OfRepository(repo)
		return len(all) > 0, err
	})
}

// elsewhere reports whether a repository of another machine has checks, so that a folder there must
// not count as one without any.
func (s *Service) elsewhere(ctx context.Context) (bool, error) {
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().All() })
	return slices.ContainsFunc(all, func(c hub.RepositoryCheck) bool { return c.Machine != s.machine }), err
}

// Touches reports whether the change of a plan touches the patterns of a check. A check without
// patterns, and a plan without a base, are always touched.
func Touches(c hub.RepositoryCheck, p hub.CheckPlan) bool {
	if len(c.When) == 0 || p.Base == "" {
		return true
	}
	when := make([]effects.Target, len(c.When))
	for i, pattern := range c.When {
		when[i] = effects.Pathspec(pattern)
	}
	files := effects.Compile(when...)
	return slices.ContainsFunc(p.Changes, func(change hub.CommitChange) bool { return files.Matches("/" + change.Path) })
}

// Within reports whether a commit is another one, named in a folder, or an ancestor of it.
func (s *Service) Within(ctx context.Context, folder, commit, of string) (bool, error) {
	return s.repos.Within(ctx, folder, commit, of)
}

// notes returns what the owner of a commit must know: that the file of the commit proposes other
// checks than the trusted ones. The trusted ones run.
func (s *Service) notes(ctx context.Context, folder string, p hub.CheckPlan) ([]string, error) {
	raw, err := s.repos.File(ctx, folder, p.Commit, checkfile.Name)
	if err != nil || raw == nil {
		return nil, err
	}
	policy, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.CheckPolicy, error) { return r.Checks().Policy(p.Repository) })
	if err != nil {
		return nil, err
	}
	file, err := checkfile.Parse(checkfile.Name, raw)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("checks cannot be read: %v", err)}, nil
	case file.IsEmpty() && policy.Trusted == "", file.Digest() == policy.Trusted:
		return nil, nil
	}
	return []string{"checks changed, not trusted: parley check trust"}, nil
}

// Queue stores the runs of a plan inside tx, for the completion of a handoff, and returns the ids
// of all results in the order of the checks. The caller calls Start after the commit.
func (s *Service) Queue(tx hub.Tx, actor hub.Caller, p hub.CheckPlan, handoff hub.HandoffID) ([]hub.CheckResultID, error) {
	return s.queue(tx, actor, p, handoff, repetition{})
}

// Start starts runs that were queued.
func (s *Service) Start() { s.hint() }
