package continuation

import "context"

// Look does what Run does at intervals: it finds closed agents, and offers again the tasks that wait.
func (s *Service) Look(ctx context.Context) {
	s.findClosed(ctx)
	s.settle(ctx)
	s.offerAgain(ctx)
}
