//go:build !linux

package fleet

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/parley-agents/parley/hub"
)

// dieWithParent does nothing here: an agent whose input ends is expected to end.
func dieWithParent(*exec.Cmd) {}

// exists reports whether there is a process of that number, as far as the system
// tells.
func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && (runtime.GOOS == "windows" || p.Signal(syscall.Signal(0)) == nil)
}

// began is not known here.
func began(int) string { return "" }

// reap does nothing here: without the time that a process began, nobody can tell
// it from another one with its number.
func reap(hub.RunID, []Process) {}
