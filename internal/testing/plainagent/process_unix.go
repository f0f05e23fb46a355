//go:build unix

package plainagent

import (
	"os/exec"
	"syscall"
)

// leash makes a command end together with all that it started.
func leash(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
