package evidence

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/effects"
)

// Limits of a comparison.
const (
	maxSome    = 50      // files that a change names
	maxLoose   = 1000    // files that are not committed
	maxContent = 1 << 20 // bytes of a file whose content is compared
)

// A changedFile is a file that is not as it was.
type changedFile struct {
	name    string
	was, is blob // zero if it was not there, or is not
	nearest blob // the version from before that is most like it; was, or one of another branch

	trivial     triviality
	maker       hub.AgentID // one of the others that work in the tree, if only its commits changed the file
	emptied     bool
	old         bool   // a commit from before has it like this
	origin      string // a commit from before that has it like this, of another branch; "" for none
	uncommitted bool   // the commit that is checked out has it in another form
	from        string // the name of the file that was renamed to this one
	authors     []author
}

func (f *changedFile) created() bool { return f.was == blob{} }
func (f *changedFile) deleted() bool { return f.is == blob{} }

// A changeReader finds out what changed in a working tree since a state.
type changeReader struct {
	q     hub.Comparison
	w     *workTree
	git   *keptWork // git reads the objects of the repository and of the states there
	was   fileList
	since time.Time // of the state, by the clock of the files

	tips   []string  // the commits from before
	before time.Time // when those existed

	files  []*changedFile // sorted by name
	change hub.WorkChange
}

// Compare returns the change of a working tree since a state that State recorded, and keeps
// the state of now. It reports CodeNotEnabled if the earlier state is not kept any more.
//
// A file has changed if its content, kind or permission to execute is another. Its change
// counts if a new commit or the working tree made it, and no commit that existed at the
// earlier state has the file like this, as it is or merged.
func (in *Inspector) Compare(ctx context.Context, q hub.Comparison) (hub.WorkChange, error) {
	ctx, end, err := in.begin(ctx)
	defer end()
	if err == nil {
		in, err = in.current(ctx)
	}
	if err != nil {
		return hub.WorkChange{}, err
	}
	w, err := in.readWork(ctx, q.Path)
	if err != nil {
		return hub.WorkChange{}, in.late(ctx, err)
	}
	defer w.close()
	r := &changeReader{q: q, w: w}
	if err := r.read(ctx); err != nil {
		return hub.WorkChange{}, in.late(ctx, err)
	}
	return r.change, nil
}

// read compares the files, finds the origin of each change, and keeps the state of now.
func (r *changeReader) read(ctx context.Context) (err error) {
	if err := r.open(ctx); err != nil {
		return err
	}
	r.change.Since, r.change.Now = r.q.Since, r.w.state(r.git.name(stateCompleted))
	r.list()
	if err := r.origins(ctx); err != nil {
		return err
	}
	if err := r.git.keep(ctx, r.w, stateCompleted, r.was); err != nil {
		return err
	}
	if err := r.classify(ctx); err != nil {
		return err
	}
	r.attribute()
	if err := r.count(ctx); err != nil {
		return err
	}
	r.lookUpNamed()
	r.lookOutside()
	r.sum()
	return r.findBranches(ctx)
}

// open finds the files of the earlier state and the commits that existed then. Without a
// kept state those of its commit count, as in handoffs that earlier versions accepted.
func (r *changeReader) open(ctx context.Context) (err error) {
	if r.git, err = r.w.in.openKept(r.w, r.q.Keep); err != nil {
		return err
	}
	since, before := r.q.Since, r.q.Before
	if before == (hub.WorkState{}) {
		before = since
	}

	if _, r.since, err = r.readKept(since); err != nil {
		return err
	}
	if r.tips, r.before, err = r.readKept(before); err != nil {
		return err
	}
	r.tips = append(r.tips, r.q.Known...)

	// A tree that the working tree has already is not read from git again.
	switch since.Tree {
	case r.w.committed.tree:
		r.was = r.w.committed
		return nil
	case r.w.files.tree:
		r.was = r.w.files
		return nil
	}

	entries, _, err := r.git.files(ctx, cmp.Or(since.Tree, since.Commit))
	if err != nil {
		return hub.Errorf(hub.CodeNotEnabled, "evidence.Compare", "cannot read the files of its earlier state")
	}
	r.was, err = newFileList(entries, r.w.format)
	return err
}

// readKept returns the commits that existed at a state, and when it was recorded. Without a
// kept state that is its commit. The objects of the state can be read from now on.
func (r *changeReader) readKept(s hub.WorkState) (tips []string, at time.Time, err error) {
	id, state, ok := keptState(s.Kept)
	if !ok {
		return []string{s.Commit}, at, nil
	}
	from := r.git
	if id != r.q.Keep {
		from = &keptWork{scratch: &scratch{dir: filepath.Join(filepath.Dir(r.git.dir), string(id))}, id: id}
		r.git.lenders = append(r.git.lenders, filepath.Join(from.gitDir(), "objects"))
	}
	if tips, at, err = from.tips(state); err != nil {
		return nil, at, hub.Errorf(hub.CodeNotEnabled, "evidence.Compare", "its earlier state is no longer kept")
	}
	if len(tips) == 0 && s.Commit != "" {
		tips, r.change.NotCompared = []string{s.Commit}, "there are too many"
	}
	return tips, at, nil
}

// list lists the files that changed. One that has the content of a file that is not there
// any more was renamed.
func (r *changeReader) list() {
	deleted := map[string]string{} // names by content
	empty := hashOf(r.w.format, "blob", nil)
	names := slices.Sorted(maps.Keys(r.w.files.differing(r.was)))
	for _, name := range names {
		if is := r.w.files.entries[name]; is == (blob{}) && r.was.entries[name].id != empty {
			deleted[r.was.entries[name].id] = name
		}
	}
	renamed := map[string]bool{}
	for _, name := range names {
		f := &changedFile{name: name, was: r.was.entries[name], is: r.w.files.entries[name], nearest: r.was.entries[name]}
		f.uncommitted = r.w.committed.entries[name] != f.is
		if from, ok := deleted[f.is.id]; ok && f.created() && f.is.mode != modeSubmodule {
			f.from, f.nearest = from, r.was.entries[from]
			f.uncommitted = f.uncommitted || r.w.committed.entries[from] != (blob{})
			renamed[from] = true
			delete(deleted, f.is.id)
		}
		r.files = append(r.files, f)
	}
	r.files = slices.DeleteFunc(r.files, func(f *changedFile) bool { return renamed[f.name] })
}

// own returns the files whose change counts.
func (r *changeReader) own() []*changedFile {
	return slices.DeleteFunc(slices.Clone(r.files), func(f *changedFile) bool { return f.maker != "" || (f.old && !r.q.Merge) })
}

// attribute finds the files that only commits of one agent changed. A file that is not
// committed as it is has no author.
func (r *changeReader) attribute() {
	c := &r.change
	files := map[hub.AgentID]int{}
	for _, f := range r.files {
		if f.old {
			continue
		}
		by := func(agent hub.AgentID) bool {
			another := func(a author) bool { return !a.is(agent) }
			return !f.uncommitted && len(f.authors) > 0 && !slices.ContainsFunc(f.authors, another)
		}
		other := slices.IndexFunc(r.q.Others, by)
		switch {
		case by(r.q.Owner):
			c.ByOwner++
		case other >= 0:
			f.maker = r.q.Others[other]
			files[f.maker]++
		}
		for _, a := range f.authors {
			name := a.String()
			isForeign := f.maker == "" && !a.is(r.q.Owner)
			if isForeign && len(c.Authors) < maxSome && !slices.Contains(c.Authors, name) {
				c.Authors = append(c.Authors, name)
			}
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(files)) {
		c.ByOthers = append(c.ByOthers, hub.Credit{Agent: agent, Why: "commits", Files: files[agent]})
	}
}

// lookUpNamed finds the files that the completion names and that did not change, and those
// that are expected to change and did not. A named file that git ignores must have been
// written since the earlier state.
func (r *changeReader) lookUpNamed() {
	c, own := &r.change, map[string]bool{}
	for _, f := range r.own() {
		own[f.name] = true
	}
	for _, named := range r.q.Named {
		name, inside := r.inside(named)
		if !inside || own[name] {
			continue
		}
		info, err := r.w.repo.tree.Stat(name)
		_, compared := r.w.files.entries[name]
		ignored := err == nil && info.Mode().IsRegular() && !compared
		if ignored && !r.since.IsZero() && !changed(info).Before(r.since) {
			r.files = append(r.files, &changedFile{name: name, is: blob{mode: gitMode(info.Mode())}, trivial: trivialIgnored})
			continue
		}
		c.NotChanged = append(c.NotChanged, name)
	}
	for _, pattern := range r.q.Expect {
		touched := func(f *changedFile) bool {
			return (f.trivial == notTrivial || r.q.Trivial) && covers([]string{pattern}, r.w.repo.treeAt, ".", f.name)
		}
		if !slices.ContainsFunc(r.own(), touched) {
			c.Untouched = append(c.Untouched, pattern)
		}
	}
}

// lookOutside finds the changed files that the scope does not have.
func (r *changeReader) lookOutside() {
	if len(r.q.Scope) == 0 {
		return
	}
	scope := make([]effects.Target, len(r.q.Scope))
	for i, pattern := range r.q.Scope {
		scope[i] = effects.Pathspec(filepath.ToSlash(pattern))
	}
	inside := effects.Compile(scope...)
	for _, f := range r.own() {
		if !inside.Matches("/"+f.name) && len(r.change.Outside) < maxSome {
			r.change.Outside = append(r.change.Outside, f.name)
		}
	}
}

// inside returns the name of a file in the working tree, by its absolute path.
func (r *changeReader) inside(named string) (string, bool) {
	clean := filepath.Clean(named)
	for _, top := range []string{r.w.repo.treeAt, filepath.Clean(r.q.Path)} {
		if name, ok := under(top, clean); ok {
			return filepath.ToSlash(name), true
		}
	}
	return "", false
}

// count counts the lines of the change, against the nearest version of each file.
func (r *changeReader) count(ctx context.Context) error {
	o := &objectWriter{scratch: r.git.scratch, format: r.w.format, room: keepRoom}
	before, after := map[string]blob{}, map[string]blob{}
	for _, f := range r.own() {
		if f.nearest.mode == modeSubmodule || f.is.mode == modeSubmodule {
			continue
		}
		if f.nearest != (blob{}) {
			before[f.name] = f.nearest
		}
		if !f.deleted() {
			after[f.name] = f.is
		}
	}
	if len(before)+len(after) == 0 {
		return nil
	}
	old, now, err := o.trees(before, after)
	if err != nil {
		return err
	}
	// Without the figures, as for a file that is too large to be kept, the line has the
	// number of files alone.
	r.change.Insertions, r.change.Deletions, _, _ = o.lines(ctx, old, now)
	return ctx.Err()
}

// sum fills in the members of the change that follow from its files.
func (r *changeReader) sum() {
	c, own := &r.change, r.own()
	c.Files, c.Before = len(own), len(r.files)-len(own)
	c.Trivial = len(own) > 0
	for _, f := range own {
		c.Trivial = c.Trivial && f.trivial != notTrivial
		if f.uncommitted {
			c.Uncommitted++
		}
		if f.uncommitted && len(c.Loose) < maxLoose {
			c.Loose = append(c.Loose, f.name)
			if f.from != "" {
				c.Loose = append(c.Loose, f.from)
			}
		}
		if len(c.Some) < maxSome && f.trivial != trivialIgnored {
			c.Some = append(c.Some, hub.WorkFile{Path: f.name, Was: f.was.id, Is: f.is.id})
		}
		if (f.deleted() || f.emptied) && len(c.Removed) < maxSome {
			c.Removed = append(c.Removed, f.name)
		}
	}
	c.Text = r.line(own)
}

// line describes the change in one line.
func (r *changeReader) line(own []*changedFile) string {
	var parts []string
	switch c := r.change; {
	case len(r.files) == 0:
		return ""
	case len(own) == 0 && c.OldCommits == 0:
		return plural(len(r.files), "file") + ", there before"
	case len(own) == 0:
	case c.Trivial:
		parts = append(parts, trivialLine(own))
	default:
		parts = append(parts, fileLine(own, c.Insertions, c.Deletions))
	}
	if old := r.change.OldCommits; old > 0 {
		parts = append(parts, fmt.Sprintf("%s, %d %s there before", plural(r.change.Commits, "commit"), old, pick(old == 1, "was", "were")))
	}
	return strings.Join(parts, ", ")
}

// trivialLine describes a change that is trivial, such as "README.md: whitespace only".
func trivialLine(own []*changedFile) string {
	what := brief(own[0].name)
	if len(own) > 1 {
		what = plural(len(own), "file")
	}
	var kinds []string
	for _, f := range own {
		if !slices.Contains(kinds, string(f.trivial)) {
			kinds = append(kinds, string(f.trivial))
		}
	}
	slices.Sort(kinds)
	return fmt.Sprintf("%s: %s only", what, strings.Join(kinds, ", "))
}

// fileLine describes the change of files, such as "3 files +40 -2, auth.go deleted".
func fileLine(own []*changedFile, insertions, deletions int) string {
	var parts, removed []string
	renamed := 0
	for _, f := range own {
		switch {
		case f.deleted():
			removed = append(removed, brief(f.name)+" deleted")
		case f.emptied:
			removed = append(removed, brief(f.name)+" emptied")
		case f.from != "":
			renamed++
		}
	}

	// A single file is named, several are counted.
	only := len(own) == 1
	switch {
	case only && len(removed) == 1:
		return removed[0]
	case only && renamed == 1:
		parts = append(parts, fmt.Sprintf("%s renamed to %s", brief(own[0].from), brief(own[0].name)))
	default:
		parts = append(parts, fmt.Sprintf("%s +%d -%d", plural(len(own), "file"), insertions, deletions))
	}

	if renamed > 0 && !only {
		parts = append(parts, fmt.Sprintf("%d renamed", renamed))
	}
	switch {
	case len(removed) > 2:
		parts = append(parts, fmt.Sprintf("%d deleted or emptied", len(removed)))
	case !only:
		parts = append(parts, removed...)
	}

	return strings.Join(parts, ", ")
}

// plural returns a number with its noun.
func plural(n int, noun string) string { return fmt.Sprintf("%d %s", n, noun+pick(n == 1, "", "s")) }

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}
