package evidence

import (
	"io/fs"
	"syscall"
	"time"
)

// changed returns when a file was last changed in any way. Unlike the time of
// its content this cannot be set.
func changed(info fs.FileInfo) time.Time {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
}
