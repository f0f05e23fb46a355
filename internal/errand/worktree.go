package errand

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/fleet"
)

// makeWorktree makes a worktree for the run, on a branch of its own that begins
// at the commit that is checked out. It stays when the run is over.
func (e *errand) makeWorktree(ctx context.Context, home string, r *fleet.Record) error {
	const op = "errand.Run"
	prefix, err := git(ctx, e.order.Dir, "rev-parse", "--show-prefix")
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "a worktree needs a git repository: %w", err).WithHint("leave --worktree out, or name a repository with --repo")
	}
	r.Worktree, r.Branch = filepath.Join(home, "worktrees", string(r.ID)), "parley/"+string(r.ID)
	if err := os.MkdirAll(filepath.Dir(r.Worktree), 0o700); err != nil {
		return fmt.Errorf("errand: %w", err)
	}
	if _, err := git(ctx, e.order.Dir, "worktree", "add", "--quiet", "-b", r.Branch, r.Worktree); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "the worktree could not be made: %w", err).WithHint("it begins at the commit that is checked out, so there must be one")
	}
	e.order.Dir = filepath.Join(r.Worktree, filepath.FromSlash(prefix))
	r.Dir = e.order.Dir
	if e.opts.On.Place != nil {
		e.opts.On.Place(r.Worktree, r.Branch)
	}
	return nil
}

// git runs git in a folder without the hooks of the repository.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.hooksPath=" + os.DevNull}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(errOut.String()); text != "" {
			return "", fmt.Errorf("%w: %s", err, text)
		}
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}
