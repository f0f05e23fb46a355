package main

import (
	"os/exec"
	"syscall"
)

// detachedProcess is the flag of a process that has no console.
const detachedProcess = 0x8

// detach makes a command a process without a console, so that no window ends it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
