// Package durable writes files that survive a crash of the process or of the
// machine. A file that is replaced has its old content or its new content, never
// a part of one, and once a function returns nil the new content and its name
// are on disk.
//
// The order is always the same: write a draft beside the file, sync the draft,
// rename it, sync the folder. Without the last step a power failure may undo
// the rename. Windows has no call to sync a folder; there the rename itself is
// written through.
package durable

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// draftSuffix ends the name of a draft. A crash may leave one behind; it is
// safe to delete while no process writes.
const draftSuffix = ".partial"

// A Draft is a file under construction. Its name becomes path on Commit; until
// then an existing file at path stays unchanged.
type Draft struct {
	*os.File
	path string
	done bool // committed or discarded
}

// NewDraft creates a draft of the file at path, in the same folder.
func NewDraft(path string, perm fs.FileMode) (*Draft, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+draftSuffix)
	if err != nil {
		return nil, err
	}
	d := &Draft{File: f, path: path}
	if err := f.Chmod(perm); err != nil {
		d.Discard()
		return nil, err
	}
	return d, nil
}

// Commit syncs the draft and replaces the file at its path by it.
func (d *Draft) Commit() error { return d.CommitAs(d.path) }

// CommitAs is Commit for a file whose name was not known before it was written.
func (d *Draft) CommitAs(path string) error {
	if err := d.finish(); err != nil {
		return err
	}
	if err := Rename(d.Name(), path); err != nil {
		return err
	}
	d.done = true
	return nil
}

// CommitNew is Commit for a file that must not exist yet. It reports
// fs.ErrExist, and leaves the existing file unchanged, if there is one.
func (d *Draft) CommitNew() error {
	if err := d.finish(); err != nil {
		return err
	}
	switch err := os.Link(d.Name(), d.path); {
	case errors.Is(err, fs.ErrExist):
		return err
	case err != nil: // the file system has no hard links
		if _, err := os.Lstat(d.path); err == nil {
			return &fs.PathError{Op: "create", Path: d.path, Err: fs.ErrExist}
		}
		return d.Commit()
	}
	return SyncDir(filepath.Dir(d.path))
}

// finish syncs and closes the draft. Closing twice is harmless.
func (d *Draft) finish() error {
	err := d.Sync()
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return errors.Join(err, d.Close())
}

// Discard closes and deletes the draft. After Commit it does nothing, so that
// it can be deferred.
func (d *Draft) Discard() {
	if d.done {
		return
	}
	d.done = true
	d.Close()
	os.Remove(d.Name())
}

// WriteFile replaces the file at path by one with the given content and mode.
func WriteFile(path string, content []byte, perm fs.FileMode) error {
	return write(path, content, perm, (*Draft).Commit)
}

// CreateFile is WriteFile for a file that must not exist yet: it reports
// fs.ErrExist if it does.
func CreateFile(path string, content []byte, perm fs.FileMode) error {
	return write(path, content, perm, (*Draft).CommitNew)
}

func write(path string, content []byte, perm fs.FileMode, commit func(*Draft) error) error {
	d, err := NewDraft(path, perm)
	if err != nil {
		return err
	}
	defer d.Discard()
	if _, err := d.Write(content); err != nil {
		return err
	}
	return commit(d)
}

// Rename moves a file or folder whose content is on disk already, replaces a
// file at the new path, and syncs the folders of both paths.
func Rename(from, to string) error {
	if err := rename(from, to); err != nil {
		return err
	}
	into, outOf := filepath.Dir(filepath.Clean(to)), filepath.Dir(filepath.Clean(from))
	if err := SyncDir(into); err != nil || outOf == into {
		return err
	}
	return SyncDir(outOf)
}

// Copy copies a file to a new one that only its owner can read, and syncs it. It
// stops, and leaves a part of the copy, when ctx ends. The folder is not synced.
func Copy(ctx context.Context, from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	const part = 16 << 20 // bytes; between two files the kernel copies them
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(dst, src, part)
		}
	}
	if err == io.EOF {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// SyncFile writes the content of a closed file to disk.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
