package process

import (
	"os"
	"os/exec"
	"syscall"
)

// Alive reports whether a process of a number runs.
func Alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	p.Release()
	return true
}

// detachedProcess is the flag of a process that has no console.
const detachedProcess = 0x8

// Detach makes a command, before its start, a process without a console, so that no window
// ends it.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
