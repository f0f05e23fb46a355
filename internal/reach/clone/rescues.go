package clone

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Rescues keeps the uncommitted work of working trees in the hub's copies of their repositories.
type Rescues struct {
	r *Repositories
	// runsIn reports whether the hub runs an agent in a folder, which may then be under no root.
	runsIn func(ctx context.Context, folder string) bool
}

// NewRescues returns the Rescues of the trees under roots and of those in which the hub runs agents.
func NewRescues(r *Repositories, runsIn func(ctx context.Context, folder string) bool) *Rescues {
	return &Rescues{r, runsIn}
}

// copyOf returns the copy of the repository around a folder that is under a root, or in which the
// hub runs an agent.
func (t *Rescues) copyOf(ctx context.Context, folder string) (*Copy, error) {
	if _, err := t.r.Find(ctx, folder); err != nil && !t.runsIn(ctx, folder) {
		return nil, err
	}
	c, err := t.r.copies.Of(ctx, folder)
	return c, rescueError(err)
}

// rescueError returns an error of a copy with the code of its cause.
func rescueError(err error) error {
	if errors.Is(err, ErrTooLarge) {
		return hub.Errorf(hub.CodeTooLarge, "clone.Rescue", "%w", err)
	}
	return gitError(err)
}

// Save keeps the uncommitted work of the tree around a folder under a name.
func (t *Rescues) Save(ctx context.Context, folder, name, message string) (hub.SavedTree, error) {
	c, err := t.copyOf(ctx, folder)
	if err != nil {
		return hub.SavedTree{}, err
	}
	got, err := c.Snapshot(ctx, folder, message)
	if err != nil {
		return hub.SavedTree{}, rescueError(err)
	}
	out := hub.SavedTree{Clean: got.Clean, Branch: c.Branch(ctx), Tree: got.Commit.Tree}
	out.Rescue = hub.Rescue{
		Copy: c.Folder(), Ref: keptRefs + name, Commit: got.Commit.ID, Base: got.Base, Files: got.Files, Bytes: got.Bytes,
		Submodules: got.Submodules, Unreadable: got.Unreadable,
	}
	if got.Clean {
		return out, nil
	}
	if out.Insertions, out.Deletions, err = c.Lines(ctx, got.Base, got.Commit.ID); err != nil {
		return out, rescueError(err)
	}
	if out.Paths, err = c.Paths(ctx, got.Base, got.Commit.ID); err != nil {
		return out, rescueError(err)
	}
	return out, rescueError(c.Keep(ctx, name, got.Commit.ID))
}

// Names returns the names under which work is kept, as rescues with copy and ref alone.
func (t *Rescues) Names(ctx context.Context) (out []hub.Rescue, err error) {
	kept, err := t.r.copies.Names(ctx, "rescue")
	for _, one := range kept {
		out = append(out, hub.Rescue{Copy: one.Folder, Ref: keptRefs + one.Name})
	}
	return out, rescueError(err)
}

// Drop removes a name from the copy with the work of a rescue.
func (t *Rescues) Drop(ctx context.Context, r hub.Rescue) error {
	c, err := t.r.copies.At(ctx, r.Copy)
	if err != nil {
		return rescueError(err)
	}
	return rescueError(c.Drop(ctx, strings.TrimPrefix(r.Ref, keptRefs)))
}

// Apply brings the work of a rescue into the tree around a folder, as changes that are not committed.
func (t *Rescues) Apply(ctx context.Context, r hub.Rescue, folder string) (hub.AppliedRescue, error) {
	c, err := t.copyOf(ctx, folder)
	if err != nil {
		return hub.AppliedRescue{}, err
	}
	got, err := c.Apply(ctx, r.Commit, folder)
	if err != nil {
		return hub.AppliedRescue{}, rescueError(err)
	}
	out := hub.AppliedRescue{Paths: got.Paths, Kept: got.Kept}
	for _, w := range got.Waits {
		out.Waits = append(out.Waits, fmt.Sprintf("%s: %s", w.Reason, strings.Join(w.Paths, ", ")))
	}
	for _, x := range got.Conflicts {
		out.Conflicts = append(out.Conflicts, x.Path)
	}
	return out, nil
}

// Patch returns the work of a rescue as a patch, and whether it is cut.
func (t *Rescues) Patch(ctx context.Context, r hub.Rescue, most int) (string, bool, error) {
	c, err := t.r.copies.At(ctx, r.Copy)
	if err != nil {
		return "", false, rescueError(err)
	}
	patch, cut, err := c.Patch(ctx, r.Base, r.Commit, most)
	return patch, cut, rescueError(err)
}
