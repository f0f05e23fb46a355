package keeper

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
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
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
