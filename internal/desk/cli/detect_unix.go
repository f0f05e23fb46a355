//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cmd, when it is cancelled, end the processes that it started: many
// CLIs are a script around the real program.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
