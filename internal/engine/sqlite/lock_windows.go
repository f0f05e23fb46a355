package sqlite

import (
	"errors"
	"os"
	"syscall"
)

var errLocked = errors.New("locked")

// errSharingViolation is the error of a second opener.
const errSharingViolation = syscall.Errno(32)

// openLocked opens the file so that others may read but not open it for
// writing, which is what this function does, nor remove it.
func openLocked(path string) (*lock, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, syscall.FILE_SHARE_READ,
		nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err == errSharingViolation {
		return nil, errLocked
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &lock{file: os.NewFile(uintptr(h), path)}, nil
}
