package sqlite

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// lockHome takes the lock that makes this process the only one with a hub in
// dir. Closing the file gives it back, and so does the end of the process.
func lockHome(path string) (*os.File, error) {
	const op = "sqlite.Open"
	f, err := openLocked(path)
	if err == errLocked {
		who := "another process"
		if b, err := os.ReadFile(path); err == nil && len(b) < 32 {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				who = "process " + strconv.Itoa(pid)
			}
		}
		return nil, hub.Errorf(hub.CodeConflict, op, "%s has this hub open", who).
			WithHint("stop it, or use another home")
	}
	if err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, op, "cannot lock the hub's home: %v", err).
			WithHint("look at the permissions of the hub's folder")
	}
	// The process id in the file is for people; the lock does not depend on it.
	if err := f.Truncate(0); err == nil {
		io.WriteString(f, strconv.Itoa(os.Getpid())+"\n")
	}
	return f, nil
}
