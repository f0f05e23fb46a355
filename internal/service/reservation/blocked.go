package reservation

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A Blocked is an agent that has waited for a file of another agent for long.
type Blocked struct {
	ID          string            `json:"id"` // of the wait
	Agent       hub.AgentID       `json:"agent"`
	Since       hub.Time          `json:"since,omitzero"`
	Tree        string            `json:"tree"`
	Path        string            `json:"path"`
	Holder      hub.AgentID       `json:"holder"`
	Reservation hub.ReservationID `json:"reservation"` // of the holder
}

// maxBlocked bounds a list of agents that wait.
const maxBlocked = 100

// Blocked returns the agents that have waited for files of others so long that the operator is
// told, those that wait longest first.
func (s *Service) Blocked(ctx context.Context) ([]Blocked, error) {
	var waits []hub.FileWait
	var all []hub.Reservation
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if waits, err = r.Reservations().Waits(""); err != nil {
			return err
		}
		now := s.clock.Now()
		waits = slices.DeleteFunc(waits, func(w hub.FileWait) bool {
			return !w.Told.IsZero() || now.Sub(w.Since.Time) < warnAfter
		})
		if len(waits) > 0 {
			all, err = r.Reservations().OfAgent("")
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	var out []Blocked
	covered := s.coverage()
	for _, w := range waits[:min(len(waits), maxBlocked)] {
		i := slices.IndexFunc(all, func(v hub.Reservation) bool {
			return keyOf(v.Tree) == w.Tree && binds(v, w.Agent, false) && covered.covers(v, w.Path)
		})
		if i < 0 { // it is free: the agent is told soon
			continue
		}
		held := all[i]
		out = append(out, Blocked{ID: w.ID(), Agent: w.Agent, Since: w.Since, Tree: held.Tree.Path, Path: w.Path, Holder: held.Holder, Reservation: held.ID})
	}
	return out, nil
}

// Counts returns how many files each agent holds, without patterns.
func (s *Service) Counts(ctx context.Context) (map[hub.AgentID]int, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (map[hub.AgentID]int, error) { return r.Reservations().Counts() })
}
