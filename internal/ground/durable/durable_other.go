//go:build !windows

package durable

import (
	"errors"
	"os"
)

func rename(from, to string) error { return os.Rename(from, to) }

// SyncDir writes the names in a folder to disk.
func SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
