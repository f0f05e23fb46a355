//go:build !linux

package confine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Supported returns an error that wraps ErrUnsupported.
func Supported() error {
	return fmt.Errorf("%w: it needs Landlock of Linux 6.2 or later, and this is %s", ErrUnsupported, runtime.GOOS)
}

// start starts the command, which nothing confines here.
func start(args []string, rules Rules) (child, error) {
	if !rules.Unconfined {
		return child{}, Supported()
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout = os.Stderr
	cmd.Stderr = os.Stderr
	group(cmd)
	if err := cmd.Start(); err != nil {
		return child{}, err
	}

	c := child{pid: cmd.Process.Pid, ended: make(chan int, 1)}
	if rules.Offline {
		c.network = NetworkOpen
	}
	go func() {
		cmd.Wait() // the state says how it ended
		c.ended <- exitCode(cmd.ProcessState)
	}()
	return c, nil
}

// become is not used here: the supervisor starts the command itself.
func become([]string) int { return 2 }

// memory is not known here.
func memory(int) int64 { return 0 }
