package clone

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Repository returns the name of the repository around a folder: the folder of its main working tree, or
// its own if it has none.
func (r *Repositories) Repository(ctx context.Context, folder string) (string, error) {
	found, err := r.Find(ctx, folder)
	return found.Path, err
}

// Resolve returns the commit of a revision in the user's repository, and brings it into the copy.
func (r *Repositories) Resolve(ctx context.Context, repository, revision string) (hub.Commit, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return hub.Commit{}, err
	}
	got, err := c.Fetch(ctx, revision)
	return hub.Commit(got), gitError(err)
}

// Branch returns the commit of a branch of the user's repository.
func (r *Repositories) Branch(ctx context.Context, repository, branch string) (hub.Commit, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return hub.Commit{}, err
	}
	got, err := c.Head(ctx, branch)
	return hub.Commit(got), gitError(err)
}

// Contains reports whether a commit is in the history of another. Commits that the copy does not have are
// in no history.
func (r *Repositories) Contains(ctx context.Context, repository, head, commit string) (bool, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return false, err
	}
	isIn, err := isAncestor(ctx, c, commit, head)
	var exit *exec.ExitError
	if errors.As(err, &exit) { // the copy does not have the commit
		return false, nil
	}
	return isIn, err
}

// Merge merges a change onto a commit, in the copy.
func (r *Repositories) Merge(ctx context.Context, repository string, onto, change hub.Commit, message string) (hub.CommitMerge, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return hub.CommitMerge{}, err
	}
	got, err := c.Merge(ctx, Commit(onto), Commit(change), message)
	return mergeOf(got), gitError(err)
}

// Revert makes a commit onto another that takes back a merge commit, in the copy.
func (r *Repositories) Revert(ctx context.Context, repository string, onto hub.Commit, merged, message string) (hub.CommitMerge, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return hub.CommitMerge{}, err
	}
	got, err := c.Revert(ctx, Commit(onto), merged, message)
	return mergeOf(got), gitError(err)
}

// mergeOf returns a merge of a copy in the form of the queue.
func mergeOf(m Merge) hub.CommitMerge {
	out := hub.CommitMerge{Commit: hub.Commit(m.Commit)}
	for _, c := range m.Conflicts {
		out.Conflicts = append(out.Conflicts, hub.FileConflict{Path: c.Path, Base: contentOf(c.Base), Ours: contentOf(c.Ours), Theirs: contentOf(c.Theirs)})
	}
	return out
}

// contentOf returns the text of one side of a conflict.
func contentOf(t *Text) string {
	switch {
	case t == nil:
		return ""
	case t.Submodule:
		return "(the commit " + t.ID + " of a submodule)"
	case t.Binary:
		return fmt.Sprintf("(a binary file of %d bytes, blob %s)", t.Size, t.ID)
	}
	return t.Content
}

// Forward moves a branch of the user's repository, and the working trees in which it is checked out. It
// changes nothing, or all of that.
func (r *Repositories) Forward(ctx context.Context, repository, branch, from, to string) (hub.Forwarding, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return hub.Forwarding{}, err
	}
	got, err := c.Forward(ctx, branch, from, to)
	if errors.Is(err, ErrMoved) || errors.Is(err, ErrNotForward) {
		return hub.Forwarding{Stale: true}, nil
	}
	if err != nil {
		return hub.Forwarding{}, gitError(err)
	}
	if len(got.Kept) > 0 {
		r.o.Log.Warn("files were written to while a branch was brought forward; their contents are kept", "op", "clone.Forward", "files", got.Kept)
	}
	out := hub.Forwarding{Moved: got.Moved}
	var texts []string
	for _, w := range got.Waits {
		texts = append(texts, w.String())
		out.Paths = append(out.Paths, w.Paths...)
	}
	out.Waits = strings.Join(texts, "; ")
	return out, nil
}

// Change returns the difference of a commit from the common ancestor with another, of which the patch has
// at most a number of bytes.
func (r *Repositories) Change(ctx context.Context, repository, target, commit string, most int) (out hub.BranchChange, err error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return out, err
	}
	if out.Base, err = c.Output(ctx, maxList, "merge-base", target, commit); err != nil {
		return out, gitError(err)
	}
	if out.Patch, err = r.difference(ctx, c, repository, out.Base, commit, most); err != nil {
		return out, err
	}
	out.Authors, err = authorsOf(ctx, c, out.Base, commit)
	return out, gitError(err)
}

// addressesOfCLIs are the addresses in the trailers that agent CLIs write by themselves. Those at GitHub
// follow a number.
var addressesOfCLIs = []string{
	"noreply@anthropic.com", "noreply@openai.com", "codex@openai.com", "copilot@users.noreply.github.com", "claude@users.noreply.github.com", "gemini-cli@users.noreply.github.com",
	"gemini-cli-agent@google.com", "qwen-coder@alibabacloud.com", "noreply@opencode.ai", "cursoragent@cursor.com", "noreply@cursor.com",
}

// isWrittenByCLI reports whether a trailer is one that agent CLIs write by themselves, by its address.
func isWrittenByCLI(address string) bool {
	address, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(address)), ">")
	number, rest, ok := strings.Cut(address, "+")
	if ok && strings.Trim(number, "0123456789") == "" {
		address = rest
	}
	return slices.Contains(addressesOfCLIs, address)
}

// authorsOf returns the names of the authors and committers of the commits after a base, and those in
// their trailers but for the ones that agent CLIs write by themselves.
func authorsOf(ctx context.Context, c *Copy, base, commit string) (out []string, err error) {
	list, err := c.Output(ctx, maxList, "log", "--format=%an%n%cn%n%(trailers:only,unfold,valueonly)", base+".."+commit)
	for line := range strings.Lines(list) {
		name, address, hasAddress := strings.Cut(strings.TrimSpace(line), "<")
		if name = strings.TrimSpace(name); name != "" && !(hasAddress && isWrittenByCLI(address)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// Files returns the files that differ between two commits or trees.
func (r *Repositories) Files(ctx context.Context, repository, from, to string) (out []hub.FileChange, err error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return nil, err
	}
	deltas, err := c.Deltas(ctx, from, to)
	for _, d := range deltas {
		out = append(out, hub.FileChange(d))
	}
	return out, gitError(err)
}

// Fork returns the commit at which a change left a target; "" if there is none.
func (r *Repositories) Fork(ctx context.Context, repository, target, commit string) (string, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return "", err
	}
	fork, err := c.Fork(ctx, target, commit)
	return fork, gitError(err)
}

// Missing returns those of some commits that a target does not have, each with whether a change has it.
func (r *Repositories) Missing(ctx context.Context, repository, target, change string, commits []string) (map[string]bool, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return nil, err
	}
	missing, err := c.Missing(ctx, target, change, commits)
	return missing, gitError(err)
}

// Joins returns the merge commits of a change that a target does not have.
func (r *Repositories) Joins(ctx context.Context, repository, target, commit string) (out []hub.MergeCommit, err error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return nil, err
	}
	joins, err := c.Joins(ctx, target, commit)
	for _, j := range joins {
		out = append(out, hub.MergeCommit(j))
	}
	return out, gitError(err)
}

// Combine merges two commits as files, and returns the tree and the conflicting paths.
func (r *Repositories) Combine(ctx context.Context, repository, base, ours, theirs string) (string, []string, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return "", nil, err
	}
	tree, conflicts, err := c.Combine(ctx, base, ours, theirs)
	return tree, conflicts, gitError(err)
}

// Compose makes a commit of a tree, with parents.
func (r *Repositories) Compose(ctx context.Context, repository, tree, message string, parents ...string) (hub.Commit, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return hub.Commit{}, err
	}
	made, err := c.Compose(ctx, tree, message, parents...)
	return hub.Commit(made), gitError(err)
}

// SamePatch reports whether two commits bring the same changes to a target.
func (r *Repositories) SamePatch(ctx context.Context, repository, target, a, b string) (bool, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return false, err
	}
	var ids []string
	for _, commit := range []string{a, b} {
		base, err := c.Output(ctx, maxList, "merge-base", target, commit)
		if err != nil {
			return false, nil // they have no common history
		}
		id, err := c.PatchID(ctx, base, commit)
		if err != nil {
			return false, gitError(err)
		}
		ids = append(ids, id)
	}
	return ids[0] != "" && ids[0] == ids[1], nil
}

// Patch returns the difference between two commits, with a text of at most a number of bytes.
func (r *Repositories) Patch(ctx context.Context, repository, from, to string, most int) (hub.ReviewPatch, error) {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return hub.ReviewPatch{}, err
	}
	return r.difference(ctx, c, repository, from, to, most)
}

// Drop ends the protection of a commit of the copy under a name.
func (r *Repositories) Drop(ctx context.Context, repository, name string) error {
	c, err := r.copyOf(ctx, repository)
	if err != nil {
		return err
	}
	return gitError(c.Drop(ctx, name))
}

// Landed reports whether the commit of a landing is in its branch; ok is false if that cannot be read here.
func (r *Repositories) Landed(ctx context.Context, e hub.LandingEntry) (isIn, ok bool) {
	if e.Machine != r.o.Machine && r.o.Machine != "" {
		return false, false
	}
	head, err := r.Branch(ctx, e.Repository, e.Into)
	if err != nil {
		return false, false
	}
	isIn, err = r.Contains(ctx, e.Repository, head.ID, e.LandedCommit)
	return isIn, err == nil
}
