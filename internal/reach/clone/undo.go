package clone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/internal/ground/durable"
)

// undo brings a tree back to its state before the step, from any point of it: files that the
// step moved aside return, files that it put go. A file that a person has written since stays.
// An old file whose place is taken stays in the folder of the step. It can be killed and called
// again.
func (w *work) undo(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join(w.control, stagedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no file has been moved
	}
	if err != nil {
		return err
	}
	var numbers []int
	if err := json.Unmarshal(raw, &numbers); err != nil {
		return err
	}

	if err := w.undoIndex(); err != nil {
		return err
	}
	var paths []string
	for _, ch := range w.step.changes {
		paths = append(paths, ch.Path)
	}
	states, err := w.files.look(ctx, paths)
	if err != nil {
		return err
	}

	// New files go first: one can be where a folder of an old one was.
	for _, i := range numbers {
		ch := w.step.changes[i]
		if err := w.takeBack(i, ch, states[ch.Path]); err != nil {
			return err
		}
	}
	for i, ch := range w.step.changes {
		aside := w.at(oldFiles) + "/" + number(i)
		if _, err := w.files.root.Lstat(aside); err != nil {
			continue
		}
		w.step.home.pause("restore " + ch.Path)
		if err := w.files.place(aside, ch.Path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// releaseAll is release for a step that was undone, or that another process has done. An old
// file that is still in the folder of the step goes if its content is in the repository, and
// stays otherwise.
func (w *work) releaseAll(ctx context.Context) error {
	var kept []string
	for i, ch := range w.step.changes {
		name := w.at(oldFiles) + "/" + number(i)
		info, err := w.files.root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		id, err := output(w.files.git(ctx, w.files.tree.index(), "hash-object", "--path="+ch.Path, "--", name), "compare files", w.files.tree.Folder)
		if err != nil || id != ch.oldID {
			kept = append(kept, w.folder(oldFiles+"/"+number(i)))
		}
	}
	w.step.kept = append(w.step.kept, kept...)
	return w.release(kept)
}

// takeBack removes a file that the step put. It is the step's if it has the new content, and its
// place in the folder of the step is empty or has the same file: a person may have written to that
// file since.
func (w *work) takeBack(i int, ch Change, s state) error {
	if ch.newMode == modeNone || s.absent() {
		return nil
	}
	if ch.newMode == modeSubmodule {
		if ch.oldMode != modeSubmodule && s.info.IsDir() {
			w.files.root.Remove(ch.Path) // fails if the submodule is there
		}
		return nil
	}
	staged, err := w.files.root.Lstat(w.at(newFiles) + "/" + ch.Path)
	ours := w.files.is(s, ch.newMode, ch.newID)
	if err == nil && !isLink(staged.Mode()) {
		ours = ours && os.SameFile(staged, s.info)
	}
	if !ours {
		return nil
	}

	to := w.at(undoneFiles) + "/" + number(i)
	w.step.home.pause("take back " + ch.Path)
	if err := w.files.root.Rename(ch.Path, to); err != nil {
		return err
	}
	info, err := w.files.root.Lstat(to)
	if err != nil {
		return err
	}
	if !s.same(info) {
		return w.files.place(to, ch.Path)
	}
	w.files.dropFolders(ch.Path)
	return nil
}

// undoIndex restores the index if it is the one of the step.
func (w *work) undoIndex() error {
	put, err := os.ReadFile(filepath.Join(w.control, putIndex))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := os.ReadFile(w.files.tree.index())
	if err != nil || !bytes.Equal(put, now) {
		return nil // somebody has written it since, or it was not replaced
	}
	w.step.home.pause("restore the index")
	old := filepath.Join(w.control, oldIndex)
	if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return os.Remove(w.files.tree.index())
	}
	return durable.Rename(old, w.files.tree.index())
}
