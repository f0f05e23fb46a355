//go:build unix

package goodclient

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a command a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a command with its children.
func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// signalOf returns the signal that ended a process.
func signalOf(state *os.ProcessState) (string, bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return "", false
	}
	return signalName(status.Signal()), true
}
