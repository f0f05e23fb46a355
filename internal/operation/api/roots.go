package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// RootParams name a folder on the hub's machine.
type RootParams struct {
	Path string `json:"path"` // absolute
}

// A RootList lists the roots by path.
type RootList struct {
	Roots []hub.Root `json:"roots"`
}

func rootList(ctx context.Context, s *Services, _ hub.Caller, _ None) (RootList, error) {
	all, err := s.Roots.List(ctx)
	return RootList{append([]hub.Root{}, all...)}, err
}

func rootAdd(ctx context.Context, s *Services, a hub.Caller, p RootParams) (hub.Root, error) {
	return s.Roots.Add(ctx, a, p.Path)
}

func rootRemove(ctx context.Context, s *Services, a hub.Caller, p RootParams) (hub.Root, error) {
	return s.Roots.Remove(ctx, a, p.Path)
}
