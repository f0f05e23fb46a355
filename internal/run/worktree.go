package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// makeWorktree makes a git worktree for the run, on a branch of its own. Both stay when
// the run is over.
func (e *execution) makeWorktree(ctx context.Context, home string, r *Record) (err error) {
	r.Worktree, r.Branch = filepath.Join(home, "worktrees", string(r.ID)), "parley/"+string(r.ID)
	if e.spec.Dir, err = MakeWorktree(ctx, e.spec.Dir, r.Worktree, r.Branch); err != nil {
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
// corresponds to the given one.
func MakeWorktree(ctx context.Context, dir, worktree, branch string) (string, error) {
	const op = "run.MakeWorktree"
	prefix, err := git(ctx, dir, "rev-parse", "--show-prefix")
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "a worktree needs a git repository: %w", err).WithHint("leave --worktree out, or name a folder of a repository")
	}
	if err := os.MkdirAll(filepath.Dir(worktree), 0o700); err != nil {
		return "", fmt.Errorf("run: make a folder for the worktree: %w", err)
	}
	if _, err := git(ctx, dir, "worktree", "add", "--quiet", "-b", branch, worktree); err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "make the worktree: %w", err).WithHint("it begins at the commit that is checked out, so there must be one")
	}
	return filepath.Join(worktree, filepath.FromSlash(prefix)), nil
}

// git runs git in a folder without the hooks and the file monitor of the
// repository.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false"}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", errors.New(cmp.Or(strings.TrimSpace(errOut.String()), err.Error()))
	}
	return strings.TrimSpace(out.String()), nil
}
