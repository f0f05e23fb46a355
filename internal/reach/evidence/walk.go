package evidence

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Limits of a working tree.
const (
	maxEntries = 1_000_000 // files of a commit, and files and folders of a walk
	maxDepth   = 256       // folders in folders
	maxRules   = 16 << 20  // bytes of rule files together
)

// The modes of the entries of a git tree.
const (
	modeFolder     = "40000"
	modeRegular    = "100644"
	modeExecutable = "100755"
	modeLink       = "120000"
	modeSubmodule  = "160000"
)

// A blob is an entry of a git tree.
type blob struct{ mode, id string }

// quietTime is how long a file must have been left alone before a walk for its
// times to prove later that it did not change.
const quietTime = 2 * time.Second

// A stamp changes when a file is written, so that it need not be read again.
type stamp struct {
	size              int64
	modified, changed time.Time
	permissions       fs.FileMode
}

func newStamp(info fs.FileInfo) stamp {
	return stamp{info.Size(), info.ModTime(), changed(info), info.Mode()}
}

// A file is a file, a link or a nested repository in a working tree.
type file struct {
	blob          // id is empty if the file could not be read
	stamp         // zero for a nested repository
	stored  bool  // git can read the content by its id
	problem error // why the file could not be read
}

// differs reports whether the file changed.
func (f file) differs(was file) bool {
	if f.id == "" || was.id == "" {
		return f.stamp != was.stamp
	}
	return f.blob != was.blob
}

// A tree is a working tree at one time, without ignored files. Files are hashed as
// git would hash them without filters and conversions.
type tree struct {
	moment     Moment
	began      time.Time // of the walk
	files      map[string]file
	folders    map[string]bool   // that were walked
	special    []string          // pipes, sockets and devices
	submodules map[string]string // commits of the submodules that were walked
}

// A walker walks a working tree. It is the only code of the package that lists the
// files of one.
//
// It goes down level by level, so that git is asked once per level which names are
// ignored; the rule files that git needs are copied to the scratch on the way. A
// walk reads every file once, except those that previous proves unchanged, and
// costs one run of git for each level. Links are never followed. It ends with
// CodeTooLarge beyond maxEntries, maxDepth or maxRules.
type walker struct {
	in       *Inspector
	scratch  *scratch
	root     *os.Root
	at       string // absolute path of root
	format   int    // digits of an object's name
	plain    bool   // there is no repository, so no file is ignored
	tracked  map[string]blob
	folders  map[string]bool // that hold tracked files
	previous *tree           // of an earlier walk; may be nil
	objects  *objectWriter   // keeps contents that git does not have; may be nil

	onlyTracked bool // other files are listed and not read
	limit       int  // entries; default maxEntries

	tree         *tree
	count, rules int // entries so far, and bytes of rule files
}

func newTree() *tree {
	return &tree{began: time.Now(), files: map[string]file{}, folders: map[string]bool{}, submodules: map[string]string{}}
}

// walk walks the tree from its top.
func (w *walker) walk(ctx context.Context) error {
	folders := []string{"."}
	for depth := 0; len(folders) > 0; depth++ {
		if depth == maxDepth {
			return hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the working tree is more than %d folders deep", maxDepth)
		}
		var err error
		if folders, err = w.level(ctx, folders); err != nil {
			return err
		}
	}
	return nil
}

// An untracked is an entry that is neither tracked nor a folder with tracked files.
type untracked struct {
	name string
	kind fs.FileMode
}

// level walks folders of one depth and returns those below.
func (w *walker) level(ctx context.Context, folders []string) (below []string, err error) {
	var all []untracked
	for _, folder := range folders {
		deeper, found, nested, err := w.folder(ctx, folder)
		if err != nil {
			return nil, err
		}
		below = append(below, deeper...)
		if nested && !w.plain { // another repository counts as one entry
			w.tree.files[folder] = file{blob: blob{modeSubmodule, w.nestedCommit(folder)}}
			continue
		}
		all = append(all, found...)
	}

	// Whether entries are ignored is asked once for all of them.
	ignored, err := w.ignored(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, u := range all {
		switch {
		case ignored[u.name]:
		case u.kind.IsDir():
			below = append(below, u.name)
		case isFile(u.kind):
			if err := w.addUntracked(ctx, u); err != nil {
				return nil, err
			}
		default:
			w.tree.special = append(w.tree.special, u.name)
		}
	}
	return below, nil
}

// isFile reports whether git keeps entries of a kind as files.
func isFile(kind fs.FileMode) bool { return kind.IsRegular() || kind&fs.ModeSymlink != 0 }

// addUntracked adds a file that is not tracked; without its content if that is not compared.
func (w *walker) addUntracked(ctx context.Context, u untracked) error {
	if w.onlyTracked {
		w.tree.files[u.name] = file{blob: blob{mode: gitMode(u.kind)}}
		return nil
	}
	return w.add(ctx, u.name)
}

// folder reads one folder: it adds the tracked files, and returns the folders with tracked
// files in it, the untracked entries, and whether it is another repository.
func (w *walker) folder(ctx context.Context, folder string) (below []string, found []untracked, nested bool, err error) {
	w.tree.folders[folder] = true
	limit := cmp.Or(w.limit, maxEntries)
	for e, err := range entries(ctx, w.root, folder) {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
			continue
		case err != nil && ctx.Err() != nil:
			return nil, nil, false, err
		case err != nil: // its content is unknown
			w.tree.files[folder] = file{blob: blob{mode: modeFolder}, problem: explain(folder, err)}
			continue
		}
		if w.count++; w.count > limit {
			return nil, nil, false, hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the working tree has more than %d files and folders", limit)
		}

		name := path.Join(folder, e.Name())
		was, tracked := w.tracked[name]
		switch {
		case e.Name() == ".git":
			nested = !w.folders[folder]
		case was.mode == modeSubmodule: // it is walked only as one of folders
		case e.IsDir() && w.folders[name]:
			below = append(below, name)
		case tracked && isFile(e.Type()):
			if err := w.add(ctx, name); err != nil {
				return nil, nil, false, err
			}
		default:
			found = append(found, untracked{name, e.Type()})
		}

		// Git needs the rule files of the folder to judge its untracked entries.
		if err := w.copyRules(name, e); err != nil {
			return nil, nil, false, err
		}
	}
	return below, found, nested, nil
}

// nestedCommit returns the commit of a repository inside this one that is no
// submodule, zeros if it cannot be read.
func (w *walker) nestedCommit(name string) string {
	repo, err := w.in.openRepository(filepath.Join(w.at, filepath.FromSlash(name)))
	if err == nil {
		defer repo.close()
		if head, err := repo.resolve("HEAD"); err == nil && len(head.id) == w.format {
			return head.id
		}
	}
	return strings.Repeat("0", w.format)
}

// add adds a file or link to the tree. One that was removed meanwhile is left out.
func (w *walker) add(ctx context.Context, name string) error {
	info, err := w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(name, err)
	}
	f := file{blob: blob{mode: gitMode(info.Mode())}, stamp: newStamp(info)}
	if runtime.GOOS == "windows" && f.mode != modeLink { // files have no permission to execute there
		f.mode = cmp.Or(w.tracked[name].mode, f.mode)
	}
	if was, ok := w.unchanged(name, f.stamp); ok {
		f.id, f.stored = was.id, was.stored
	} else if f.id, f.stored, err = w.read(ctx, name, info); err != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.id, f.problem = "", explain(name, err)
	}
	w.tree.files[name] = f
	return nil
}

// unchanged returns the file of the previous walk if its stamp proves that it has
// not been written since. Equal times prove nothing about a file that was written
// while the previous walk was made.
func (w *walker) unchanged(name string, now stamp) (was file, ok bool) {
	if w.previous == nil {
		return was, false
	}
	was, ok = w.previous.files[name]
	quiet := w.previous.began.Add(-quietTime)
	return was, ok && was.id != "" && was.stamp == now && now.changed.Before(quiet) && now.modified.Before(quiet)
}

// read hashes a file or link. A content that git does not have goes to objects.
func (w *walker) read(ctx context.Context, name string, info fs.FileInfo) (id string, stored bool, err error) {
	var content []byte
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := w.root.Readlink(name)
		if err != nil {
			return "", false, err
		}
		content = []byte(to)
	case w.objects == nil || info.Size() > maxKept:
		id, err := w.stream(ctx, name)
		return id, w.stored(name, id), err
	default:
		if content, err = readSmall(w.root, name, maxKept); err != nil {
			return "", false, err
		}
	}
	id = hashOf(w.format, "blob", content)
	return id, w.stored(name, id) || (w.objects != nil && w.objects.add(id, content)), nil
}

// stored reports whether git can read the content of a file because it is what the
// previous walk or the commit has.
func (w *walker) stored(name, id string) bool {
	if w.previous != nil {
		was := w.previous.files[name]
		return was.stored && was.id == id
	}
	return w.tracked[name].id == id
}

// stream hashes a file without holding its content.
func (w *walker) stream(ctx context.Context, name string) (string, error) {
	f, err := openRegular(w.root, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := objectHash(w.format, "blob", f.info.Size())
	if err := w.in.hash(ctx, "evidence.Repository", name, f, h); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyRules copies a rule file, of ignored or converted paths, to the
// place where git looks for it.
func (w *walker) copyRules(name string, e fs.DirEntry) error {
	isRules := e.Name() == ".gitignore" || e.Name() == ".gitattributes"
	if w.plain || !isRules || !e.Type().IsRegular() {
		return nil
	}
	b, err := readSmall(w.root, name, maxInfo)
	if err != nil {
		return explain(name, err)
	}
	if w.rules += len(b); w.rules > maxRules {
		return hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the working tree has more than %d bytes of ignore rules and attributes", maxRules)
	}
	if err := w.scratch.tree.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	return w.scratch.tree.WriteFile(name, b, 0o600)
}

// ignored asks git which names are ignored.
func (w *walker) ignored(ctx context.Context, all []untracked) (map[string]bool, error) {
	if len(all) == 0 || w.plain {
		return nil, nil
	}
	const here = "./" // keeps git from reading a name with a colon as a pattern
	var input strings.Builder
	for _, u := range all {
		if u.kind.IsDir() { // some rules are for folders only
			if err := w.scratch.tree.MkdirAll(u.name, 0o700); err != nil {
				return nil, err
			}
		}
		input.WriteString(here + u.name + "\x00")
	}
	out, err := w.scratch.list(ctx, input.String(), "check-ignore", "-z", "--stdin")
	var exit *exitError
	if errors.As(err, &exit) && exit.code == 1 { // none
		return nil, nil
	}
	names := map[string]bool{}
	for _, name := range out {
		names[strings.TrimPrefix(name, here)] = true
	}
	return names, err
}

// gitMode returns the mode of a file in a git tree.
func gitMode(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return modeLink
	case m&0o100 != 0:
		return modeExecutable
	}
	return modeRegular
}

// hash returns the name of the git tree with these files, empty if one of them
// could not be read. A submodule is in it as its commit.
func (t *tree) hash(format int) string {
	all := map[string]blob{}
	for name, commit := range t.submodules {
		all[name] = blob{modeSubmodule, commit}
	}
	for name, f := range t.files {
		if f.id == "" {
			return ""
		}
		if !t.inSubmodule(name) {
			all[name] = f.blob
		}
	}
	id, _ := treeOf(all, hashing(format)) // the names of objects are valid
	return id
}

// inSubmodule reports whether a file is in a submodule.
func (t *tree) inSubmodule(name string) bool {
	for dir := path.Dir(name); dir != "." && len(t.submodules) > 0; dir = path.Dir(dir) {
		if _, ok := t.submodules[dir]; ok {
			return true
		}
	}
	return false
}
