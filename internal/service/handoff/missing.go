package handoff

import (
	"context"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Limits of the look whether verified work is still there.
const (
	missingDays  = 30 * 24 * time.Hour // since the completion; older work is not looked for
	missingAge   = 10 * time.Second    // for which an answer serves a list
	missingTime  = time.Second         // for all handoffs of a list
	maxRemembers = 10_000              // answers that are held
)

// A missingWork remembers since when the work of handoffs is missing. It is safe for
// concurrent use.
type missingWork struct {
	mu      sync.Mutex
	answers map[hub.HandoffID]missingAnswer
}

// A missingAnswer is the answer about one handoff; the zero time means that its work is
// there, or that nothing is known.
type missingAnswer struct {
	since hub.Time
	at    time.Time // of the answer
}

func (m *missingWork) get(id hub.HandoffID) (missingAnswer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.answers[id]
	return a, ok
}

// put remembers an answer. Work that was missing before is missing since then, because its
// files may be changed for other reasons later.
func (m *missingWork) put(id hub.HandoffID, since hub.Time, at time.Time) hub.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil || len(m.answers) >= maxRemembers {
		m.answers = map[hub.HandoffID]missingAnswer{}
	}
	if before := m.answers[id].since; !since.IsZero() && !before.IsZero() {
		since = before
	}
	m.answers[id] = missingAnswer{since, at}
	return since
}

// lookForWork tells the reports of verified work since when that is missing. An answer that
// is younger than age serves again. It ends after missingTime: the other reports then have
// the last answer, or none.
func (s *Service) lookForWork(ctx context.Context, age time.Duration, reports []Report) {
	if s.inspector == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, missingTime)
	defer cancel()
	now := s.clock()
	for i := range reports {
		r := &reports[i]
		if r.work == nil || r.Proof != hub.ProofVerified || now.Sub(r.ResolvedAt.Time) > missingDays {
			continue
		}
		last, known := s.missing.get(r.ID)
		r.MissingSince = last.since
		fresh := known && age > 0 && now.Sub(last.at) < age
		if fresh || ctx.Err() != nil {
			continue
		}
		if since, err := s.inspector.Missing(ctx, *r.work); err == nil {
			r.MissingSince = s.missing.put(r.ID, since, now)
		}
	}
}
