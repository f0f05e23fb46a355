//go:build unix

package hubgit_test

import (
	"os/exec"
	"syscall"
)

// ownGroup lets a command lead a process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends this process and the others of its group.
func killGroup() { syscall.Kill(0, syscall.SIGKILL) }
