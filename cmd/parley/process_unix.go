//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// processAlive reports whether a process runs.
func processAlive(pid int) bool {
	return pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH
}

// shells are programs that stand between a CLI and its hooks.
var shells = []string{"sh", "bash", "dash", "zsh", "fish"}

// cliProcess returns the number of the process that called this one, shells aside.
func cliProcess() int {
	pid := os.Getppid()
	for pid > 1 {
		out, err := exec.Command("ps", "-o", "ppid=,comm=", "-p", strconv.Itoa(pid)).Output()
		fields := strings.Fields(string(out))
		if err != nil || len(fields) < 2 || !slices.Contains(shells, strings.TrimPrefix(filepath.Base(fields[1]), "-")) {
			break
		}
		above, err := strconv.Atoi(fields[0])
		if err != nil || above <= 1 {
			break
		}
		pid = above
	}
	return pid
}
