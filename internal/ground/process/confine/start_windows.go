package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// alone makes cmd, before its start, the leader of a process group.
func alone(cmd *exec.Cmd) { group(cmd) }

// group makes cmd, before its start, the leader of a process group.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills a process and the processes below it.
func killGroup(p *os.Process) { endGroups([]int{p.Pid}) }

// endGroups kills processes and the processes below them.
func endGroups(pids []int) {
	for _, pid := range pids {
		exec.Command(filepath.Join(os.Getenv("SystemRoot"), "System32", "taskkill.exe"), "/T", "/F", "/PID", strconv.Itoa(pid)).Run()
	}
}

// exitCode returns the exit code of a process.
func exitCode(state *os.ProcessState) int { return state.ExitCode() }
