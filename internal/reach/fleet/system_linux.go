package fleet

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the command killed when this process ends in any way.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
