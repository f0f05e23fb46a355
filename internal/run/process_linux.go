package run

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/fleet"
)

func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

// Places of the fields of /proc/PID/stat that follow the name of the program,
// which may hold any byte.
const (
	statState = 0
	statBegan = 19
)

// began returns the instant that a process began: the id of this boot and the
// ticks since. It is empty for a process that has ended.
func began(pid int) string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= statBegan || bytes.ContainsAny(fields[statState], "ZX") {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + "/" + string(fields[statBegan])
}

// KillLeft kills the remaining processes of a run: every process with the run's id in
// its environment, and the process group that it is in, unless that is the group of this
// process. Every process of a run gets the id; one that clears its environment dies with
// its group.
func KillLeft(run hub.RunID) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	mark := []byte(fleet.RunVariable + "=" + string(run))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // of our own processes only
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			continue
		}
		if group, err := syscall.Getpgid(pid); err == nil && group > 1 && group != syscall.Getpgrp() {
			syscall.Kill(-group, syscall.SIGKILL) // fails if it ends by itself right now
		}
		syscall.Kill(pid, syscall.SIGKILL)
	}
}
