package clone

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// The identity of the commits that the hub makes.
const (
	identityName  = "Parley"
	identityEmail = "parley@localhost"
)

// Bounds of the texts of conflicts.
const (
	maxText      = 256 << 10 // bytes of one text
	maxConflicts = 50        // conflicts with texts; the others have their path alone
)

// A Merge is the result of a merge or of a revert. Without conflicts it is a commit of the
// copy.
type Merge struct {
	Commit    Commit     `json:"commit,omitzero"`
	Unchanged bool       `json:"unchanged,omitempty"` // the base has the change already: Commit is the base
	Conflicts []Conflict `json:"conflicts,omitempty"`

	Submodules []string   `json:"submodules,omitempty"` // changed paths that are commits of other repositories
	LFS        []string   `json:"lfs,omitempty"`        // changed paths whose content is a pointer of git LFS
	Twins      [][]string `json:"twins,omitempty"`      // paths that are one file where case does not count; at least one is new
}

// A Conflict is a path that two changes disagree about. A text is nil if that side has no
// such file.
type Conflict struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"` // in the words of git, such as "contents" or "modify/delete"
	Base   *Text  `json:"base,omitempty"`
	Ours   *Text  `json:"ours,omitempty"`
	Theirs *Text  `json:"theirs,omitempty"`
}

// A Text is one of the three versions of a file in conflict.
type Text struct {
	ID        string `json:"id"` // of the blob in the copy; the commit, for a submodule
	Size      int64  `json:"size"`
	Content   string `json:"content,omitempty"` // at most 256 KiB; empty for a binary file
	Cut       bool   `json:"cut,omitempty"`     // Content is the beginning alone
	Binary    bool   `json:"binary,omitempty"`
	Submodule bool   `json:"submodule,omitempty"`
	LFS       bool   `json:"lfs,omitempty"` // Content is a pointer of git LFS
}

// Merge merges a commit into a base, without a working tree, and makes a merge commit with
// the hub's identity, also where the base could simply move forward. Merge drivers of the
// repository are not run. The error is [ErrUnrelated] if the two have no common history.
func (c *Copy) Merge(ctx context.Context, base, change Commit, message string) (Merge, error) {
	if _, err := c.run(ctx, "merge-base", "--is-ancestor", change.ID, base.ID); err == nil {
		return Merge{Commit: base, Unchanged: true}, nil
	}
	if _, err := c.run(ctx, "merge-base", base.ID, change.ID); err != nil {
		return Merge{}, fail(ErrUnrelated, "merge", c.bare, change.ID)
	}
	out, tree, err := c.mergeTrees(ctx, base.ID, change.ID)
	if err != nil || len(out.Conflicts) > 0 {
		return out, err
	}
	return c.finishMerge(ctx, out, base, tree, message, base.ID, change.ID)
}

// Revert undoes a commit on a base: for a merge commit, all that it brought to its first
// parent. The result is a commit on the base.
func (c *Copy) Revert(ctx context.Context, base Commit, merged string, message string) (Merge, error) {
	undone, err := c.commit(ctx, merged)
	if err != nil {
		return Merge{}, err
	}
	before, err := c.run(ctx, "rev-parse", "--verify", "--quiet", merged+"^1^{tree}")
	if errors.Is(err, ErrGit) {
		before, err = c.emptyTree(ctx)
	}
	if err != nil {
		return Merge{}, err
	}

	out, tree, err := c.mergeFrom(ctx, undone.Tree, base.Tree, before)
	if err != nil || len(out.Conflicts) > 0 {
		return out, err
	}
	if tree == base.Tree {
		return Merge{Commit: base, Unchanged: true}, nil
	}
	return c.finishMerge(ctx, out, base, tree, message, base.ID)
}

// mergeFrom merges two trees that have a common base. Git finds the base of a merge by the
// history, so commits are made in which the base lies before the other two.
func (c *Copy) mergeFrom(ctx context.Context, base, ours, theirs string) (Merge, string, error) {
	var ids []string
	for _, tree := range []string{base, ours, theirs} {
		id, err := c.commitTree(ctx, tree, "base of a merge", ids[:min(len(ids), 1)], "@0 +0000")
		if err != nil {
			return Merge{}, "", err
		}
		ids = append(ids, id)
	}
	return c.mergeTrees(ctx, ids[1], ids[2])
}

// emptyTree writes the tree without files into the copy, and returns its id.
func (c *Copy) emptyTree(ctx context.Context) (string, error) {
	cmd := c.alone(ctx, "mktree")
	return output(cmd, "mktree", c.bare)
}

// finishMerge commits the tree of a merge, and names what deserves a look in it.
func (c *Copy) finishMerge(ctx context.Context, out Merge, base Commit, tree, message string, parents ...string) (Merge, error) {
	id, err := c.commitTree(ctx, tree, message, parents, "")
	if err != nil {
		return Merge{}, err
	}
	out.Commit = Commit{ID: id, Tree: tree}
	changes, err := c.changes(ctx, base.Tree, tree)
	if err != nil {
		return Merge{}, err
	}
	if out.LFS, err = c.pointers(ctx, changes); err != nil {
		return Merge{}, err
	}
	for _, change := range changes {
		if change.Submodule {
			out.Submodules = append(out.Submodules, change.Path)
		}
	}
	out.Twins, err = c.twins(ctx, tree, changes)
	return out, err
}

// commitTree makes a commit with the hub's identity, at a date in the form of git, or now.
func (c *Copy) commitTree(ctx context.Context, tree, message string, parents []string, date string) (string, error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	cmd := c.alone(ctx, args...)
	cmd.Env = append(cmd.Env, identity(date)...)
	cmd.Stdin = strings.NewReader(message)
	return output(cmd, "commit-tree", c.bare)
}

// identity returns the environment of a command that makes commits or entries of logs.
func identity(date string) []string {
	env := []string{
		"GIT_AUTHOR_NAME=" + identityName, "GIT_AUTHOR_EMAIL=" + identityEmail,
		"GIT_COMMITTER_NAME=" + identityName, "GIT_COMMITTER_EMAIL=" + identityEmail,
	}
	if date != "" {
		env = append(env, "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	}
	return env
}

// mergeTrees merges two commits and returns the tree, or the conflicts.
func (c *Copy) mergeTrees(ctx context.Context, ours, theirs string) (out Merge, tree string, err error) {
	var list strings.Builder
	cmd := c.alone(ctx, "merge-tree", "--write-tree", "-z", "--messages", ours, theirs)
	cmd.Stdout = &list
	switch err := finish(cmd); {
	case exitCode(err) == 129: // its usage: the command has no such option
		return Merge{}, "", fail(ErrOldGit, "merge", c.bare, "git 2.38 or newer is needed")
	case err != nil && exitCode(err) != 1:
		return Merge{}, "", failed(err, "merge", c.bare)
	case err == nil:
		tree, _, _ = strings.Cut(list.String(), "\x00")
		return Merge{}, tree, nil
	}
	out.Conflicts, err = c.conflicts(ctx, list.String())
	return out, "", err
}

// conflicts reads the list that git writes about a merge: a tree, the versions of each path
// in conflict, an empty text, and messages, each with its paths.
func (c *Copy) conflicts(ctx context.Context, list string) ([]Conflict, error) {
	contents, err := c.contents(ctx)
	if err != nil {
		return nil, err
	}
	defer contents.close()

	fields := strings.Split(list, "\x00")[1:]
	var out []Conflict
	for len(fields) > 0 && fields[0] != "" {
		version, path, _ := strings.Cut(fields[0], "\t")
		fields = fields[1:]
		f := strings.Fields(version)
		if len(f) != 3 {
			return nil, fail(ErrGit, "merge", c.bare, "the list of conflicts has an unknown form")
		}
		i := slices.IndexFunc(out, func(o Conflict) bool { return o.Path == path })
		if i < 0 {
			i = len(out)
			out = append(out, Conflict{Path: path, Kind: "contents"})
		}
		if i >= maxConflicts {
			continue
		}
		text, err := contents.text(f[0], f[1])
		if err != nil {
			return nil, err
		}
		switch f[2] {
		case "1":
			out[i].Base = text
		case "2":
			out[i].Ours = text
		case "3":
			out[i].Theirs = text
		}
	}
	return withKinds(out, fields[min(len(fields), 1):]), nil
}

// withKinds sets the kinds of conflicts from the messages of git. A conflict that has no
// versions is in the messages alone.
func withKinds(out []Conflict, fields []string) []Conflict {
	for len(fields) > 1 {
		count := 0
		for _, digit := range fields[0] {
			count = count*10 + int(digit-'0')
		}
		if count < 0 || len(fields) < count+3 {
			break
		}
		paths, kind := fields[1:1+count], fields[1+count]
		fields = fields[count+3:]

		kind, ok := strings.CutPrefix(kind, "CONFLICT (")
		kind = strings.TrimSuffix(kind, ")")
		if !ok {
			continue
		}
		known := false
		for i := range out {
			if slices.Contains(paths, out[i].Path) {
				out[i].Kind = kind
				known = true
			}
		}
		if !known && len(paths) > 0 {
			out = append(out, Conflict{Path: paths[0], Kind: kind})
		}
	}
	return out
}

// text returns one version of a file in conflict.
func (r *contents) text(mode, id string) (*Text, error) {
	if mode == modeSubmodule {
		return &Text{ID: id, Submodule: true}, nil
	}
	content, size, err := r.head(id, maxText)
	if err != nil {
		return nil, err
	}
	text := &Text{ID: id, Size: size, Content: content, Cut: size > maxText, LFS: isPointer(content)}
	if strings.Contains(content, "\x00") {
		text.Content = ""
		text.Cut = false
		text.Binary = true
	}
	return text, nil
}

// maxPointer bounds the size of a pointer of git LFS.
const maxPointer = 1024

// isPointer reports whether a content stands for a file that git LFS has.
func isPointer(content string) bool {
	return len(content) <= maxPointer && strings.HasPrefix(content, "version https://git-lfs.github.com/spec/")
}

// pointers returns the changed paths whose content is a pointer of git LFS.
func (c *Copy) pointers(ctx context.Context, changes []Change) (out []string, err error) {
	var ask strings.Builder
	for _, change := range changes {
		ask.WriteString(change.newID + "\n")
	}
	cmd := c.alone(ctx, "cat-file", "--batch-check=%(objecttype) %(objectsize)")
	cmd.Stdin = strings.NewReader(ask.String())
	list, err := output(cmd, "cat-file", c.bare)
	if err != nil {
		return nil, err
	}
	contents, err := c.contents(ctx)
	if err != nil {
		return nil, err
	}
	defer contents.close()

	for i, line := range strings.Split(list, "\n") {
		size, ok := strings.CutPrefix(line, "blob ")
		if !ok || len(size) > len("1024") {
			continue
		}
		content, _, err := contents.head(changes[i].newID, maxPointer+1)
		if err != nil {
			return nil, err
		}
		if isPointer(content) {
			out = append(out, changes[i].Path)
		}
	}
	return out, nil
}

// twins returns the groups of paths of a tree that differ in case only and have at least one
// new path. A file and a folder are twins, too.
func (c *Copy) twins(ctx context.Context, tree string, changes []Change) ([][]string, error) {
	added := map[string]bool{} // in lower case
	for _, change := range changes {
		if change.Status == Added {
			added[strings.ToLower(change.Path)] = true
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	list, err := c.run(ctx, "ls-tree", "-r", "-t", "-z", tree)
	if err != nil {
		return nil, err
	}

	// Folders in different case are one folder, which loses nothing.
	groups := map[string][]string{}
	files := map[string]bool{}
	for _, line := range strings.Split(list, "\x00") {
		kind, path, ok := strings.Cut(line, "\t")
		if !ok {
			continue
		}
		lower := strings.ToLower(path)
		groups[lower] = append(groups[lower], path)
		if !strings.Contains(kind, " tree ") {
			files[lower] = true
		}
	}
	var out [][]string
	for lower, group := range groups {
		if len(group) > 1 && files[lower] && isNew(added, lower) {
			out = append(out, group)
		}
	}
	slices.SortFunc(out, slices.Compare)
	return out, nil
}

// isNew reports whether a path, or one below it, was added.
func isNew(added map[string]bool, lower string) bool {
	if added[lower] {
		return true
	}
	for path := range added {
		if strings.HasPrefix(path, lower+"/") {
			return true
		}
	}
	return false
}
