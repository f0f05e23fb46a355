package evidence

import (
	"context"
	"maps"
	"path"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A workTree is a working tree that was walked, with the commit that is checked out there.
type workTree struct {
	in      *Inspector
	repo    *repository
	scratch *scratch // borrows the objects of the repository
	format  int

	head      string   // the commit; empty if there is none yet
	branch    string   // the ref of the branch; "HEAD" if none is checked out
	committed fileList // of the commit
	files     fileList // of now, with submodules as their commits
}

// A fileList is the files of a tree by their names.
type fileList struct {
	entries map[string]blob
	tree    string          // the name of the tree
	folders map[string]bool // the names of the trees in it, and of the tree itself
}

func newFileList(entries map[string]blob, format int) (fileList, error) {
	l := fileList{entries: entries, folders: map[string]bool{}}
	var err error
	l.tree, err = treeOf(entries, func(kind string, content []byte) (string, error) {
		id := hashOf(format, kind, content)
		l.folders[id] = true
		return id, nil
	})
	return l, err
}

// differing returns the names whose entries in two lists are not the same.
func (l fileList) differing(other fileList) map[string]bool {
	names := map[string]bool{}
	for name, b := range l.entries {
		if other.entries[name] != b {
			names[name] = true
		}
	}
	for name := range other.entries {
		if _, ok := l.entries[name]; !ok {
			names[name] = true
		}
	}
	return names
}

// readWork walks the working tree at path. The caller closes it.
func (in *Inspector) readWork(ctx context.Context, path string) (_ *workTree, err error) {
	w := &workTree{in: in}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.repo, err = in.openRepository(path); err != nil {
		return nil, err
	}
	if err := in.mustBeRegistered(w.repo, path); err != nil {
		return nil, err
	}
	if w.scratch, err = in.newScratch(ctx, w.repo); err != nil {
		return nil, err
	}
	w.format = w.repo.format()
	return w, w.read(ctx)
}

func (w *workTree) close() {
	if w.repo != nil {
		w.repo.close()
	}
	if w.scratch != nil {
		w.scratch.close()
	}
}

// read lists the files of the commit and walks those of now.
func (w *workTree) read(ctx context.Context) error {
	head, err := w.repo.resolve("HEAD")
	w.branch = head.name

	// Before the first commit no file is tracked.
	committed, folders := map[string]blob{}, map[string]bool{".": true}
	if hub.CodeOf(err) != hub.CodeNotFound {
		if err != nil {
			return err
		}
		w.head = head.id
		if committed, folders, err = w.scratch.files(ctx, head.id); err != nil {
			return err
		}
	}

	if w.committed, err = newFileList(committed, w.format); err != nil {
		return err
	}
	walk := &walker{
		in: w.in, scratch: w.scratch, root: w.repo.tree, at: w.repo.treeAt, format: w.format,
		tracked: committed, folders: folders, tree: newTree(),
	}
	if err := walk.walk(ctx); err != nil {
		return err
	}

	files := make(map[string]blob, len(walk.tree.files))
	for name, f := range walk.tree.files {
		if f.problem != nil {
			return f.problem
		}
		files[name] = f.blob
	}
	for name, b := range committed {
		if b.mode == modeSubmodule {
			files[name] = w.submodule(walk, name, b)
		}
	}

	if w.files = w.committed; maps.Equal(files, committed) {
		return nil
	}
	w.files, err = newFileList(files, w.format)
	return err
}

// submodule returns the entry of a submodule: the commit that is checked out in it or, if
// it was not fetched, the one that the repository records.
func (w *workTree) submodule(walk *walker, name string, recorded blob) blob {
	if _, err := w.repo.tree.Lstat(path.Join(name, ".git")); err != nil {
		return recorded
	}
	if id := walk.nestedCommit(name); strings.Trim(id, "0") != "" {
		return blob{modeSubmodule, id}
	}
	return recorded
}

// state returns the state of now, under the name by which it is kept.
func (w *workTree) state(kept string) hub.WorkState {
	return hub.WorkState{Path: realPath(w.repo.treeAt), Repository: realPath(w.repo.common.Name()), Tree: w.files.tree, Commit: w.head, Kept: kept}
}

// State records the state of a working tree, so that Compare can tell later what changed:
// its files, and the commits that exist now. It is kept for the handoff of that name.
func (in *Inspector) State(ctx context.Context, path string, name hub.HandoffID) (hub.WorkState, error) {
	ctx, end, err := in.begin(ctx)
	defer end()
	if err == nil {
		in, err = in.current(ctx)
	}
	if err != nil {
		return hub.WorkState{}, err
	}
	w, err := in.readWork(ctx, path)
	if err != nil {
		return hub.WorkState{}, in.late(ctx, err)
	}
	defer w.close()
	k, err := in.openKept(w, name)
	if err != nil {
		return hub.WorkState{}, err
	}
	if err := k.keep(ctx, w, stateAccepted, w.committed); err != nil {
		return hub.WorkState{}, in.late(ctx, err)
	}
	return w.state(k.name(stateAccepted)), nil
}
