package run

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
)

// makeWorktree makes a git worktree for the run, on a branch of its own. Both stay when
// the run is over.
func (e *execution) makeWorktree(ctx context.Context, home string, r *Record) (err error) {
	r.Worktree, r.Branch = filepath.Join(home, "worktrees", string(r.ID)), "parley/"+string(r.ID)
	if e.spec.Dir, _, err = MakeWorktree(ctx, e.spec.Dir, r.Worktree, r.Branch); err != nil {
		return err
	}
	r.Dir = e.spec.Dir
	if e.opts.On.Worktree != nil {
		e.opts.On.Worktree(r.Worktree, r.Branch)
	}
	return nil
}

// MakeWorktree makes a git worktree of the repository in a folder, on a new branch that
// begins at the commit that is checked out. It returns the folder in the worktree that
// corresponds to the given one, and a function that removes worktree and branch again. If
// it fails, neither is left.
func MakeWorktree(ctx context.Context, dir, worktree, branch string) (folder string, remove func(), err error) {
	const op = "run.MakeWorktree"
	prefix, err := git.Prefix(ctx, dir)
	if err != nil {
		return "", nil, hub.Errorf(hub.CodeInvalid, op, "a worktree needs a git repository: %w", err).WithHint("omit --worktree, or use a folder in a repository")
	}
	made, err := git.AddWorktree(ctx, dir, worktree, branch)
	switch {
	case errors.Is(err, git.ErrExists):
		return "", nil, hub.Errorf(hub.CodeConflict, op, "cannot make the worktree: %w", err).WithHint("remove it with git worktree remove and git branch -d if it is not needed")
	case err != nil:
		return "", nil, hub.Errorf(hub.CodeInvalid, op, "cannot make the worktree: %w", err).WithHint("make a commit first: the worktree starts at the checked-out commit")
	}
	return filepath.Join(worktree, filepath.FromSlash(prefix)), func() { made.Remove(ctx) }, nil
}
