//go:build unix

package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// shells are programs that stand between a CLI and its hooks.
var shells = []string{"sh", "bash", "dash", "zsh", "fish"}

// callingProcess returns the number of the process that called this one, shells aside.
func callingProcess() int {
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
