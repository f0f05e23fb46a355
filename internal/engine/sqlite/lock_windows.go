package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// errSharingViolation is the error of a second opener.
const errSharingViolation = syscall.Errno(32)

// openLocked opens the file so that others may read but not open it for
// writing, which is what this function does, nor remove it.
//
// It does not use gofrs/flock: that locks the first byte of the file, which no other
// process can read then, so that a hub that is refused could not say which process has
// the folder. Nor can it lock a folder, which the share mode makes unnecessary here.
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

	file := os.NewFile(uintptr(h), path)
	replace := func(text string) error {
		_, err := file.WriteAt([]byte(text), 0)
		return errors.Join(file.Truncate(int64(len(text))), err)
	}
	return &lock{write: replace, release: file.Close}, nil
}
