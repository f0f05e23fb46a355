package jsonrpc

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// An ExitError says how a program ended. It is io.EOF to errors.Is if the
// program ended with status zero.
type ExitError struct {
	State  *os.ProcessState
	Step   Step   // the last step of Close
	Stderr []byte // the end of its standard error
}

func (p *Process) exitError() *ExitError {
	return &ExitError{State: p.cmd.ProcessState, Step: p.step.Load().(Step), Stderr: p.Stderr()}
}

// Error returns how the program ended, and the last line of its standard error.
func (e *ExitError) Error() string {
	s := "the program ended with " + e.State.String()
	if !e.State.Exited() {
		s = "the program was ended by " + e.State.String()
	}
	if e.Step == StepSignal || e.Step == StepKill {
		s += " after ignoring the end of its input"
	}
	lines := strings.Split(strings.TrimSpace(string(e.Stderr)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		s += fmt.Sprintf("; the last line of its standard error: %q", last[:min(len(last), maxExcerpt)])
	}
	return s
}

// Is reports whether target is io.EOF and the exit status is zero.
func (e *ExitError) Is(target error) bool { return target == io.EOF && e.State.Success() }
