//go:build unix

package jsonrpc

import (
	"io"
	"os"
	"syscall"
	"time"
)

// tryWriter returns a function that writes what can be written without waiting,
// and returns how much that was. It is nil if dst may wait in any case.
func tryWriter(dst io.Writer) func([]byte) int {
	var f *os.File
	switch dst := dst.(type) { // nothing that could have a Write of its own
	case *os.File:
		f = dst
	case *Process:
		f = dst.stdin
	default:
		return nil
	}
	// A file has deadlines if, and only if, writing to it never blocks a thread.
	if f.SetWriteDeadline(time.Time{}) != nil {
		return nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	return func(b []byte) (n int) {
		conn.Write(func(fd uintptr) bool {
			n, _ = syscall.Write(int(fd), b) // an error comes again when it is written for good
			return true
		})
		return max(n, 0)
	}
}
