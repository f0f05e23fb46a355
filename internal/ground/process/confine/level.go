package confine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// A Level says by which means a command is kept from the rest of the machine. A higher number keeps
// it from less.
type Level int

// The levels. [Start] takes the first one that the system has.
const (
	LevelNone       Level = iota // unconfined
	LevelNamespaces              // it has users, mounts, processes and objects of System V of its own
	LevelScopes                  // Landlock with scopes, of Linux 6.12, and a filter of system calls
	LevelFiles                   // Landlock without scopes, and the filter
)

// Parts of the machine of which a level does not keep a command.
const (
	notSignals    = "signals"
	notSockets    = "abstract sockets"
	notPriorities = "priorities"
	notMemory     = "shared memory"
	notModes      = "modes of files"
	notServices   = "sockets of services"
)

// A Coverage is the level of a confined command with the parts of the machine that it does not cover.
type Coverage struct {
	Level Level    `json:"level,omitempty"`
	Not   []string `json:"not,omitempty"`
}

// String returns the level in words, as in "level 2; not: priorities, shared memory".
func (c Coverage) String() string {
	text := fmt.Sprintf("level %d", c.Level)
	if c.Level == LevelNone {
		text = "not confined"
	}
	if len(c.Not) > 0 {
		text += "; not: " + strings.Join(c.Not, ", ")
	}
	return text
}

// Weaker reports whether c keeps a command from less than o does.
func (c Coverage) Weaker(o Coverage) bool {
	return o.Level != LevelNone && (c.Level == LevelNone || c.Level > o.Level)
}

// coverage returns the coverage of a level, of a command that is sealed or not. A sealed command has
// objects of System V of its own.
func coverage(level Level, sealed bool) Coverage {
	c := Coverage{Level: level}
	if level == LevelNone || level == LevelNamespaces {
		return c
	}
	if level == LevelFiles {
		c.Not = append(c.Not, notSignals, notSockets)
	}
	c.Not = append(c.Not, notPriorities)
	if !sealed {
		c.Not = append(c.Not, notMemory, notModes, notServices)
	}
	return c
}

// Probe returns the coverage of the commands that Start starts on this system. It starts one that
// does nothing. program is that of Start.
func Probe(program string) (Coverage, error) {
	if err := Supported(); err != nil {
		return Coverage{}, err
	}
	dir, err := os.MkdirTemp("", "parley-probe-")
	if err != nil {
		return Coverage{}, err
	}
	defer os.RemoveAll(dir)
	in, out, err := os.Pipe()
	if err != nil {
		return Coverage{}, err
	}
	defer in.Close()

	p, err := Start(program, Command{
		Args: []string{"sh", "-c", ":"}, Dir: dir, Env: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, Rules: Rules{Write: []string{dir}},
	}, out)
	out.Close()
	if err != nil {
		return Coverage{}, err
	}
	said, _ := io.ReadAll(io.LimitReader(in, 1000)) // for the error alone
	report, err := p.Wait()
	switch {
	case err != nil:
		return Coverage{}, err
	case report.Error != "":
		return Coverage{}, errors.New(report.Error)
	case report.ExitCode != 0:
		return Coverage{}, fmt.Errorf("the command that does nothing ended with %d: %s", report.ExitCode, said)
	}
	return report.Coverage, nil
}
