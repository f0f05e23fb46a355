//go:build unix

package sandbox

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// group makes cmd the leader of a process group, so that signals reach the processes
// that it starts.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// shell makes cmd run line.
func shell(cmd *exec.Cmd, line string) {
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", line}
	group(cmd)
}

// interrupt asks the group of p to end.
func interrupt(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill kills the group of p. It may be called right after p has ended: the system
// does not reuse the id so soon.
func kill(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

// exitOf returns how a process ended.
func exitOf(state *os.ProcessState) Exit {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return Exit{Code: state.ExitCode()}
	}
	name, ok := signals[status.Signal()]
	if !ok {
		name = "SIG" + strconv.Itoa(int(status.Signal()))
	}
	return Exit{Signal: name}
}

// signals names the signals that end a process.
var signals = map[syscall.Signal]string{
	syscall.SIGABRT: "SIGABRT",
	syscall.SIGALRM: "SIGALRM",
	syscall.SIGBUS:  "SIGBUS",
	syscall.SIGFPE:  "SIGFPE",
	syscall.SIGHUP:  "SIGHUP",
	syscall.SIGILL:  "SIGILL",
	syscall.SIGINT:  "SIGINT",
	syscall.SIGKILL: "SIGKILL",
	syscall.SIGPIPE: "SIGPIPE",
	syscall.SIGPROF: "SIGPROF",
	syscall.SIGQUIT: "SIGQUIT",
	syscall.SIGSEGV: "SIGSEGV",
	syscall.SIGSYS:  "SIGSYS",
	syscall.SIGTERM: "SIGTERM",
	syscall.SIGTRAP: "SIGTRAP",
	syscall.SIGUSR1: "SIGUSR1",
	syscall.SIGUSR2: "SIGUSR2",
	syscall.SIGXCPU: "SIGXCPU",
	syscall.SIGXFSZ: "SIGXFSZ",
}
