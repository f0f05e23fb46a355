package evidence

// Changes is how a folder differs from what it was. Names are relative to Top,
// with slashes, and sorted. A file that was renamed is deleted and created.
type Changes struct {
	Before, After Moment
	Top           string // absolute path of the folder that was compared
	Folder        string // where the work was done, relative to Top; "." if it is Top

	Created  []string
	Modified []string // content, kind or the permission to execute
	Deleted  []string

	Insertions, Deletions int      // lines; of files that are text and not too large
	Uncounted             int      // files that changed and whose lines were not counted
	Submodules            []string // those that are at another commit than before
	Unread                []string // files that were compared by size and time because they are too large or closed

	// Moved holds for a deleted file the created one with the same content.
	Moved map[string]string

	// Named is what lies at the paths asked for, by the path as it was written.
	Named map[string]Sight
}

// A Sight is what lies at one path.
type Sight struct {
	Name    string // relative to Top; empty if the path leads out of it
	Exists  bool
	Folder  bool
	Ignored bool // not among the files compared
	Touched bool // ignored, and written since the base was taken
}

// Empty reports whether nothing has changed.
func (c Changes) Empty() bool { return len(c.Created)+len(c.Modified)+len(c.Deleted) == 0 }
