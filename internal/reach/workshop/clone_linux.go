package workshop

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ficlone is FICLONE of ioctl_ficlone(2).
const ficlone = 0x40049409

// share makes dst a copy of src that uses the same blocks until one of them is written to. It
// reports whether the file system can do that.
func share(src, dst *os.File) bool {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dst.Fd(), ficlone, src.Fd())
	return errno == 0
}

// machineMemory returns the bytes of memory of this machine; 0 if they are not known.
func machineMemory() int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64) // 0 if it is not a number
			return kib << 10
		}
	}
	return 0
}
