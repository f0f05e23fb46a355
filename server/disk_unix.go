//go:build unix

package server

import (
	"os"
	"path/filepath"
	"syscall"
)

// diskUse returns the bytes of the database in a home, and those that are free on its
// disk.
func diskUse(home string) (used, free int64) {
	var disk syscall.Statfs_t
	if free = -1; syscall.Statfs(home, &disk) == nil {
		free = int64(disk.Bavail) * int64(disk.Bsize)
	}
	return databaseBytes(home), free
}

// The write-ahead log counts: between checkpoints it can be larger than the
// database.
func databaseBytes(home string) (used int64) {
	for _, name := range []string{"hub.db", "hub.db-wal"} {
		if info, err := os.Stat(filepath.Join(home, name)); err == nil {
			used += info.Size()
		}
	}
	return used
}
