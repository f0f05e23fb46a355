package cli

import (
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A NotInstalledError says that a CLI was not found on this machine.
type NotInstalledError struct {
	CLI      string
	Binaries []string // the missing programs
}

// Error returns the text for people.
func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("%s is not installed: %s is not on the PATH", e.CLI, strings.Join(e.Binaries, " or "))
}

// A MalformedError says that a file is not written as its format asks, or that
// it holds something which cannot be edited without a guess. It never quotes
// the file: there may be keys in it.
type MalformedError struct {
	Path         string
	Line, Column int // of the place, from 1
	Problem      string
}

// Error returns the text for people.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Path, e.Line, e.Column, e.Problem)
}

// A flaw is a problem of a document, and its byte offset.
type flaw struct {
	offset  int
	problem string
}

func (f *flaw) Error() string { return f.problem }

// malformed names the file and the line of a flaw.
func malformed(op, path string, doc []byte, f *flaw) error {
	line, column := 1, 1
	for i, r := range string(doc[:min(f.offset, len(doc))]) {
		switch {
		case r == '\n':
			line, column = line+1, 1
		case i == 0 && r == '\ufeff':
		default:
			column++
		}
	}
	e := &hub.Error{Code: hub.CodeInvalid, Op: op, Err: &MalformedError{Path: path, Line: line, Column: column, Problem: f.problem}}
	return e.WithHint("nothing was written; fix that line and try again")
}
