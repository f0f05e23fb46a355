package evidence

import (
	"context"
	"maps"
	"slices"
)

// Changes is the difference of a folder from its base. Names are relative to Top,
// with slashes, and sorted. A file that was renamed is deleted and created. Commits
// and the index do not matter: a change that was committed is still a change.
type Changes struct {
	Before, After Moment
	Top           string // absolute path of the folder that was compared
	Folder        string // where the work was done, relative to Top; "." if it is Top

	Created  []string
	Modified []string // content, kind or the permission to execute
	Deleted  []string

	Insertions, Deletions int      // lines of the files that are text and not too large
	Uncounted             int      // files that changed and whose lines were not counted
	Patch                 string   // the lines as a unified diff; empty beyond 512 KiB
	Submodules            []string // those that are at another commit than before
	Unread                []string // files that were compared by size and times because they cannot be read

	// Rewritten are the files that were written and are as they were; Since alone
	// tells them.
	Rewritten []string

	// Moved holds for a deleted file a created one with the same content.
	Moved map[string]string

	// Trivial holds the reason for each change that is no work by itself, such as whitespace.
	Trivial map[string]string

	// Repository names the files of the repository itself that changed and that decide what git runs: its
	// settings and hooks.
	Repository []string

	// Named is the state of the paths that a report names, by the path as the
	// report spells it.
	Named map[string]NamedPath
}

// A NamedPath is the state of a path that a report names.
type NamedPath struct {
	Name    string // relative to Top; empty if the path leads out of it
	Exists  bool
	Folder  bool
	Ignored bool // not among the files compared, before or after
	Touched bool // ignored, and written since the base was taken
}

// Empty reports whether no file changed.
func (c Changes) Empty() bool { return len(c.Created)+len(c.Modified)+len(c.Deleted) == 0 }

// OnlyTrivial reports whether files changed, and no change is work by itself.
func (c Changes) OnlyTrivial() bool {
	return !c.Empty() && len(c.Submodules) == 0 && len(c.Trivial) == len(c.names())
}

// names returns the names of all files that changed.
func (c Changes) names() []string {
	all := slices.Concat(c.Created, c.Modified, c.Deleted)
	slices.Sort(all)
	return all
}

// since returns the difference of t from an earlier tree.
func (t *tree) since(was *tree) Changes {
	c := Changes{Before: was.moment, After: t.moment, Moved: map[string]string{}}
	appeared := map[string]string{} // by content

	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		now := t.files[name]
		before, ok := was.files[name]
		switch {
		case !ok:
			c.Created = append(c.Created, name)
			appeared[now.id] = name
		case now.differs(before):
			c.Modified = append(c.Modified, name)
		}
		if now.id == "" {
			c.Unread = append(c.Unread, name)
		}
	}

	// A file is moved if its content appeared under a new name.
	for _, name := range slices.Sorted(maps.Keys(was.files)) {
		if _, ok := t.files[name]; ok {
			continue
		}
		c.Deleted = append(c.Deleted, name)
		if to, ok := appeared[was.files[name].id]; ok && was.files[name].id != "" {
			c.Moved[name] = to
		}
	}

	for _, name := range slices.Sorted(maps.Keys(was.submodules)) {
		if t.submodules[name] != was.submodules[name] {
			c.Submodules = append(c.Submodules, name)
		}
	}
	return c
}

// rewritten returns the files that were written since an earlier walk and have the same
// content and mode, sorted.
func (t *tree) rewritten(was *tree) []string {
	var names []string
	for name, f := range t.files {
		before, ok := was.files[name]
		if ok && !f.differs(before) && f.stamp != before.stamp {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// count counts lines and makes the patch. A file that git cannot read or diff is
// uncounted.
func (c *Changes) count(ctx context.Context, objects *objectWriter, was, is *tree) {
	before, after := map[string]blob{}, map[string]blob{}
	for _, name := range c.names() {
		old, there := was.files[name]
		now, here := is.files[name]
		isUncounted := (there && !old.stored) || (here && !now.stored)
		if isUncounted {
			continue
		}
		if there {
			before[name] = old.blob
		}
		if here {
			after[name] = now.blob
		}
	}
	counted := 0
	if len(before)+len(after) > 0 {
		old, now, err := objects.trees(before, after)
		if err == nil {
			insertions, deletions, n, err := objects.lines(ctx, old, now)
			if err == nil {
				c.Insertions = insertions
				c.Deletions = deletions
				counted = n
			}
			c.Patch, _ = objects.patch(ctx, old, now) // the figures tell of one that is too large
		}
	}
	c.Uncounted = len(c.names()) - counted
}
