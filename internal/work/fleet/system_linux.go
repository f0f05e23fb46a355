package fleet

import (
	"os/exec"
	"syscall"
)

// DieWithParent has the command killed when this process ends in any way.
func DieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
