package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
)

// A Moment is the state of a folder at one time.
type Moment struct {
	Repository bool   `json:"repository"`       // whether it is in a git repository
	Commit     string `json:"commit,omitempty"` // empty if there is none yet
	Branch     string `json:"branch,omitempty"` // empty if HEAD is detached
	Tree       string `json:"tree,omitempty"`   // the files as a git tree; empty if one could not be read
	Dirty      bool   `json:"dirty"`            // whether the files are not byte for byte those of the commit
}

// A Base is the state of a folder before an agent worked there. It holds temporary
// files until it is closed, and is of no use after that. It is not safe for
// concurrent use.
type Base struct {
	in     *Inspector
	given  string   // the folder as it was named, absolute
	top    string   // the folder that is compared, without links
	folder string   // where the work is done, relative to top, with slashes
	root   *os.Root // top
	plain  bool     // top is not in a repository
	format int      // digits of an object's name

	scratch *scratch
	rules   map[string]string // digests of the settings and hooks of the repository
	first   *tree
	last    *tree     // of the last Compare or Since, or first
	taken   time.Time // the end of the first walk, by the clock of the files
}

// Snapshot records the whole working tree that dir is in, or dir alone if it is in
// none or in one that ignores it. The caller closes the base.
//
// Every file that git does not ignore is read and hashed as it is: no filter is run
// and no line ending converted, so in a repository that has such rules the tree is
// not the one git would make. A submodule counts with its files; a repository
// inside the repository that is no submodule counts as one entry, with its commit.
// The index is not read. Neither the working tree nor the repository is changed.
//
// It reports CodeNotFound and CodeConflict for a dir that is no folder,
// CodeTooLarge beyond a million files, and CodeDegraded if the time is over.
// opts may be nil. A file larger than MaxFile is told from its earlier state by its size
// and times.
func Snapshot(ctx context.Context, dir string, opts *Options) (*Base, error) {
	given, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("evidence: snapshot: %w", err)
	}
	real, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, explain(dir, err)
	}
	in, err := New([]string{filepath.VolumeName(real) + string(filepath.Separator)}, opts)
	if err != nil {
		return nil, err
	}
	in.otherOwners = true // the user chose the folder, and nothing in it is run
	ctx, end, err := in.begin(ctx)
	defer end()
	if err != nil {
		return nil, err
	}
	b, err := newBase(ctx, in, real)
	if err != nil {
		return nil, in.late(ctx, err)
	}
	b.given = given
	return b, nil
}

// Folder returns the folder where the work is done, without links.
func (b *Base) Folder() string { return filepath.Join(b.top, filepath.FromSlash(b.folder)) }

// InFolder returns the files of a difference that lie in the folder where the work is
// done, as absolute paths. The rest of the repository may be the work of others.
func (b *Base) InFolder(d Diff) (files []string) {
	for _, name := range slices.Concat(d.Created, d.Modified, d.Deleted) {
		file := filepath.Join(b.top, filepath.FromSlash(name))
		if _, ok := under(b.Folder(), file); ok {
			files = append(files, file)
		}
	}
	return files
}

// newBase records the repository around the folder, or the folder.
func newBase(ctx context.Context, in *Inspector, folder string) (*Base, error) {
	top, err := in.around(folder)
	if err != nil {
		return nil, err
	}
	if rel, ok := under(top, folder); ok && top != "" {
		b := &Base{in: in, top: top, folder: filepath.ToSlash(rel)}
		if err := b.take(ctx); !errors.Is(err, errIgnoredFolder) {
			return b, err
		}
	}
	b := &Base{in: in, top: folder, folder: ".", plain: true}
	return b, b.take(ctx)
}

// around returns the top of the working tree that folder is in, or "".
func (in *Inspector) around(folder string) (string, error) {
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			repo, err := in.openRepository(at)
			switch {
			case err == nil:
				repo.close()
				return at, nil
			case hub.CodeOf(err) != hub.CodeNotFound:
				return "", err
			}
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// take makes the first walk. It closes the base if that fails.
func (b *Base) take(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if b.root, _, _, err = find(b.in, b.top, openFolder); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if b.first, err = b.walk(ctx, nil, b.newObjects()); err != nil {
		return err
	}
	b.last = b.first
	b.taken, err = b.scratch.clock()
	return err
}

// prepare makes the scratch with the objects and the rules of the repository. The
// rules that are not in the working tree stay as they are now.
func (b *Base) prepare(ctx context.Context) (err error) {
	if b.plain {
		b.format = sha256Digits
		b.scratch, err = b.in.emptyScratch(b.format, map[string][]byte{})
		return err
	}
	if b.in.git == "" {
		return hub.Errorf(hub.CodeNotEnabled, "evidence.Snapshot", "git is not installed, and %s is in a repository", show(b.top))
	}
	repo, err := b.in.openRepository(b.top)
	if err != nil {
		return err
	}
	defer repo.close()
	b.format = repo.format()
	if b.rules, err = repo.obeyed(); err != nil {
		return err
	}
	files, err := repo.rules()
	if err != nil {
		return err
	}
	own, err := userExcludes(ctx, b.in.git)
	if err != nil {
		return err
	}
	files["info/exclude"] = append(append(own, '\n'), files["info/exclude"]...)
	if b.scratch, err = b.in.emptyScratch(b.format, files); err != nil {
		return err
	}
	return b.scratch.lend(repo)
}

// userExcludes returns the user's own list of files that git ignores everywhere:
// agents put their private files there.
func userExcludes(ctx context.Context, program string) ([]byte, error) {
	cmd := git.In(ctx, program, os.TempDir(), "config", "--global", "--type=path", "--get", "core.excludesFile")
	leash(cmd)
	out, err := cmd.Output() // fails if nothing is set
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	name := strings.TrimSuffix(string(out), "\n")
	if err != nil || name == "" {
		config, err := os.UserConfigDir()
		if err != nil {
			return nil, nil
		}
		name = filepath.Join(config, "git", "ignore")
	}
	b, _ := os.ReadFile(name) // as good as none if it cannot be read, as for git
	return b, nil
}

func (b *Base) newObjects() *objectWriter {
	return &objectWriter{scratch: b.scratch, format: b.format, room: keepRoom}
}

// clock returns the time that a file gets that is written now.
func (s *scratch) clock() (time.Time, error) {
	name := filepath.Join(s.dir, "clock")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return time.Time{}, err
	}
	info, err := os.Lstat(name)
	if err != nil {
		return time.Time{}, err
	}
	return changed(info), nil
}

// Moment returns the state of the folder at the snapshot.
func (b *Base) Moment() Moment { return b.first.moment }

// Close removes the temporary files.
func (b *Base) Close() error {
	var err error
	if b.root != nil {
		err = b.root.Close()
	}
	if b.scratch != nil {
		b.scratch.close()
	}
	b.root, b.scratch = nil, nil
	return err
}

// Compare returns the changes since the base was taken. named are paths as a report
// spells them, absolute or relative to the base's folder; their state is returned
// even if git ignores them.
func (b *Base) Compare(ctx context.Context, named []string) (Changes, error) {
	ctx, end, err := b.in.begin(ctx)
	defer end()
	if err != nil {
		return Changes{}, err
	}
	objects := b.newObjects()
	now, err := b.walk(ctx, b.first, objects)
	if err != nil {
		return Changes{}, b.in.late(ctx, err)
	}
	b.last = now
	c := now.since(b.first)
	c.Top, c.Folder = b.top, b.folder
	c.count(ctx, objects, b.first, now)
	if c.Trivial, err = b.trivial(ctx, c); err != nil {
		return Changes{}, b.in.late(ctx, err)
	}
	if c.Repository, err = b.changedRules(); err != nil {
		return Changes{}, b.in.late(ctx, err)
	}
	c.Named = make(map[string]NamedPath, len(named))
	for _, p := range named {
		c.Named[p] = b.named(p, now)
	}
	return c, nil
}

// Since compares the whole folder with its state at the last Compare or Since, and
// returns the names of the files that changed, such as those that a command changed.
func (b *Base) Since(ctx context.Context) (Changes, error) {
	ctx, end, err := b.in.begin(ctx)
	defer end()
	if err != nil {
		return Changes{}, err
	}
	now, err := b.walk(ctx, b.last, nil)
	if err != nil {
		return Changes{}, b.in.late(ctx, err)
	}
	c := now.since(b.last)
	c.Rewritten = now.rewritten(b.last)
	b.last = now
	return c, nil
}

// named returns the state of a path as a report spells it: of the first meaning of
// the path that exists or existed.
func (b *Base) named(path string, now *tree) NamedPath {
	var first NamedPath
	for i, name := range b.resolve(path) {
		p := b.state(name, now)
		if p.Exists || (!p.Ignored && p.Name != "") {
			return p
		}
		if i == 0 {
			first = p
		}
	}
	return first
}

// resolve returns the names that a path can mean, the likeliest first; none if it
// leads out of the tree. An agent that works in a folder of a repository may write
// paths relative to its top.
func (b *Base) resolve(written string) []string {
	if written == "" || len(written) > maxPath || strings.ContainsRune(written, 0) {
		return nil
	}
	if filepath.IsAbs(written) {
		clean := filepath.Clean(written)
		if rel, ok := under(b.top, clean); ok {
			return []string{filepath.ToSlash(rel)}
		}
		if rel, ok := under(b.given, clean); ok {
			return []string{path.Join(b.folder, filepath.ToSlash(rel))}
		}
		return nil
	}
	var names []string
	for _, from := range []string{b.folder, "."} {
		name := path.Join(from, filepath.ToSlash(written))
		if !leadsOut(name) {
			names = append(names, name)
		}
	}
	return names
}

// leadsOut reports whether a clean relative name leads out of where it begins.
func leadsOut(name string) bool { return name == ".." || strings.HasPrefix(name, "../") }

// state returns the state of a name.
func (b *Base) state(name string, now *tree) NamedPath {
	_, is := now.files[name]
	_, was := b.first.files[name]
	if is || was {
		return NamedPath{Name: name, Exists: is, Folder: now.files[name].mode == modeSubmodule}
	}
	info, err := b.root.Stat(name)
	switch {
	case err == nil:
		return NamedPath{Name: name, Exists: true, Folder: info.IsDir(), Ignored: true, Touched: !changed(info).Before(b.taken)}
	case hub.CodeOf(explain(name, err)) == hub.CodePolicy:
		return NamedPath{} // through a link
	}
	return NamedPath{Name: name, Ignored: true}
}

// errIgnoredFolder means that the repository around the folder ignores it.
var errIgnoredFolder = errors.New("the folder is ignored by the repository around it")

// walk walks the tree. previous is nil for the first walk; the files of the previous
// one are tracked, so that a new rule cannot hide them.
func (b *Base) walk(ctx context.Context, previous *tree, objects *objectWriter) (*tree, error) {
	if err := b.scratch.newTree(); err != nil {
		return nil, err
	}
	w := &walker{
		in: b.in, scratch: b.scratch, root: b.root, at: b.top, format: b.format, plain: b.plain,
		tracked: map[string]blob{}, folders: map[string]bool{".": true}, previous: previous, objects: objects, tree: newTree(),
	}

	commit, err := w.head(ctx)
	if err != nil {
		return nil, err
	}
	if previous != nil {
		for name, f := range previous.files {
			if f.mode != modeSubmodule {
				w.track(name, f.blob)
			}
		}
	}

	if err := w.walk(ctx); err != nil {
		return nil, err
	}

	// Changes in a folder that git ignores would not be seen.
	if !w.tree.folders[b.folder] && previous == nil {
		return nil, errIgnoredFolder
	}

	m := &w.tree.moment
	m.Tree = w.tree.hash(b.format)
	m.Dirty = m.Repository && m.Tree != commit
	return w.tree, nil
}

// head records the commit that is checked out, tracks its files, and returns its
// tree.
func (w *walker) head(ctx context.Context) (tree string, err error) {
	if w.plain && w.previous == nil {
		return "", nil
	}
	repo, err := w.in.openRepository(w.at)
	if err != nil {
		return "", ctx.Err() // there is none, or it was removed
	}
	defer repo.close()

	head, err := repo.resolve("HEAD")
	m := &w.tree.moment
	m.Repository, m.Commit = true, head.id
	if head.name != "HEAD" {
		m.Branch, _ = strings.CutPrefix(head.name, branchPrefix)
	}

	// Before the first commit the tree is empty.
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return hashOf(w.format, "tree", nil), nil
	case err != nil:
		return "", err
	case w.plain:
		return "", nil
	}

	files, folders, err := w.scratch.files(ctx, head.id)
	if err != nil {
		return "", ctx.Err() // without readable objects no file is tracked
	}
	w.folders = folders

	// The first walk takes the submodules from the commit, a later one from the walk before.
	for name, b := range files {
		if b.mode != modeSubmodule {
			w.tracked[name] = b
		} else if w.previous == nil {
			w.trackSubmodule(ctx, name, b.id)
		}
	}
	if w.previous != nil {
		for name, id := range w.previous.submodules {
			w.trackSubmodule(ctx, name, id)
		}
	}

	tree, _ = treeOf(files, hashing(w.format))
	return tree, nil
}

// track adds a file to the tracked ones.
func (w *walker) track(name string, b blob) {
	if _, ok := w.tracked[name]; !ok {
		w.tracked[name] = b
		hold(w.folders, name)
	}
}

// trackSubmodule tracks the files of a submodule; commit is the one that the
// repository records for it.
func (w *walker) trackSubmodule(ctx context.Context, name, commit string) {
	w.tree.submodules[name] = commit
	w.folders[name] = true
	hold(w.folders, name)

	// A submodule that cannot be read counts with the commit that the repository records.
	if info, err := w.root.Lstat(path.Join(name, ".git")); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return // it was not fetched
	}
	repo, err := w.in.openRepository(filepath.Join(w.at, filepath.FromSlash(name)))
	if err != nil {
		return
	}
	defer repo.close()
	head, err := repo.resolve("HEAD")
	if err != nil {
		return
	}

	w.tree.submodules[name] = head.id
	if w.scratch.lend(repo) != nil {
		return
	}
	files, _, err := w.scratch.files(ctx, head.id)
	if err != nil {
		return
	}

	for inner, b := range files {
		if b.mode != modeSubmodule {
			w.track(path.Join(name, inner), b)
		}
	}
}
