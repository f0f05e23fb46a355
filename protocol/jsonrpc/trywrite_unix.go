//go:build unix

package jsonrpc

import (
	"io"
	"os"
	"syscall"
	"time"
)

// tryWriter returns a function that writes as many bytes as go without waiting, and
// returns their number. It returns nil if dst cannot do that.
func tryWriter(dst io.Writer) func([]byte) int {
	var f *os.File
	switch dst := dst.(type) { // only types whose Write is known
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
			n, _ = syscall.Write(int(fd), b) // run meets the same error when it writes the rest
			return true
		})
		return max(n, 0)
	}
}
