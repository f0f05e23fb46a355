package clone

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Delta is a path that differs between two commits, with the mode and the id of its content in
// each; "" where there is no file.
type Delta struct{ Path, Before, After string }

// Deltas returns the paths that differ between two commits or trees of the copy.
func (c *Copy) Deltas(ctx context.Context, old, new string) (out []Delta, err error) {
	changes, err := c.changes(ctx, old, new)
	entry := func(mode, id string) string {
		if mode == modeNone {
			return ""
		}
		return mode + " " + id
	}
	for _, ch := range changes {
		out = append(out, Delta{ch.Path, entry(ch.oldMode, ch.oldID), entry(ch.newMode, ch.newID)})
	}
	return out, err
}

// Fork returns the commit at which a change left a target: of the target's commits that are parents of
// the change's own, the one before all others. It is "" if the change has no commit of its own.
func (c *Copy) Fork(ctx context.Context, target, commit string) (string, error) {
	list, err := c.run(ctx, "rev-list", "--boundary", target+".."+commit, "--")
	if err != nil {
		return "", err
	}
	args := []string{"merge-base", "--octopus"}
	for line := range strings.Lines(list) {
		if id, isBoundary := strings.CutPrefix(strings.TrimSpace(line), "-"); isBoundary {
			args = append(args, id)
		}
	}
	if len(args) == 2 {
		return "", nil
	}
	return c.run(ctx, args...)
}

// Missing returns those of some commits of the user's repository that a target does not have, each with
// whether a change has it. Commits that are gone are left out. It is one call of git.
func (c *Copy) Missing(ctx context.Context, target, change string, commits []string) (map[string]bool, error) {
	cmd := c.source.user(ctx, "rev-list", "--ignore-missing", "--parents", "--stdin")
	cmd.Stdin = strings.NewReader(strings.Join(append(slices.Clone(commits), change, "^"+target), "\n") + "\n")
	list, err := output(cmd, "compare", c.source.folder)
	if err != nil {
		return nil, err
	}
	parents := map[string][]string{}
	for line := range strings.Lines(list) {
		if ids := strings.Fields(line); len(ids) > 0 {
			parents[ids[0]] = ids[1:]
		}
	}
	isIn := map[string]bool{} // the change
	for next := []string{change}; len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if before, isMissing := parents[id]; isMissing && !isIn[id] {
			isIn[id] = true
			next = append(next, before...)
		}
	}
	out := map[string]bool{}
	for _, id := range commits {
		if _, isMissing := parents[id]; isMissing {
			out[id] = isIn[id]
		}
	}
	return out, nil
}

// A Join is a merge commit with its parents.
type Join struct {
	ID      string
	Parents []string
}

// maxJoins bounds the merge commits that Joins returns: the newest.
const maxJoins = 1000

// Joins returns the merge commits that a change has and a target has not.
func (c *Copy) Joins(ctx context.Context, target, commit string) (out []Join, err error) {
	list, err := c.run(ctx, "rev-list", "--merges", "--parents", fmt.Sprintf("--max-count=%d", maxJoins), target+".."+commit, "--")
	for line := range strings.Lines(list) {
		if ids := strings.Fields(line); len(ids) > 2 {
			out = append(out, Join{ids[0], ids[1:]})
		}
	}
	return out, err
}

// Combine merges two commits as files: from the base that their history has, or from the commit base if
// it is not "". It returns the tree, in which files in conflict have marks, and their paths.
func (c *Copy) Combine(ctx context.Context, base, ours, theirs string) (tree string, conflicts []string, err error) {
	if base != "" { // git finds the base by the history
		var ids []string
		for _, rev := range []string{base, ours, theirs} {
			t, err := c.run(ctx, "rev-parse", "--verify", rev+"^{tree}")
			if err != nil {
				return "", nil, err
			}
			id, err := c.commitTree(ctx, t, "base of a merge", ids[:min(len(ids), 1)], "@0 +0000")
			if err != nil {
				return "", nil, err
			}
			ids = append(ids, id)
		}
		ours = ids[1]
		theirs = ids[2]
	}

	var list strings.Builder
	cmd := c.alone(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
	cmd.Stdout = &list
	if err := finish(cmd); err != nil && exitCode(err) != 1 {
		return "", nil, failed(err, "merge", c.bare)
	}
	names := strings.Split(strings.TrimRight(list.String(), "\x00"), "\x00")
	return names[0], slices.Compact(names[1:]), nil
}

// Compose makes a commit of a tree with the hub's identity.
func (c *Copy) Compose(ctx context.Context, tree, message string, parents ...string) (Commit, error) {
	id, err := c.commitTree(ctx, tree, message, parents, "")
	return Commit{ID: id, Tree: tree}, err
}
