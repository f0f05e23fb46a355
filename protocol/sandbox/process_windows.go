package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// system returns the path of a program that comes with Windows.
func system(program string) string {
	return filepath.Join(os.Getenv("SystemRoot"), "System32", program)
}

// group makes cmd the leader of a process group.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// shell makes cmd run line. The shell has its own rules of quoting.
func shell(cmd *exec.Cmd, line string) {
	cmd.Path = system("cmd.exe")
	group(cmd)
	cmd.SysProcAttr.CmdLine = `cmd /D /S /C "` + line + `"`
}

// interrupt does nothing: there is no signal that every process understands.
func interrupt(*os.Process) {}

// kill kills p and the processes that it started. After the end of p they can no
// longer be found.
func kill(p *os.Process) {
	tree := exec.Command(system("taskkill.exe"), "/T", "/F", "/PID", strconv.Itoa(p.Pid))
	if tree.Run() != nil {
		p.Kill()
	}
}

// exitOf returns how a process ended.
func exitOf(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }
