//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach makes a command the leader of a session of its own, so that no terminal
// ends it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
