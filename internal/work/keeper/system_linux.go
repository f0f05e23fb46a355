package keeper

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gofrs/flock"
)

// Places of the fields of /proc/PID/stat that follow the name of the program.
const (
	statGroup    = 2
	statResident = 21
)

// resident returns the MiB that the processes of a group have.
func resident(group int) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	pages := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
		if len(fields) > statResident && string(fields[statGroup]) == strconv.Itoa(group) {
			n, _ := strconv.Atoi(string(fields[statResident]))
			pages += n
		}
	}
	return pages * os.Getpagesize() >> 20
}

// lockFolder keeps other keepers on this machine from a folder until unlock is called.
func lockFolder(dir string) (unlock func(), err error) {
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY)) // a folder can be opened for reading alone
	ok, err := lock.TryLock()
	if err == nil && !ok {
		err = errors.New("another keeper has the folder")
	}
	return func() { lock.Unlock() }, err
}
