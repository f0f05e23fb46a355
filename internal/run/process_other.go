//go:build !linux

package run

import (
	"os"
	"runtime"
	"syscall"

	"github.com/parley-agents/parley/hub"
)

// exists reports whether there is a process of that number, as far as the system
// tells.
func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && (runtime.GOOS == "windows" || p.Signal(syscall.Signal(0)) == nil)
}

// began is not known here.
func began(int) string { return "" }

// KillLeft does nothing here: the environment of another process cannot be read.
func KillLeft(hub.RunID) {}
