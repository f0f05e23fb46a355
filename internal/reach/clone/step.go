package clone

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/parley-agents/parley/internal/ground/durable"
)

// A step is one change of working trees of a user, recorded in a file in the hub's home from
// before the first write until after the last one.
//
// The files of a tree are changed under the lock of its index. First git writes the new
// files and the new index into a folder of the step. Then each file that goes is moved into
// that folder, and must be the one that was compared, else it is moved back; each new file
// is moved out of that folder, to a path at which there is nothing. So at every moment every
// file of a person is in its place or in the folder of the step, and undo brings the tree to
// its old state from any point. The branch is locked while files move, and moves last: if it
// has moved, the trees are complete.
type step struct {
	ID     string    `json:"id"`
	Copy   string    `json:"copy"` // the folder of the copy
	Common string    `json:"common"`
	Branch string    `json:"branch,omitempty"` // "" for a change of files alone
	Old    string    `json:"old,omitempty"`    // "" if the branch has no commit yet
	New    string    `json:"new"`
	Trees  []tree    `json:"trees"`
	At     time.Time `json:"at,omitzero"`

	home    *Copies
	changes []Change
	works   []*work
	kept    []string // files of persons that had to stay in the folders of the step
}

// A work is the part of a step in one working tree.
type work struct {
	step    *step
	copy    *Copy
	files   *files
	plan    *plan
	control string // the folder of the step in the tree's own folder of git
	inTree  string // the folder of the step below the top of the tree
	locked  bool
}

// Names in the folders of a step.
const (
	newFiles    = "files"     // the new files, by their paths
	oldFiles    = "old"       // the replaced ones, by the number of their change
	undoneFiles = "undone"    // new files that were taken back, by that number
	lockFile    = "lock"      // becomes the lock of the index
	newIndex    = "index.new" // becomes the index
	putIndex    = "index.put" // the same content, to recognize it
	oldIndex    = "index.old"
	stagedFile  = "staged" // the numbers of the files that the step puts; is there once all new files are
)

// newStep returns a step that has not begun.
func (c *Copy) newStep(id, branch, old, new string, trees []tree, changes []Change) *step {
	return &step{ID: id, Copy: c.bare, Common: c.source.common, Branch: branch, Old: old, New: new, Trees: trees, At: time.Now().UTC(), home: c.home, changes: changes}
}

// file returns the path of the record.
func (s *step) file() string { return filepath.Join(s.home.folder, stepFolder, s.ID+".json") }

// write writes the record.
func (s *step) write() error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	s.home.pause("record")
	return durable.WriteFile(s.file(), raw, 0o600)
}

// open opens the files of the trees, which close closes.
func (s *step) open(ctx context.Context, c *Copy) error {
	for _, t := range s.Trees {
		f, err := s.home.openFiles(ctx, c.source, t)
		if err != nil {
			s.close()
			return err
		}
		s.works = append(s.works, newWork(s, c, f))
	}
	return nil
}

func newWork(s *step, c *Copy, f *files) *work {
	name := "parley-" + s.ID
	w := &work{step: s, copy: c, files: f, control: filepath.Join(f.tree.GitDir, name), inTree: "." + name}
	if f.tree.GitDir == filepath.Join(f.tree.Folder, ".git") {
		w.inTree = ".git/" + name
	}
	return w
}

func (s *step) close() {
	for _, w := range s.works {
		w.files.close()
	}
	s.works = nil
}

// lockText returns the content of a lock of the step.
func (s *step) lockText() string { return "parley " + s.ID + "\n" }

// lock takes the lock of the tree's index. It returns false if another process has it.
func (w *work) lock() (bool, error) {
	w.step.home.pause("make the folder")
	if err := os.MkdirAll(w.control, 0o700); err != nil {
		return false, err
	}
	own := filepath.Join(w.control, lockFile)
	w.step.home.pause("write the lock")
	if err := os.WriteFile(own, []byte(w.step.lockText()), 0o600); err != nil {
		return false, err
	}

	w.step.home.pause("lock")
	err := os.Link(own, w.indexLock())
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = durable.CreateFile(w.indexLock(), []byte(w.step.lockText()), 0o600) // the file system has no hard links
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	w.locked = err == nil
	return err == nil, err
}

func (w *work) indexLock() string { return w.files.tree.index() + ".lock" }

// stage lets git write the new files and the new index into the folders of the step. The
// index keeps staged changes of other paths.
func (w *work) stage(ctx context.Context, indexed bool) error {
	w.step.home.pause("stage")
	if err := os.MkdirAll(w.control, 0o700); err != nil {
		return err
	}
	for _, name := range []string{newFiles, oldFiles, undoneFiles} {
		w.step.home.pause("make " + name)
		if err := w.files.root.MkdirAll(w.at(name), 0o700); err != nil {
			return err
		}
	}
	w.step.home.pause("write .gitignore")
	if err := w.files.root.WriteFile(w.at(".gitignore"), []byte("*\n"), 0o600); err != nil {
		return err
	}

	index := filepath.Join(w.control, newIndex)
	from := w.step.Old
	if from == "" {
		from = w.copy.source.emptyTree()
	}
	if indexed {
		if err := w.copyIndex(ctx, index); err != nil {
			return err
		}
	} else if err := w.readTree(ctx, index, from); err != nil {
		return err
	}
	w.files.scratch.Plain = w.files.raw
	w.step.home.pause("write the new files")
	err := w.readTree(ctx, index, "-m", "-u", "--no-recurse-submodules", from, w.step.New)
	w.files.scratch.Plain = false
	if err != nil {
		return err
	}

	// The new files are on disk before the first old one goes.
	err = filepath.WalkDir(w.folder(newFiles), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = durable.SyncFile(name)
		}
		return err
	})
	if err != nil {
		return err
	}
	return w.markStaged()
}

// markStaged writes the numbers of the files that the step will put. From here on undo has
// something to do.
func (w *work) markStaged() error {
	numbers := []int{}
	for i, ch := range w.step.changes {
		if !w.skips(ch) {
			numbers = append(numbers, i)
		}
	}
	raw, err := json.Marshal(numbers)
	if err != nil {
		return err
	}
	w.step.home.pause("staged")
	return durable.WriteFile(filepath.Join(w.control, stagedFile), raw, 0o600)
}

// copyIndex copies the tree's index, if it has one.
func (w *work) copyIndex(ctx context.Context, to string) error {
	from := w.files.tree.index()
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	w.step.home.pause("keep the index")
	if err := linkOrCopy(ctx, from, filepath.Join(w.control, oldIndex)); err != nil {
		return err
	}
	w.step.home.pause("copy the index")
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o600)
}

// linkOrCopy gives a file, which is replaced and never written to, a second name.
func linkOrCopy(ctx context.Context, from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	return durable.Copy(ctx, from, to) // the file system has no hard links
}

// readTree runs git read-tree on the folder of new files and an index.
func (w *work) readTree(ctx context.Context, index string, args ...string) error {
	cmd := w.files.scratch.Command(ctx, program, w.folder(newFiles), index, append([]string{"read-tree"}, args...)...)
	cmd.Env = append(cmd.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+alternate(filepath.Join(w.copy.bare, "objects")))
	_, err := output(cmd, "write files", w.files.tree.Folder)
	return err
}

// at returns a path in the folder of the step, relative to the top of the tree.
func (w *work) at(name string) string { return w.inTree + "/" + name }

// number returns the name of the file of a change.
func number(i int) string { return strconv.Itoa(i) }

// folder returns the absolute path of a name in the folder of the step.
func (w *work) folder(name string) string {
	return filepath.Join(w.files.tree.Folder, filepath.FromSlash(w.at(name)))
}

// A touched is the error about a file that a person changed while the step was under way.
type touched struct{ path string }

func (t *touched) Error() string { return t.path + " has been changed" }

// move moves the files of the tree: first those that go, then those that come.
func (w *work) move(ctx context.Context) error {
	for i, ch := range w.step.changes {
		if ch.newMode != modeNone || w.skips(ch) {
			continue
		}
		if err := w.setAside(ctx, i, ch); err != nil {
			return err
		}
		w.step.home.pause("remove folders")
		w.files.dropFolders(ch.Path)
	}
	for i, ch := range w.step.changes {
		if ch.newMode == modeNone || w.skips(ch) {
			continue
		}
		if err := w.put(ctx, i, ch); err != nil {
			return err
		}
	}
	return nil
}

// skips reports whether a path needs no move: it is as the landing has it, or the person has
// staged exactly that, or it is a submodule.
func (w *work) skips(ch Change) bool {
	in, known := w.plan.index[ch.Path]
	if !known {
		in.mode = modeNone
	}
	if w.plan.index != nil && !in.is(ch.oldMode, ch.oldID) {
		return true
	}
	if ch.oldMode == modeSubmodule && (ch.newMode == modeNone || ch.newMode == modeSubmodule) {
		return true
	}
	return w.files.is(w.plan.states[ch.Path], ch.newMode, ch.newID)
}

// put moves a new file to its path, and the old one aside.
func (w *work) put(ctx context.Context, i int, ch Change) error {
	staged := w.at(newFiles) + "/" + ch.Path
	if _, err := w.files.root.Lstat(staged); err != nil {
		if missing(err) {
			return nil // the user does not want this file in the tree
		}
		return err
	}
	s := w.plan.states[ch.Path]
	switch {
	case s.absent():
	case s.info.IsDir():
		w.step.home.pause("remove folders")
		w.dropEmpty(ch.Path)
	default:
		if err := w.setAside(ctx, i, ch); err != nil {
			return err
		}
	}

	w.step.home.pause("put " + ch.Path)
	if ch.newMode == modeSubmodule {
		err := w.files.makeFolders(ch.Path + "/")
		if errors.Is(err, fs.ErrExist) {
			return &touched{ch.Path}
		}
		return err
	}
	err := w.files.place(staged, ch.Path)
	if errors.Is(err, fs.ErrExist) {
		return &touched{ch.Path}
	}
	return err
}

// dropEmpty removes a folder that has nothing but folders in it. Another one stays.
func (w *work) dropEmpty(name string) {
	var folders []string
	fs.WalkDir(w.files.root.FS(), name, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, name)
		}
		return nil
	})
	for i := len(folders) - 1; i >= 0; i-- {
		w.files.root.Remove(folders[i]) // fails for one that is not empty, and then the place is taken
	}
}

// racy is the time within which two writes to a file can have the same time.
const racy = 2 * time.Second

// setAside moves an old file into the folder of the step. If it is not the file that was
// compared, it goes back.
func (w *work) setAside(ctx context.Context, i int, ch Change) error {
	s := w.plan.states[ch.Path]
	if s.absent() || s.info.IsDir() {
		return nil
	}
	to := w.at(oldFiles) + "/" + number(i)
	w.step.home.pause("set aside " + ch.Path)
	if err := w.files.root.Rename(ch.Path, to); err != nil {
		if missing(err) {
			return &touched{ch.Path}
		}
		return err
	}
	info, err := w.files.root.Lstat(to)
	if err != nil {
		return err
	}

	same := s.same(info)
	if same && info.Mode().IsRegular() && w.step.At.Sub(info.ModTime()) < racy {
		id, err := output(w.files.git(ctx, w.files.tree.index(), "hash-object", "--path="+ch.Path, "--", to), "compare files", w.files.tree.Folder)
		same = err == nil && (id == s.id || id == s.raw)
	}
	if same {
		return nil
	}
	w.step.home.pause("put back " + ch.Path)
	if err := w.files.place(to, ch.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return &touched{ch.Path} // a file whose place is taken is kept where it is
}

// installIndex replaces the tree's index by the new one.
func (w *work) installIndex(ctx context.Context) error {
	index := filepath.Join(w.control, newIndex)
	refresh := w.files.git(ctx, index, "update-index", "-q", "--ignore-submodules", "--refresh")
	w.step.home.pause("refresh the new index")
	if err := finish(refresh); err != nil && exitCode(err) != 1 { // 1: files differ, as they may
		return failed(err, "write the index", w.files.tree.Folder)
	}
	if err := durable.SyncFile(index); err != nil {
		return err
	}
	w.step.home.pause("keep the new index")
	if err := linkOrCopy(ctx, index, filepath.Join(w.control, putIndex)); err != nil {
		return err
	}
	if info, err := os.Stat(w.files.tree.index()); err == nil {
		os.Chmod(index, info.Mode().Perm()) // if it fails, the mode is that of a new one
	}
	w.step.home.pause("write the index")
	return durable.Rename(index, w.files.tree.index())
}

// changedAside returns the files that were set aside and have been written since, through a
// handle that a program has kept open: they are not in git, and stay in the folder.
func (w *work) changedAside() (kept []string) {
	for i, ch := range w.step.changes {
		name := w.at(oldFiles) + "/" + number(i)
		info, err := w.files.root.Lstat(name)
		if err == nil && !w.plan.states[ch.Path].same(info) {
			kept = append(kept, w.folder(oldFiles+"/"+number(i)))
		}
	}
	return kept
}

// release removes the lock and the folders of the step, but for files that must be kept.
func (w *work) release(kept []string) error {
	w.step.home.pause("unlock")
	if readText(w.indexLock()) == w.step.lockText() {
		if err := os.Remove(w.indexLock()); err != nil {
			return err
		}
	}
	w.step.home.pause("clean up")
	err := os.Remove(filepath.Join(w.control, stagedFile)) // from here on there is nothing to undo
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = nil
	if len(kept) == 0 {
		w.step.home.pause("remove the new and old files")
		err = w.files.root.RemoveAll(w.inTree)
	}
	if filepath.Join(w.files.tree.Folder, filepath.FromSlash(w.inTree)) != w.control {
		w.step.home.pause("remove the folder")
		err = errors.Join(err, os.RemoveAll(w.control))
	}
	return err
}
