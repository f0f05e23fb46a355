package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// logName is the log of a detached hub, in its home.
const logName = "hub.log"

// detachHub starts a hub in a home as a process that outlives this command and its
// terminal, and returns when the hub answers. Its log goes into the home. flags are
// flags of serve. It reports CodeConflict if another hub runs in the home.
func (a *app) detachHub(ctx context.Context, home string, flags ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}

	// The hub reports on a pipe that it answers; its log goes into a file.
	output, input, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()

	cmd := exec.Command(self, append([]string{"serve", "--home", home, "--log-file", filepath.Join(home, logName)}, flags...)...)
	cmd.Env = fleet.Environment("") // the hub has no caller, and does not end with a run in which this command was called
	cmd.Stderr = input
	process.Detach(cmd)
	err = cmd.Start()
	input.Close() // the hub has its own copy
	if err != nil {
		return err
	}

	lines, err := await(ctx, func() (lines []string, err error) {
		for in := bufio.NewScanner(output); in.Scan(); {
			lines = append(lines, in.Text())
			if strings.HasPrefix(in.Text(), headLine) {
				return lines, cmd.Process.Release()
			}
		}
		cmd.Wait() // lines say why it ended
		code := hub.CodeDegraded
		if cmd.ProcessState.ExitCode() == exitMissing {
			code = hub.CodeConflict // another hub has the home
		}
		return lines, hub.Errorf(code, "parley", "the hub did not start: %s", strings.Join(lines, "; "))
	})
	if err != nil {
		return err
	}

	fmt.Fprintf(a.err, "started a hub: %s (log: %s)\n  stop it with: %s stop\n", lines[0], filepath.Join(home, logName), a.typed(home))
	return nil
}

// typed returns the beginning of a command line with which a person calls this
// program for a home: its name if the PATH finds it, else its path, and the home
// unless it is the one that commands use by default.
func (a *app) typed(home string) string {
	self, err := os.Executable()
	if err != nil {
		self = "parley"
	}
	name := shell.Word(self)
	if found, err := exec.LookPath("parley"); err == nil && sameFile(found, self) {
		name = "parley"
	}
	without := app{}
	if usual, err := without.homeDir(); err == nil && usual == home {
		return name
	}
	return name + " --home " + shell.Word(home)
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// maxLog is the size of a log file; as much again is kept of the log before it.
const maxLog = 4 << 20

// A logFile is a log that does not grow without bound: a full file takes the place
// of the one with the suffix .1, and a new one begins. Its caller writes one line
// at a time.
type logFile struct {
	path string
	file *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open()
}

func (l *logFile) open() (err error) {
	if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return hub.Errorf(hub.CodeInvalid, "parley", "cannot open the log: %v", err).WithHint("choose another file with --log-file")
	}
	info, err := l.file.Stat()
	if err == nil {
		l.size = info.Size()
	}
	return err
}

// Write appends a line.
func (l *logFile) Write(line []byte) (int, error) {
	if l.size > 0 && l.size+int64(len(line)) > maxLog {
		l.file.Close()
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return 0, err
		}
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}
