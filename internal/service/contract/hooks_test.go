package contract

import "github.com/parley-agents/parley/compat"

// OnCompare makes f run before each comparison of the service. For tests.
func (s *Service) OnCompare(f func()) {
	compare := s.comparer.compare
	s.comparer.compare = func(old, new compat.Document, o compat.Options) compat.Verdict {
		f()
		return compare(old, new, o)
	}
}

// Waiting returns the number of questions that wait for an answer. For tests.
func (s *Service) Waiting() (n int) {
	s.comparer.mu.Lock()
	defer s.comparer.mu.Unlock()
	for _, t := range s.comparer.turns {
		n += t.users
	}
	return n
}
