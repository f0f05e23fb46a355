package handoff

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// withFiles reserves the files of an accepted handoff for its receiver and adds the result to the
// answer. Files that cannot be reserved are no reason to refuse the task: the warnings name them,
// and every edit is asked about again.
func (s *Service) withFiles(ctx context.Context, actor hub.Caller, h hub.Handoff, out Report) (Report, error) {
	if s.files == nil || h.Status != hub.HandoffActivated {
		return out, nil
	}
	scope, err := s.scopeOf(ctx, h)
	if err != nil || len(scope.Paths) == 0 {
		return out, err
	}

	reserved, warnings := s.files.ReserveScope(ctx, actor, scope)
	out.Reserved = reserved
	out.Warnings = append(out.Warnings, warnings...)
	return out, nil
}

// scopeOf returns the files that a handoff reserves: those of its package or, if it names none,
// those of its task in a team.
func (s *Service) scopeOf(ctx context.Context, h hub.Handoff) (hub.FileScope, error) {
	pkg, err := shape.DecodePackage(h.Package)
	if err == nil && len(pkg.Scope) > 0 {
		return hub.FileScope{Owner: h.To, Tree: pkg.WorkState.Worktree, Paths: pkg.Scope, Handoff: h.ID}, nil
	}
	if h.Team == "" {
		return hub.FileScope{}, nil
	}
	t, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Task, error) { return r.Teamspaces().Task(hub.TaskID(h.TaskID)) })
	if err != nil {
		return hub.FileScope{}, fmt.Errorf("handoff: find the files of the task: %w", err)
	}
	return hub.FileScope{Owner: h.To, Tree: t.Worktree, Paths: t.Scope, Task: t.ID}, nil
}
