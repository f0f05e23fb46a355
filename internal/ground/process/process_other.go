//go:build !linux

package process

import (
	"net"
	"os"
	"runtime"
	"syscall"
)

// Exists reports whether there is a process of a number, as far as the system tells.
func Exists(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && (runtime.GOOS == "windows" || p.Signal(syscall.Signal(0)) == nil)
}

func boot() string     { return "" }
func place() string    { return "" }
func ticks(int) string { return "" }

// Peer returns 0: the process at the other end of a socket is not known.
func Peer(net.Conn) int { return 0 }

// Below reports whether this process was started with one of the environment variables. The
// environment of other processes is not known.
func Below(pid int, variables ...string) bool {
	if pid != os.Getpid() {
		return false
	}
	for _, name := range variables {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}
