//go:build unix

package evidence

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// openFlags keep an open from waiting and from taking over a terminal.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// foreign reports whether another user owns the file.
func foreign(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) != os.Geteuid()
}

// leash puts a command into a process group of its own, which is killed as a
// whole.
func leash(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
