package landing

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// A Worker works on one queue, step by step.
type Worker struct{ *worker }

// NewWorker returns the worker of a queue.
func (s *Service) NewWorker(p hub.LandingPolicy) Worker { return Worker{&worker{s: s, id: p.ID()}} }

// Turn works until there is nothing to do.
func (w Worker) Turn(ctx context.Context) error {
	w.looked = hub.Time{}
	for {
		rest, err := w.turn(ctx)
		if err != nil || rest > 0 {
			return err
		}
	}
}

// SweepReviews reminds silent reviewers.
func (s *Service) SweepReviews(ctx context.Context) error { return s.sweepReviews(ctx) }

// AskOthers asks for reviews of another vendor that wait because no such agent was awake.
func (s *Service) AskOthers(ctx context.Context) error { return s.askOthers(ctx) }

// LookForReviews asks for the reviews of completed handoffs whose repositories have no queue.
func (s *Service) LookForReviews(ctx context.Context) error {
	policies, err := s.policies(ctx)
	if err != nil {
		return err
	}
	return s.lookForReviews(ctx, policies)
}
