package reservation

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// MoveFiles gives the files in a folder that an agent reserved to the next owner of its task.
func (s *Service) MoveFiles(ctx context.Context, folder string, from, to hub.AgentID, id hub.HandoffID) error {
	top, err := s.Top(ctx, folder)
	if err != nil {
		return err
	}
	held, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Reservation, error) { return rd.Reservations().OfAgent(from) })
	if err != nil {
		return err
	}
	var paths []string
	for _, r := range held {
		if r.Tree.Path != top {
			continue
		}
		if _, err := s.Release(ctx, hub.Caller{Kind: hub.CallerAgent, ID: from}, Release{ID: r.ID}); err != nil {
			return err
		}
		paths = append(paths, r.Path)
	}
	if len(paths) == 0 {
		return nil
	}
	_, err = s.Reserve(ctx, hub.Caller{Kind: hub.CallerAgent, ID: to}, Request{Tree: top, Patterns: paths, Agent: to, Handoff: id})
	return err
}
