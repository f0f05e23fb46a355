package hubgit

import (
	"bytes"
	"context"
	"strconv"
	"strings"
)

// Lines returns how many lines differ between two commits of the copy. An empty old stands for a
// repository without files. Files that are no text count none.
func (c *Copy) Lines(ctx context.Context, old, new string) (insertions, deletions int, err error) {
	if old == "" {
		old = c.source.emptyTree()
	}
	list, err := c.run(ctx, "diff-tree", "-r", "--numstat", "--no-renames", old, new, "--")
	if err != nil {
		return 0, 0, err
	}
	for _, line := range strings.Split(list, "\n") {
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 {
			continue
		}
		added, errAdded := strconv.Atoi(f[0])
		removed, errRemoved := strconv.Atoi(f[1])
		if errAdded == nil && errRemoved == nil { // "-" for files that are no text
			insertions += added
			deletions += removed
		}
	}
	return insertions, deletions, nil
}

// Patch returns the difference between two commits of the copy as a patch, cut after a number of
// bytes; cut says so.
func (c *Copy) Patch(ctx context.Context, old, new string, most int) (patch string, cut bool, err error) {
	if old == "" {
		old = c.source.emptyTree()
	}
	var text bytes.Buffer
	cmd := c.alone(ctx, "diff-tree", "-r", "-p", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", old, new, "--")
	cmd.Stdout = &limited{to: &text, left: most + 1}
	if err := finish(cmd); err != nil {
		return "", false, failed(err, "compare", c.bare)
	}
	if text.Len() > most {
		text.Truncate(most)
		cut = true
	}
	return strings.ToValidUTF8(text.String(), "\uFFFD"), cut, nil
}

// Branch returns the name of the branch that is checked out in the folder; "" for a detached head.
func (c *Copy) Branch(ctx context.Context) string {
	name, err := c.source.run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		return ""
	}
	return name
}

// Paths returns the paths that differ between two commits of the copy, in order. An empty old
// stands for a repository without files.
func (c *Copy) Paths(ctx context.Context, old, new string) (out []string, err error) {
	changes, err := c.changes(ctx, old, new)
	for _, ch := range changes {
		out = append(out, ch.Path)
	}
	return out, err
}
