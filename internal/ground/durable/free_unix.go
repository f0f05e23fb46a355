//go:build linux || darwin

package durable

import "syscall"

// Free returns the space that is left for files in a folder, and whether it is
// known.
func Free(dir string) (bytes uint64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return uint64(s.Bavail) * uint64(s.Bsize), true
}
