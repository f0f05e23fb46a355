// Package confine runs one command of a person in a process of its own, with limits, and keeps
// it away from files that are not its own.
//
// [Start] starts this program again, as a supervisor: "parley confined -- COMMAND". The
// supervisor starts a second process, which confines itself and then becomes the command. The
// supervisor stays outside: it is the parent of every process whose own parent ended, counts
// them and their memory, and ends all of them when the command has ended, when a limit is
// reached, and when the program that called Start ends, for whatever reason.
//
// The confinement is that of Landlock, so it needs Linux 6.2 or later ([Supported]). A confined
// command writes to the folders of its [Rules] alone, and reads everything but the hidden files,
// devices, and the folders above hidden files. The rest of the machine is kept apart at the best
// [Level] that the system has. At the first one, the process that the supervisor starts is the first
// of namespaces of its own: it makes the mounts, in which all other files are read-only and the
// sockets of services that act for the user are not there, and starts the process that becomes the
// command. At the others, that process confines itself alone, with mounts of its own if it can.
// [Report] says what the system did, and [Coverage] what the level does not cover.
//
// No command is kept from using the processor, from using up what the kernel counts for a whole user,
// and from finding out which files there are.
package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// ErrUnsupported is the error about a system that cannot confine a command.
var ErrUnsupported = errors.New("this system cannot confine a command")

// Rules say what a command may do.
type Rules struct {
	Unconfined bool     `json:"unconfined,omitempty"` // only Offline and the limits apply
	Write      []string `json:"write,omitempty"`      // absolute paths of folders that it may read and change
	Base       string   `json:"base,omitempty"`       // a folder above some of those, which has nothing else in it: files can be moved between them
	Temporary  string   `json:"temporary,omitempty"`  // one of Write that is /tmp as well, where the system can do it
	Read       []string `json:"read,omitempty"`       // absolute paths that it may read although a hidden folder contains them
	Hidden     []string `json:"hidden,omitempty"`     // absolute paths that it may not read; see Secrets
	Protected  []string `json:"protected,omitempty"`  // absolute paths in writable folders that it may not change, where the system can do it; see Report.Sealed
	Offline    bool     `json:"offline,omitempty"`    // without the network, where the system can do it

	Processes int   `json:"processes,omitempty"` // at a time; 0 for no limit
	Memory    int64 `json:"memory,omitempty"`    // bytes of all processes together; 0 for no limit
	Disk      int64 `json:"disk,omitempty"`      // bytes of one file, and of Base or all files of Write; 0 for no limit

	Level Level `json:"level,omitempty"` // the best level to take; 0 for the best one of the system
}

// A Command is a program to run.
type Command struct {
	Args []string // the program, found in the PATH of Env, and its arguments
	Dir  string   // the working folder
	Env  []string // the whole environment
	Rules
}

// The values of Report.Network of a command without the network.
const (
	NetworkLoopback = "loopback" // it has a network of its own, with this machine's loopback addresses alone
	NetworkNone     = "none"     // it has a network of its own, without any address
	NetworkNoTCP    = "no_tcp"   // TCP is refused, even on loopback; other protocols are not
	NetworkOpen     = "open"     // the system cannot turn the network off
)

// A Limit is the limit at which a command was ended.
type Limit string

// The limits.
const (
	LimitProcesses Limit = "processes"
	LimitMemory    Limit = "memory"
	LimitDisk      Limit = "disk"
)

// A Report tells how a command ended.
type Report struct {
	Started  bool   `json:"started"`
	Error    string `json:"error,omitempty"` // why it was not started
	ExitCode int    `json:"exit_code"`       // 128 and the number of the signal if a signal ended it
	Ended    bool   `json:"ended,omitempty"` // by Process.End
	Limit    Limit  `json:"limit,omitempty"` // it was ended because of a limit
	Left     int    `json:"left,omitempty"`  // processes that it had left behind, which were ended

	Confined bool     `json:"confined"`
	Coverage Coverage `json:"coverage,omitzero"`
	Sealed   bool     `json:"sealed,omitempty"`  // all else is mounted read-only, and sockets of services are out of reach
	Network  string   `json:"network,omitempty"` // of a command that must not use it
}

// stopTime is the time in which a supervisor ends all processes.
const stopTime = 15 * time.Second

// A Process is a command that runs.
type Process struct {
	cmd    *exec.Cmd
	hold   *os.File // the supervisor ends everything when it is closed
	report *os.File
}

// Start starts a command. program is the program whose command "confined" calls [Main]; "" for
// this program. All output of the command goes to output, which the caller closes.
func Start(program string, c Command, output *os.File) (*Process, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if !c.Unconfined {
		if err := Supported(); err != nil {
			return nil, err
		}
	}
	request, err := json.Marshal(c.Rules)
	if err != nil {
		return nil, err
	}

	// The supervisor reads the rules from its standard input, and then waits for its end. It
	// writes the report to its standard output.
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	report, out, err := os.Pipe()
	if err != nil {
		hold.Close()
		return nil, err
	}
	defer out.Close()

	p := &Process{cmd: supervisor(program, c.Args), hold: hold, report: report}
	p.cmd.Dir = c.Dir
	p.cmd.Env = c.Env
	p.cmd.Stdin = in
	p.cmd.Stdout = out
	p.cmd.Stderr = output
	err = p.cmd.Start()
	if err == nil {
		_, err = hold.Write(append(request, '\n'))
		if err != nil {
			p.Kill()
			p.cmd.Wait()
		}
	}
	if err != nil {
		hold.Close()
		report.Close()
		return nil, err
	}
	return p, nil
}

// supervisor returns the command line of the supervisor of a command.
func supervisor(program string, args []string) *exec.Cmd {
	if program == "" {
		program = Self()
	}
	cmd := &exec.Cmd{Path: program, Args: append([]string{"parley", "confined", "--"}, args...)}
	alone(cmd)
	return cmd
}

// Self returns a path of this program. On Linux it is valid even if the file was replaced.
func Self() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// check reports a command that cannot be run.
func (c Command) check() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.New("the command is empty")
	}
	for _, path := range append([]string{c.Dir}, c.Write...) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%s is not an absolute path", path)
		}
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	return nil
}

// Pid returns the number of the supervisor, which leads a session of its own.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// End makes the supervisor end all processes of the command.
func (p *Process) End() { p.hold.Close() }

// Kill kills the supervisor and its group. Processes that left the group may stay.
func (p *Process) Kill() { killGroup(p.cmd.Process) }

// Wait waits until no process of the command is left, and returns the report. If the supervisor
// ends without a report, Wait reports an error, and processes may be left.
func (p *Process) Wait() (Report, error) {
	defer p.hold.Close()
	defer p.report.Close()
	raw, err := io.ReadAll(io.LimitReader(p.report, 1<<20))
	ended := p.cmd.Wait()
	var r Report
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return Report{}, fmt.Errorf("the supervisor of the command ended without a report: %v", errors.Join(ended, err))
	}
	return r, nil
}

// StopTime is the time after End in which Wait returns, unless the system does not end processes.
const StopTime = stopTime
