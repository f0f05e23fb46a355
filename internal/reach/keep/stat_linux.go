package keep

import (
	"io/fs"
	"syscall"
	"time"
)

// nodeOf returns the inode of a file and the time at which the inode changed.
func nodeOf(info fs.FileInfo) (inode uint64, changed time.Time) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino, time.Unix(s.Ctim.Unix())
	}
	return 0, time.Time{}
}
