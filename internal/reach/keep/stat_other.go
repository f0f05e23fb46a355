//go:build !linux

package keep

import (
	"io/fs"
	"time"
)

// nodeOf returns the inode of a file and the time at which the inode changed, where they are known.
func nodeOf(fs.FileInfo) (inode uint64, changed time.Time) { return 0, time.Time{} }
