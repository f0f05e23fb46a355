package rows

import "github.com/parley-agents/parley/hub"

var roots = newTable("roots", "root", "path, added_by, added_at", func(c *codec, r *hub.Root) {
	c.text(&r.Path)
	c.text((*string)(&r.AddedBy))
	c.stamp(&r.AddedAt)
})

var (
	rootsByPath = roots.query(`ORDER BY path`)
	removeRoot  = statement(`DELETE FROM roots WHERE path = ?1`)
)

func (r *reader) Roots() ([]hub.Root, error) { return roots.all(r, rootsByPath) }

func (t *tx) AddRoot(r hub.Root) error { return roots.add(t, r.Path, &r) }

func (t *tx) RemoveRoot(path string) error {
	n, err := t.run("store.RemoveRoot", removeRoot, path)
	if err == nil && n == 0 {
		return notFound(roots.op(), "root", path)
	}
	return err
}
