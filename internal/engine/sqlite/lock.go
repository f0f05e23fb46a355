package sqlite

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A lock makes this process the only one with a hub in a folder. Closing it gives
// it back, and so does the end of the process.
type lock struct {
	write   func(text string) error // replaces the text of the file, in which the process id stands for people
	release func() error            // gives the lock back and leaves the file as it is
}

// Close gives the lock back.
func (l *lock) Close() error {
	l.write("") // the lock does not depend on it
	return l.release()
}

// errLocked is the error of openLocked when another process has the lock.
var errLocked = errors.New("locked")

// Locked reports whether a process has the hub in a folder open.
func Locked(dir string) bool {
	path := filepath.Join(dir, LockFile)
	if _, err := os.Stat(path); err != nil {
		return false
	}
	l, err := openLocked(path)
	if err == nil {
		l.release()
	}
	return err == errLocked
}

// LockHome makes this process the only one with a hub in a folder, which it makes if it
// is missing. Closing gives the folder back.
func LockHome(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, "sqlite.Open", "cannot make the hub's home: %v", err)
	}
	return lockHome(filepath.Join(dir, LockFile))
}

// lockHome takes the lock of the folder in which the file at path lies.
func lockHome(path string) (*lock, error) {
	const op = "sqlite.Open"
	l, err := openLocked(path)
	for range 10 { // Locked holds it for a moment
		if err != errLocked {
			break
		}
		time.Sleep(10 * time.Millisecond)
		l, err = openLocked(path)
	}
	if err == errLocked {
		who := "another process"
		if b, err := os.ReadFile(path); err == nil && len(b) < 32 {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				who = "process " + strconv.Itoa(pid)
			}
		}
		home := filepath.Dir(path)
		return nil, hub.Errorf(hub.CodeConflict, op, "%s already runs the hub in %s", who, home).
			WithHint("use that hub, or stop it with: parley stop; a second hub needs its own home and port: parley serve --home DIR --addr 127.0.0.1:0")
	}
	if err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, op, "cannot lock the hub's home: %v", err).
			WithHint("check the permissions of the hub's folder")
	}
	l.write(strconv.Itoa(os.Getpid()) + "\n") // the lock does not depend on it
	return l, nil
}
