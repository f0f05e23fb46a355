package clone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
)

// Trees finds the working trees of this machine.
type Trees interface {
	// Tree returns the working tree around a path. It reports CodeOutsideRoots for a path under no root.
	Tree(ctx context.Context, path string) (hub.WorkingTree, error)
}

// RepositoryOptions are the parts that Repositories needs beside copies and trees.
type RepositoryOptions struct {
	// Targets returns the branches that work of a repository lands in; none for the default branch.
	Targets func(ctx context.Context, r hub.Repository) ([]string, error)
	Machine string       // the name of this machine where hubs of others have the same store, else ""
	Log     *slog.Logger // default silent
}

// Repositories reads and writes the repositories of this machine that are under roots, through the hub's
// copies of them, with the types of package hub. Their errors have codes.
type Repositories struct {
	copies *Copies
	trees  Trees
	o      RepositoryOptions
}

// NewRepositories returns the Repositories under the roots of trees.
func NewRepositories(copies *Copies, trees Trees, o RepositoryOptions) *Repositories {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Repositories{copies, trees, o}
}

// maxList bounds the bytes of a list that git writes about a copy.
const maxList = 4 << 20

// Find returns the repository around a folder that is under a root. It reports CodeInvalid if there is
// none.
func (r *Repositories) Find(ctx context.Context, folder string) (hub.Repository, error) {
	const op = "clone.Repository"
	t, err := r.trees.Tree(ctx, folder)
	if err != nil {
		return hub.Repository{}, err
	}
	if t.Repository == "" {
		return hub.Repository{}, hub.Errorf(hub.CodeInvalid, op, "%s is not in a git repository", folder)
	}
	return hub.Repository{Machine: t.Machine, Path: hub.RepositoryPath(t.Repository)}, nil
}

// copyOf returns the hub's copy of the repository around a folder that is under a root.
func (r *Repositories) copyOf(ctx context.Context, folder string) (*Copy, error) {
	if _, err := r.Find(ctx, folder); err != nil {
		return nil, err
	}
	c, err := r.copies.Of(ctx, folder)
	return c, gitError(err)
}

// gitError returns an error of a copy with the code of its cause.
func gitError(err error) error {
	const op = "clone.Repository"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNoCommit):
		if known, ok := errors.AsType[*Error](err); ok && known.Detail != "" {
			return hub.Errorf(hub.CodeNotFound, op, "no branch or commit named %.100q in %s", strings.TrimPrefix(known.Detail, "refs/heads/"), known.Folder)
		}
		return hub.Errorf(hub.CodeNotFound, op, "%w", err)
	case errors.Is(err, ErrNoRepository), errors.Is(err, ErrUnsafe), errors.Is(err, ErrIncomplete), errors.Is(err, ErrName):
		return hub.Errorf(hub.CodeInvalid, op, "%w", err)
	}
	return err
}

// Fetch brings the commit that a revision names in a folder into the hub's copy.
func (r *Repositories) Fetch(ctx context.Context, folder, revision string) (hub.Commit, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return hub.Commit{}, err
	}
	got, err := c.Fetch(ctx, revision)
	return hub.Commit(got), gitError(err)
}

// Keep protects a commit of the hub's copy under a name.
func (r *Repositories) Keep(ctx context.Context, folder, name, commit string) error {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return err
	}
	return gitError(c.Keep(ctx, name, commit))
}

// Changes returns the files that differ between two commits of the hub's copy.
func (r *Repositories) Changes(ctx context.Context, folder, old, new string) ([]hub.CommitChange, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return nil, err
	}
	changes, err := c.Difference(ctx, old, new)
	out := []hub.CommitChange{}
	for _, ch := range changes {
		change := hub.CommitChange{Path: ch.Path, Trivial: ch.Trivial != NotTrivial}
		change.Was, change.Is = ch.Contents()
		out = append(out, change)
	}
	return out, gitError(err)
}

// Within reports whether a commit is another one or an ancestor of it.
func (r *Repositories) Within(ctx context.Context, folder, commit, of string) (bool, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return false, err
	}
	head, err := c.Fetch(ctx, of)
	if err != nil {
		return false, gitError(err)
	}
	return isAncestor(ctx, c, commit, head.ID)
}

// isAncestor reports whether a commit of a copy is another one or an ancestor of it.
func isAncestor(ctx context.Context, c *Copy, commit, of string) (bool, error) {
	if commit == of {
		return true, nil
	}
	err := git.Alone(ctx, "git", c.Folder(), "merge-base", "--is-ancestor", commit, of).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, err
}

// maxFile bounds a file that is read from a commit.
const maxFile = 1 << 20

// File returns a file of a commit, nil if there is none.
func (r *Repositories) File(ctx context.Context, folder, commit, name string) ([]byte, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return nil, err
	}
	list, err := git.Alone(ctx, "git", c.Folder(), "ls-tree", "-z", "--format=%(objecttype) %(objectsize) %(objectname)", commit, "--", name).Output()
	if err != nil {
		return nil, err
	}
	var kind, id string
	var size int64
	if n, _ := fmt.Sscanf(string(bytes.TrimRight(list, "\x00")), "%s %d %s", &kind, &size, &id); n != 3 || kind != "blob" {
		return nil, nil
	}
	if size > maxFile {
		return nil, hub.Errorf(hub.CodePayloadTooLarge, "clone.Repository", "%s of %s has %d bytes, at most %d are read", name, commit, size, maxFile)
	}
	return git.Alone(ctx, "git", c.Folder(), "cat-file", "blob", id).Output()
}

// OnTarget reports whether a commit is one of the branches that work lands in.
func (r *Repositories) OnTarget(ctx context.Context, folder, commit string) (bool, error) {
	c, heads, err := r.targets(ctx, folder)
	if err != nil {
		return false, err
	}
	for _, head := range heads {
		if on, err := isAncestor(ctx, c, commit, head); err != nil || on {
			return on, err
		}
	}
	return false, nil
}

// targets returns the heads of the branches that work lands in, in the copy of a repository: those
// with a landing policy or, without one, the default branch.
func (r *Repositories) targets(ctx context.Context, folder string) (c *Copy, heads []string, err error) {
	repo, err := r.Find(ctx, folder)
	if err != nil {
		return nil, nil, err
	}
	if c, err = r.copyOf(ctx, folder); err != nil {
		return nil, nil, err
	}
	branches, err := r.o.Targets(ctx, repo)
	if err != nil {
		return nil, nil, err
	}
	if len(branches) == 0 {
		branch, err := c.Default(ctx)
		if err != nil {
			return nil, nil, gitError(err)
		}
		branches = []string{branch}
	}

	for _, branch := range branches {
		head, err := c.Head(ctx, branch)
		if branch == "" || errors.Is(err, ErrNoCommit) {
			continue
		}
		if err != nil {
			return nil, nil, gitError(err)
		}
		heads = append(heads, head.ID)
	}
	return c, heads, nil
}

// Target returns the newest commit of the branch that work lands in; the zero Commit if there is no such
// branch.
func (r *Repositories) Target(ctx context.Context, folder string) (hub.Commit, error) {
	c, heads, err := r.targets(ctx, folder)
	if err != nil || len(heads) == 0 {
		return hub.Commit{}, err
	}
	got, err := c.Fetch(ctx, heads[0])
	if errors.Is(err, ErrNoCommit) {
		return hub.Commit{}, nil
	}
	return hub.Commit(got), gitError(err)
}

// Remotes returns the addresses of the remotes of a repository; see [git.Remotes].
func (r *Repositories) Remotes(ctx context.Context, folder string) ([]string, error) {
	return git.Remotes(ctx, folder)
}

// CheckedOut returns the branch that is checked out in a folder; "" if there is none.
func (r *Repositories) CheckedOut(ctx context.Context, folder string) string {
	name, err := git.In(ctx, "git", folder, "symbolic-ref", "--short", "--quiet", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// BranchOf returns the branch that is checked out in a folder under a root, as its copy has it.
func (r *Repositories) BranchOf(ctx context.Context, folder string) (string, error) {
	c, err := r.copyOf(ctx, folder)
	if err != nil {
		return "", err
	}
	return c.Branch(ctx), nil
}

// Folder returns the folder of the copy of a repository.
func (r *Repositories) Folder(ctx context.Context, repository string) (string, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return "", err
	}
	return c.Folder(), nil
}

// Base returns the common ancestor of two commits in the copy of a repository.
func (r *Repositories) Base(ctx context.Context, repository, target, commit string) (string, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return "", err
	}
	return c.Output(ctx, maxList, "merge-base", target, commit)
}

// Before returns the commits of those branches on which a commit of the copy is based, the nearest first, at
// most so many.
func (r *Repositories) Before(ctx context.Context, folder, commit string, most int) (out []hub.Commit, err error) {
	c, heads, err := r.targets(ctx, folder)
	if err != nil {
		return nil, err
	}
	for _, head := range heads {
		base, err := c.Output(ctx, maxList, "merge-base", head, commit)
		if err != nil {
			continue // they have no common commit
		}
		list, err := c.Output(ctx, maxList, "log", "--first-parent", "--format=%H %T", fmt.Sprintf("--max-count=%d", most), base)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(list) {
			id, tree, _ := strings.Cut(strings.TrimSpace(line), " ")
			out = append(out, hub.Commit{ID: id, Tree: tree})
		}
	}
	return out, nil
}
