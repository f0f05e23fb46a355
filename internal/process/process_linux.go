package process

import (
	"bytes"
	"os"
	"path/filepath"
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
	statState = 0
	statBegan = 19
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
