//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

var errLocked = errors.New("locked")

// openLocked locks the folder and then the file in it. The second lock keeps
// versions away that know only the file.
func openLocked(path string) (*lock, error) {
	folder, err := flock(os.Open(filepath.Dir(path)))
	if err != nil {
		return nil, err
	}
	file, err := flock(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))
	if err != nil {
		folder.Close()
		return nil, err
	}
	return &lock{file, folder}, nil
}

// flock locks a file that was opened, and closes it if that fails.
func flock(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	switch err {
	case nil:
		return f, nil
	case syscall.EWOULDBLOCK:
		err = errLocked
	}
	f.Close()
	return nil, err
}
