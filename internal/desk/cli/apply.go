package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// A SavedFile is a file that Apply wrote.
type SavedFile struct {
	Path   string `json:"path"`
	Backup string `json:"backup,omitempty"` // the file with the content before; empty if there was none
}

// Apply writes the change. Each file is replaced as a whole or not at all,
// keeps its mode and stays where a link to it points; its earlier content is
// kept in the folder of backups, beside it if that is empty, under a name with the time. If one file cannot be written, the
// others are put back. It reports CodeConflict, and writes nothing, when a file
// is not any more what the change was planned for.
func (c Change) Apply(now time.Time, backups string) ([]SavedFile, error) {
	const op = "cli.Apply"
	for _, e := range c.Edits {
		held, err := readFile(op, e.Path)
		if err != nil {
			return nil, err
		}
		if (held == nil) != (e.Before == nil) || !bytes.Equal(held, e.Before) {
			return nil, hub.Errorf(hub.CodeConflict, op, "%s changed in the meantime", e.Path).
				WithHint("nothing was written; try again")
		}
	}
	var done []SavedFile
	for _, e := range c.Edits {
		w, err := e.apply(now, backups)
		if err != nil {
			err = errors.Join(err, c.restore(done))
			return nil, hub.Errorf(hub.CodeDegraded, op, "cannot write %s: %w", e.Path, err).
				WithHint("check the permissions of the file and its folder, and the free disk space")
		}
		done = append(done, w)
	}
	return done, nil
}

// restore puts the first files of a change back and removes their backups.
func (c Change) restore(done []SavedFile) (err error) {
	for i, w := range done {
		e := c.Edits[i]
		if e.Before == nil {
			err = errors.Join(err, os.Remove(e.Path))
			continue
		}
		e.After = e.Before
		restored := e.write()
		if restored == nil {
			restored = os.Remove(w.Backup)
		}
		err = errors.Join(err, restored)
	}
	return err
}

func (e Edit) apply(now time.Time, backups string) (SavedFile, error) {
	w := SavedFile{Path: e.Path}
	if e.Before != nil {
		backup, err := e.backup(now, backups)
		if err != nil {
			return SavedFile{}, err
		}
		w.Backup = backup
	}
	if err := e.write(); err != nil {
		if w.Backup != "" {
			err = errors.Join(err, os.Remove(w.Backup))
		}
		return SavedFile{}, err
	}
	return w, nil
}

// backup keeps the content of the file. Names are never used twice.
func (e Edit) backup(now time.Time, folder string) (string, error) {
	const most = 100 // backups within one second
	info, err := os.Stat(e.Path)
	if err != nil {
		return "", err
	}
	if folder == "" {
		folder = filepath.Dir(e.Path)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	base := filepath.Join(folder, filepath.Base(e.Path)) + ".parley-backup-" + now.UTC().Format("20060102T150405Z")
	for n := range most {
		name := base
		if n > 0 {
			name = fmt.Sprintf("%s-%d", base, n+1)
		}
		err := durable.CreateFile(name, e.Before, info.Mode().Perm())
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
	return "", fmt.Errorf("%d backups of this second already exist", most)
}

// write replaces the file, or removes it.
func (e Edit) write() error {
	path, mode := e.Path, e.mode
	if err := os.MkdirAll(filepath.Dir(path), e.folder); err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		info, err := os.Stat(target)
		if err != nil {
			return err
		}
		path, mode = target, info.Mode().Perm()
	}
	if e.After == nil {
		return os.Remove(path)
	}
	return durable.WriteFile(path, e.After, mode)
}
