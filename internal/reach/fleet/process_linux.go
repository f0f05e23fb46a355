package fleet

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/parley-agents/parley/hub"
)

// dieWithParent has the command killed when this process is, whatever kills it.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

// stat returns the fields of /proc/PID/stat that follow the name of the program,
// which may hold anything. They begin with the state.
func stat(pid int) []string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = string(f)
	}
	return out
}

// Places in what stat returns.
const (
	statState = 0
	statBegan = 19
)

// began returns when a process began, in ticks since the machine did, with the
// name of this boot. It is empty for one that is gone or waits for its burial.
func began(pid int) string {
	fields := stat(pid)
	if len(fields) <= statBegan || fields[statState] == "Z" || fields[statState] == "X" {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + "/" + fields[statBegan]
}

// reap kills what is left of a run: the groups whose first process is the one
// that was written down, and every process that carries the mark of the run.
func reap(run hub.RunID, groups []Process) {
	for _, g := range groups {
		if g.PID > 1 && g.Began != "" && began(g.PID) == g.Began {
			syscall.Kill(-g.PID, syscall.SIGKILL) // fails if it ends by itself right now
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	mark := []byte(RunVariable + "=" + string(run))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // of our own processes only
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
