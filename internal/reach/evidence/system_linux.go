package evidence

import (
	"io/fs"
	"syscall"
	"time"
)

// changed returns when a file was last changed in any way. Unlike the time of
// its content this cannot be set.
func changed(info fs.FileInfo) (time.Time, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(s.Ctim.Unix()), true
}
