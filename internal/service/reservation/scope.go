package reservation

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// ReserveScope reserves the files of a task or handoff for its owner. It returns the paths that
// it reserved, and sentences about files that it could not reserve or that others change. Neither
// stops the owner: the edit decides.
func (s *Service) ReserveScope(ctx context.Context, actor hub.Caller, scope hub.FileScope) (reserved, warnings []string) {
	got, err := s.Reserve(ctx, actor, Request{Tree: scope.Tree, Patterns: scope.Paths, Agent: scope.Owner, Task: scope.Task, Handoff: scope.Handoff})
	switch code := hub.CodeOf(err); {
	case code == "":
	case code == hub.CodeInternal || ctx.Err() != nil:
		s.log.Warn("the files of a task were not reserved", "op", "reservation.ReserveScope", "err", err)
		return nil, []string{"no files were reserved: the hub could not read or store them"}
	default:
		return nil, []string{fmt.Sprintf("no files were reserved: %v", err)}
	}

	for _, r := range got.Reservations {
		if r.State == hub.ReservationWaiting {
			warnings = append(warnings, WaitsText(r))
			continue
		}
		reserved = append(reserved, r.Pattern)
	}
	told := map[Overlap]bool{}
	for _, o := range got.Overlaps {
		if !told[o] {
			told[o] = true
			warnings = append(warnings, fmt.Sprintf("%s holds %s, which meets %s: ask it before you change files there", o.Holder, o.Other, o.Pattern))
		}
	}
	return reserved, warnings
}
