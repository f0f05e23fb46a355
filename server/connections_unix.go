//go:build unix

package server

import "syscall"

// maxConnections returns how many connections a hub takes: as many as the process may
// open files, less those that the hub needs itself.
func maxConnections() int64 {
	const own = 64 + socketConnections
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return otherwise
	}
	files := int64(min(uint64(l.Cur), 1<<20))
	return max(files-own, files/2)
}

// otherwise is used where the number of files is not known.
const otherwise = 4096
