package clone

import "context"

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
