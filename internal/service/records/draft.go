package records

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/parley-agents/parley/hub"
)

// partial ends the name of a file or folder that is not complete.
const partial = ".partial"

// A draft is a file that gets its name when it is complete and on disk. Until
// then a file of that name stays as it was.
type draft struct {
	*os.File
	path string
}

// newDraft begins the file that will be called path.
func newDraft(path string) (*draft, error) {
	f, err := os.OpenFile(path+partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &draft{f, path}, nil
}

// keep gives the file its name.
func (d *draft) keep() error {
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return err
	}
	if err := os.Rename(d.Name(), d.path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(d.path))
}

// drop gives up a file that was not kept; otherwise it does nothing.
func (d *draft) drop() {
	if d.Close() == nil {
		os.Remove(d.Name())
	}
}

// writeWhole replaces a file by one with the given content.
func writeWhole(path string, content []byte) error {
	d, err := newDraft(path)
	if err != nil {
		return err
	}
	defer d.drop()
	if _, err := d.Write(content); err != nil {
		return err
	}
	return d.keep()
}

// syncFolder makes sure that the names in a folder are on disk. Windows has no
// such call and does it by itself.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// diskError reports a failure that is not the hub's own as one of the disk.
func diskError(op string, err error) error {
	var known *hub.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return hub.Errorf(hub.CodeDegraded, op, "%v", err).WithHint("look at the disk and at the permissions of the folder")
}
