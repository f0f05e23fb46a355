package continuation

import "context"

// Look does what Run does at intervals: it finds closed agents, withdraws offers without an answer, and
// offers again the tasks that wait.
func (s *Service) Look(ctx context.Context) {
	s.findClosed(ctx)
	s.settle(ctx)
	s.recall(ctx)
	s.offerAgain(ctx)
	s.tellSenders(ctx)
}
