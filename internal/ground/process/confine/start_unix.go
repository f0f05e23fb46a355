//go:build unix && !linux

package confine

import (
	"os"
	"os/exec"
	"syscall"
)

// alone makes cmd, before its start, the leader of a session without a terminal.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// group makes cmd, before its start, the leader of a process group.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a process and its group.
func killGroup(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL) // fails if it has ended
	p.Kill()
}

// endGroups kills the groups that processes lead.
func endGroups(pids []int) {
	for _, pid := range pids {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// exitCode returns the exit code of a process.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
