package process

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// Exists reports whether there is a process of a number.
func Exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

// boot returns the id of this boot.
var boot = sync.OnceValue(func() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(raw))
})

// place names the boot and the namespace of process numbers: a container has numbers of
// its own.
var place = sync.OnceValue(func() string {
	numbers, err := os.Readlink("/proc/self/ns/pid")
	if err != nil || boot() == "" {
		return ""
	}
	return boot() + "/" + numbers
})

// Places of the fields of /proc/PID/stat that follow the name of the program,
// which may hold any byte.
const (
	statState  = 0
	statParent = 1
	statBegan  = 19
)

// ticks returns the ticks between the boot and the start of a process; "" for a process
// that has ended.
func ticks(pid int) string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= statBegan || bytes.ContainsAny(fields[statState], "ZX") {
		return ""
	}
	return string(fields[statBegan])
}

// Peer returns the number of the process at the other end of a socket of this machine, 0 if it is
// not known.
func Peer(conn net.Conn) int {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	raw.Control(func(fd uintptr) { // an error leaves the number 0
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// Below reports whether a process, or one above it, was started with one of the environment
// variables.
func Below(pid int, variables ...string) bool {
	for steps := 0; pid > 1 && steps < 1000; steps++ {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		env, _ := os.ReadFile(filepath.Join(dir, "environ")) // of processes of this user
		for _, entry := range bytes.Split(env, []byte{0}) {
			name, _, _ := bytes.Cut(entry, []byte("="))
			if slices.Contains(variables, string(name)) {
				return true
			}
		}

		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			return false
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) <= statParent {
			return false
		}
		pid, _ = strconv.Atoi(string(fields[statParent]))
	}
	return false
}
