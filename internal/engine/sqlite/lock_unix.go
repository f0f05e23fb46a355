//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// openLocked locks the folder and then the file in it. The lock of the folder stays when
// the file is removed; that of the file keeps versions away that know only the file.
func openLocked(path string) (*lock, error) {
	folder := flock.New(filepath.Dir(path), flock.SetFlag(os.O_RDONLY))
	if err := tryLock(folder); err != nil {
		return nil, err
	}
	file := flock.New(path, flock.SetFlag(os.O_RDWR|os.O_CREATE), flock.SetPermissions(0o600))
	if err := tryLock(file); err != nil {
		folder.Unlock()
		return nil, err
	}
	return &lock{
		write:   func(text string) error { return os.WriteFile(path, []byte(text), 0o600) },
		release: func() error { return errors.Join(file.Unlock(), folder.Unlock()) },
	}, nil
}

// tryLock takes a lock, or returns errLocked when another process has it.
func tryLock(l *flock.Flock) error {
	ok, err := l.TryLock()
	if err == nil && !ok {
		return errLocked
	}
	return err
}
