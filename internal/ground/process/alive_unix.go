//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// Alive reports whether a process of a number runs, also one of another user.
func Alive(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH }

// Detach makes a command, before its start, the leader of a session of its own, so that no
// terminal ends it.
func Detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
