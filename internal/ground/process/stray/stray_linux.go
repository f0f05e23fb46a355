package stray

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// pause is the time between two looks at processes that were killed.
const pause = 2 * time.Millisecond

// killAll kills the processes that find returns until it returns none twice in a row: a
// process that forked during one look is seen in the next.
func killAll(find func() []int, kill func(pid int)) error {
	for end, calm := time.Now().Add(killTime), 0; ; {
		left := find()
		switch {
		case len(left) > 0:
			calm = 0
		case calm == 1:
			return nil
		default:
			calm++
			continue
		}
		for _, pid := range left {
			kill(pid)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d processes do not end after a kill, such as %d", len(left), left[0])
		}
		time.Sleep(pause)
	}
}

// killOne kills a process.
func killOne(pid int) { syscall.Kill(pid, syscall.SIGKILL) }

// killGroup kills a process and its group.
func killGroup(pid int) {
	if group, err := syscall.Getpgid(pid); err == nil && group > 1 && group != syscall.Getpgrp() {
		syscall.Kill(-group, syscall.SIGKILL) // fails if it ends by itself right now
	}
	killOne(pid)
}

// marked returns the processes with the mark, without this one.
func marked(mark string) []int {
	var found []int
	for _, pid := range processes() {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ")) // of our own processes only
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == mark }) {
			found = append(found, pid)
		}
	}
	return found
}

// below returns the processes below this one that have not ended, without those that are
// in except and those below them.
func below(except map[int]bool) []int {
	parents := map[int]int{}
	for _, pid := range processes() {
		if parent, alive := parentOf(pid); alive {
			parents[pid] = parent
		}
	}
	var found []int
	for pid := range parents {
		at := pid
		for steps := 0; steps < len(parents) && at != os.Getpid() && !except[at]; steps++ {
			at = parents[at] // 0 for a process that is not below
		}
		if at == os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// bury takes the exit status of the children that have ended, without those in except.
func bury(except map[int]bool) {
	for _, pid := range processes() {
		if parent, alive := parentOf(pid); parent == os.Getpid() && !alive && !except[pid] {
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// processes returns the numbers of all processes but this one.
func processes() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			all = append(all, pid)
		}
	}
	return all
}

// Places of the fields of /proc/PID/stat that follow the name of the program, which may
// hold any byte.
const (
	statState  = 0
	statParent = 1
)

// parentOf returns the parent of a process, and whether the process has not ended.
func parentOf(pid int) (parent int, alive bool) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= statParent {
		return 0, false
	}
	parent, _ = strconv.Atoi(string(fields[statParent]))
	return parent, !bytes.ContainsAny(fields[statState], "ZX")
}

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// adopt makes this process the parent of processes below it whose parent ends, or stops
// that. Every kernel since 3.4 can.
func adopt(on bool) {
	var value uintptr
	if on {
		value = 1
	}
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, value, 0)
}
