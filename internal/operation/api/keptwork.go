package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/keptwork"
)

// KeptParams choose kept work.
type KeptParams = keptwork.Filter

func keptWorkList(ctx context.Context, s *Services, a hub.Caller, p KeptParams) (out keptwork.Listing, err error) {
	if p.Tree, err = s.topOf(ctx, p.Tree); err != nil {
		return out, err
	}
	if s.Kept == nil {
		return out, errWithoutKept
	}
	return s.Kept.List(ctx, a, p)
}

// errWithoutKept is the error in a hub that keeps no work.
var errWithoutKept = hub.Errorf(hub.CodeNotEnabled, "parley/kept", "this hub keeps no work")

// topOf returns the top of the working tree around a folder. A folder that is gone, or under no root,
// is a top itself.
func (s *Services) topOf(ctx context.Context, folder string) (string, error) {
	if folder == "" {
		return "", nil
	}
	top, err := s.Files.Top(ctx, folder)
	switch hub.CodeOf(err) {
	case hub.CodeNotFound, hub.CodeOutsideRoots:
		return folder, nil
	}
	return top, err
}

// KeptID names kept work.
type KeptID struct {
	ID hub.KeptID `json:"id"`
}

func keptWorkShow(ctx context.Context, s *Services, a hub.Caller, p KeptID) (keptwork.Details, error) {
	if s.Kept == nil {
		return keptwork.Details{}, errWithoutKept
	}
	return s.Kept.Show(ctx, a, p.ID)
}

func keptWorkBack(ctx context.Context, s *Services, a hub.Caller, p keptwork.Request) (out keptwork.Back, err error) {
	if s.Kept == nil {
		return out, errWithoutKept
	}
	if p.ID == "" && p.Tree == "" {
		return out, hub.Errorf(hub.CodeInvalid, "parley/kept/back", "id or tree is required")
	}
	if p.Tree, err = s.topOf(ctx, p.Tree); err != nil {
		return out, err
	}
	return s.Kept.Back(ctx, a, p)
}

func keptWorkDrop(ctx context.Context, s *Services, a hub.Caller, p KeptID) (None, error) {
	if s.Kept == nil {
		return None{}, errWithoutKept
	}
	return None{}, s.Kept.Drop(ctx, a, p.ID)
}
