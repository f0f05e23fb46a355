package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Written is a file that Apply changed.
type Written struct {
	Path   string `json:"path"`
	Backup string `json:"backup,omitempty"` // what it held before; empty if there was no such file
}

// Apply writes the change. Each file is replaced as a whole or not at all,
// keeps its mode and stays where a link to it points; what it held before is
// kept beside it under a name with the time. If one file cannot be written, the
// others are put back. It reports CodeConflict, and writes nothing, when a file
// is not any more what the change was planned for.
func (c Change) Apply(now time.Time) ([]Written, error) {
	const op = "catalog.Apply"
	for _, e := range c.Edits {
		held, err := readFile(op, e.Path)
		if err != nil {
			return nil, err
		}
		if (held == nil) != (e.Before == nil) || !bytes.Equal(held, e.Before) {
			return nil, hub.Errorf(hub.CodeConflict, op, "%s was changed meanwhile", e.Path).
				WithHint("nothing was written; try again")
		}
	}
	var done []Written
	for _, e := range c.Edits {
		w, err := e.apply(now)
		if err != nil {
			err = errors.Join(err, c.restore(done))
			return nil, hub.Errorf(hub.CodeDegraded, op, "%s cannot be written: %w", e.Path, err).
				WithHint("look at the rights of that file and its folder, and whether the disk is full")
		}
		done = append(done, w)
	}
	return done, nil
}

// restore puts the first files of a change back and removes their backups.
func (c Change) restore(done []Written) (err error) {
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

func (e Edit) apply(now time.Time) (Written, error) {
	w := Written{Path: e.Path}
	if e.Before != nil {
		backup, err := e.backup(now)
		if err != nil {
			return Written{}, err
		}
		w.Backup = backup
	}
	if err := e.write(); err != nil {
		if w.Backup != "" {
			err = errors.Join(err, os.Remove(w.Backup))
		}
		return Written{}, err
	}
	return w, nil
}

// backup keeps what the file holds beside it. Names are never used twice.
func (e Edit) backup(now time.Time) (string, error) {
	const most = 100 // backups within one second
	info, err := os.Stat(e.Path)
	if err != nil {
		return "", err
	}
	base := e.Path + ".parley-backup-" + now.UTC().Format("20060102T150405Z")
	for n := range most {
		name := base
		if n > 0 {
			name = fmt.Sprintf("%s-%d", base, n+1)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if err := fill(f, e.Before, info.Mode().Perm()); err != nil {
			return "", errors.Join(err, os.Remove(name))
		}
		return name, nil
	}
	return "", fmt.Errorf("there are %d backups of this second already", most)
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
	f, err := os.CreateTemp(filepath.Dir(path), ".parley-*")
	if err != nil {
		return err
	}
	err = fill(f, e.After, mode)
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// fill writes and closes a new file.
func fill(f *os.File, text []byte, mode fs.FileMode) error {
	_, err := f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
