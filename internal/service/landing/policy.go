package landing

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Setting is a policy as the operator gives it.
type Setting struct {
	Folder string // in the repository
	Into   string
	Checks []string
	Review string        // "" for ReviewerNone
	By     hub.LandingBy // "" for LandingOperator
	Batch  int           // 0 for DefaultBatch
}

// check completes a setting, and refuses one that is not well formed.
func (p *Setting) check(op string) error {
	if p.Review == "" {
		p.Review = hub.ReviewerNone
	}
	if p.By == "" {
		p.By = hub.LandingOperator
	}
	if p.Batch == 0 {
		p.Batch = DefaultBatch
	}
	isBranch := p.Into != "" && len(p.Into) <= maxRef && !strings.ContainsAny(p.Into, " ~^:?*[\\\x00\n") && !strings.HasPrefix(p.Into, "-")
	switch {
	case !isBranch:
		return hub.Errorf(hub.CodeInvalid, op, "into must be the name of a branch, got %.100q", p.Into).WithHint("--into main")
	case len(p.Checks) > maxChecks:
		return hub.Errorf(hub.CodeTooLarge, op, "at most %d checks are allowed", maxChecks)
	case !hub.ValidReviewer(p.Review):
		return hub.Errorf(hub.CodeInvalid, op, "review must be an agent, role:ROLE, operator or none, got %.100q", p.Review).WithHint("roles: %s", hub.JoinWords(hub.Roles))
	case p.By != hub.LandingAuto && p.By != hub.LandingOperator:
		return hub.Errorf(hub.CodeInvalid, op, "by must be auto or operator, got %.50q", p.By)
	case p.Batch < 1 || p.Batch > maxBatch:
		return hub.Errorf(hub.CodeInvalid, op, "batch must be between 1 and %d, got %d", maxBatch, p.Batch)
	}
	return nil
}

// Set makes changes land in a branch, or changes how they do. Only the operator may.
func (s *Service) Set(ctx context.Context, actor hub.Caller, p Setting) (hub.LandingPolicy, error) {
	const op = "landing.Set"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.LandingPolicy{}, err
	}
	if err := p.check(op); err != nil {
		return hub.LandingPolicy{}, err
	}
	repository, err := s.git.Repository(ctx, p.Folder)
	if err != nil {
		return hub.LandingPolicy{}, err
	}
	if _, err := s.git.Branch(ctx, repository, p.Into); err != nil {
		return hub.LandingPolicy{}, err
	}
	if len(p.Checks) > 0 {
		if err := s.checks.Known(ctx, repository, p.Checks); err != nil {
			return hub.LandingPolicy{}, err
		}
	}

	out := hub.LandingPolicy{Machine: s.machine, Repository: repository, Into: p.Into, Checks: append([]string{}, p.Checks...), Review: p.Review, By: p.By, Batch: p.Batch}
	err = s.update(ctx, actor, nil, func(c *change) error {
		out.SetAt = c.now
		if err := c.tx.WriteLandings().PutPolicy(out); err != nil {
			return err
		}
		return c.recordPolicy(out, out.Digest())
	})
	return out, err
}

// recordPolicy writes the journal entry about a policy; digest is "" for one that is removed.
func (c *change) recordPolicy(p hub.LandingPolicy, digest string) error {
	_, err := c.tx.Append(c.actor.Entry(c.now, actions.LandingSet, p.ID(), struct {
		Repository string        `json:"repository"`
		Into       string        `json:"into"`
		Checks     []string      `json:"checks,omitempty"`
		Review     string        `json:"review,omitempty"`
		By         hub.LandingBy `json:"by,omitempty"`
		Off        bool          `json:"off,omitempty"`
		Digest     string        `json:"sha256,omitempty"`
	}{p.Repository, p.Into, p.Checks, p.Review, p.By, digest == "", digest}))
	return err
}

// Off ends the queue of a branch. Its open entries are cancelled.
func (s *Service) Off(ctx context.Context, actor hub.Caller, folder, into string) (hub.LandingPolicy, error) {
	const op = "landing.Off"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.LandingPolicy{}, err
	}
	p, err := s.Policy(ctx, folder, into)
	if err != nil {
		return p, err
	}
	return p, s.update(ctx, actor, nil, func(c *change) error {
		open, err := c.tx.Landings().Entries(hub.LandingQuery{Queue: p.ID(), States: hub.OpenLandings, Limit: maxOpen})
		if err != nil {
			return err
		}
		for _, e := range open {
			if s.isMoving(e) {
				return hub.Errorf(hub.CodeConflict, op, "%s is landing now", e.ID).WithHint("try again in a moment")
			}
			_, err := c.advance(e, hub.EntryCancelled, actions.LandingCancelled, func(e *hub.LandingEntry) { e.Reason = "landing was turned off" })
			if err != nil {
				return err
			}
		}
		if err := c.tx.WriteLandings().RemovePolicy(p.ID()); err != nil {
			return err
		}
		return c.recordPolicy(p, "")
	})
}

// Policy returns the policy of a branch of the repository around a folder; of its only one if into
// is "".
func (s *Service) Policy(ctx context.Context, folder, into string) (hub.LandingPolicy, error) {
	const op = "landing.Policy"
	repository, err := s.git.Repository(ctx, folder)
	if err != nil {
		return hub.LandingPolicy{}, err
	}
	all, err := s.policies(ctx)
	if err != nil {
		return hub.LandingPolicy{}, err
	}
	all = slices.DeleteFunc(all, func(p hub.LandingPolicy) bool {
		return p.Machine != s.machine || p.Repository != repository || (into != "" && p.Into != into)
	})
	switch len(all) {
	case 0:
		return hub.LandingPolicy{}, hub.Errorf(hub.CodeNotFound, op, "landing is off for %s", repository).
			WithHint("the operator turns it on: parley landing set --repo DIR --into BRANCH")
	case 1:
		return all[0], nil
	}
	var branches []string
	for _, p := range all {
		branches = append(branches, p.Into)
	}
	return hub.LandingPolicy{}, hub.Errorf(hub.CodeInvalid, op, "several branches of %s have a queue: %s", repository, strings.Join(branches, ", ")).WithHint("name one with into")
}

// policyOf returns a policy by its id.
func policyOf(r hub.Reader, id string) (hub.LandingPolicy, error) {
	all, err := r.Landings().Policies()
	if err != nil {
		return hub.LandingPolicy{}, err
	}
	i := slices.IndexFunc(all, func(p hub.LandingPolicy) bool { return p.ID() == id })
	if i < 0 {
		return hub.LandingPolicy{}, hub.Errorf(hub.CodeNotFound, "landing.Policy", "no queue %s", id)
	}
	return all[i], nil
}
