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

// makeWorktree makes a git worktree for the run, on a branch of its own that begins
// at the commit that is checked out. Both stay when the run is over.
func (e *execution) makeWorktree(ctx context.Context, home string, r *Record) error {
	const op = "run.Execute"
	prefix, err := git(ctx, e.spec.Dir, "rev-parse", "--show-prefix")
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "a worktree needs a git repository: %w", err).WithHint("leave --worktree out, or name a repository with --repo")
	}
	r.Worktree, r.Branch = filepath.Join(home, "worktrees", string(r.ID)), "parley/"+string(r.ID)
	if err := os.MkdirAll(filepath.Dir(r.Worktree), 0o700); err != nil {
		return fmt.Errorf("run: make a folder for the worktree: %w", err)
	}
	if _, err := git(ctx, e.spec.Dir, "worktree", "add", "--quiet", "-b", r.Branch, r.Worktree); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "make the worktree: %w", err).WithHint("it begins at the commit that is checked out, so there must be one")
	}
	e.spec.Dir = filepath.Join(r.Worktree, filepath.FromSlash(prefix))
	r.Dir = e.spec.Dir
	if e.opts.On.Worktree != nil {
		e.opts.On.Worktree(r.Worktree, r.Branch)
	}
	return nil
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
