package hubtest_test

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/landing"
)

// A quarry is a repository for landing queues in which every branch has one commit, and every
// check passes.
type quarry struct{}

func (quarry) Repository(context.Context, string) (string, error) { return "/src", nil }

func (quarry) Resolve(_ context.Context, _, revision string) (landing.Commit, error) {
	return landing.Commit{ID: revision + "-commit", Tree: revision + "-tree"}, nil
}

func (q quarry) Branch(ctx context.Context, repository, branch string) (landing.Commit, error) {
	return q.Resolve(ctx, repository, branch)
}

func (quarry) Contains(context.Context, string, string, string) (bool, error) { return false, nil }

func (quarry) Merge(_ context.Context, _ string, _, change landing.Commit, _ string) (landing.Merge, error) {
	return landing.Merge{Commit: landing.Commit{ID: change.ID + "-merged", Tree: change.Tree + "-merged"}}, nil
}

func (quarry) Revert(context.Context, string, landing.Commit, string, string) (landing.Merge, error) {
	return landing.Merge{}, nil
}

func (quarry) Forward(context.Context, string, string, string, string) (landing.Forwarding, error) {
	return landing.Forwarding{Moved: true}, nil
}

func (quarry) Change(context.Context, string, string, string, int) (landing.Change, error) {
	return landing.Change{Base: "base", Patch: landing.Patch{Text: "+new"}}, nil
}

func (quarry) Patch(context.Context, string, string, string, int) (landing.Patch, error) {
	return landing.Patch{Text: "+new"}, nil
}

func (quarry) Missing(context.Context, string, string, string, []string) (map[string]bool, error) {
	return nil, nil
}

func (quarry) Judged(context.Context, string, string, string, []string) ([]hub.JudgeFinding, error) {
	return nil, nil
}

func (quarry) Keep(context.Context, string, string, string) error { return nil }

func (quarry) Drop(context.Context, string, string) error { return nil }

func (quarry) Files(context.Context, string, string, string) ([]landing.File, error) { return nil, nil }

func (quarry) Fork(context.Context, string, string, string) (string, error) { return "", nil }

func (quarry) Joins(context.Context, string, string, string) ([]landing.Join, error) { return nil, nil }

func (quarry) Combine(context.Context, string, string, string, string) (string, []string, error) {
	return "", nil, nil
}

func (quarry) Compose(context.Context, string, string, string, ...string) (landing.Commit, error) {
	return landing.Commit{}, nil
}

func (quarry) SamePatch(context.Context, string, string, string, string) (bool, error) {
	return false, nil
}

func (quarry) Known(context.Context, string) ([]landing.Check, error) {
	return []landing.Check{{Name: "test", Required: true}}, nil
}

func (quarry) Concerned(_ context.Context, _, _, _ string, names []string) ([]string, error) {
	return names, nil
}

func (quarry) Run(context.Context, landing.CheckRun) (landing.CheckReport, error) {
	return landing.CheckReport{Passed: true}, nil
}

func (quarry) Output(context.Context, string, landing.Commit) string { return "" }
