//go:build unix

package confine

import (
	"io/fs"
	"syscall"
)

// onDisk returns the bytes that a file has on disk, which of a sparse file are fewer than its size.
func onDisk(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}
