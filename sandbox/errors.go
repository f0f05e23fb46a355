package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// A Code says what kind of failure an error is. Codes are a contract; the text
// of an error is not.
type Code string

// The codes.
const (
	CodeInvalid    Code = "invalid"           // the request makes no sense: a relative path, a negative line
	CodeOutside    Code = "outside_roots"     // the path is not, or does not lead, under a root
	CodeNotFound   Code = "not_found"         // no such file, command or terminal
	CodeDirectory  Code = "is_directory"      // a folder where a file is needed
	CodeNotRegular Code = "not_regular"       // a pipe, device, socket or broken link where a file is needed
	CodeNotText    Code = "not_text"          // the bytes are not UTF-8
	CodeTooLarge   Code = "too_large"         // more bytes than may be read, written or passed to a command
	CodePermission Code = "permission_denied" // the operating system does not let us
	CodeRefused    Code = "refused"           // the policy, or who was asked, does not let the agent
	CodeLimit      Code = "limit_reached"     // as many terminals as there may be
	CodeClosed     Code = "closed"            // after Close
	CodeFailed     Code = "failed"            // anything else; see the cause
)

// An Error is a failure with a code.
type Error struct {
	Code Code
	Err  error // what was attempted, what went wrong and what to do, for people
}

// Error returns the text for people.
func (e *Error) Error() string {
	if e.Err == nil {
		return string(e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, CodeFailed for
// any other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeFailed
}

// errorf returns an Error whose text is formatted as by fmt.Errorf.
func errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf("sandbox: "+format, args...)}
}

// brief returns s as it is shown in a message: quoted, and not longer than a
// line or two, however long the agent made it.
func brief(s string) string { return fmt.Sprintf("%.200q", s) }

// systemCodes tells what the system's errors mean here. The first that fits
// decides.
var systemCodes = []struct {
	is   error
	code Code
}{
	{fs.ErrNotExist, CodeNotFound},
	{syscall.ENOTDIR, CodeNotFound}, // a file stands where a folder would have to
	{fs.ErrExist, CodeNotFound},     // the same, when the folder was to be made
	{fs.ErrPermission, CodePermission},
	{fs.ErrClosed, CodeClosed},
	{syscall.ELOOP, CodeInvalid},
	{syscall.ENAMETOOLONG, CodeInvalid},
	{syscall.EINVAL, CodeInvalid},
	{syscall.E2BIG, CodeTooLarge},
}

// systemError returns the error for what the system said when verb was tried
// on path.
func systemError(verb, path string, err error) *Error {
	for _, s := range systemCodes {
		if errors.Is(err, s.is) {
			return errorf(s.code, "%s %s: %w", verb, path, err)
		}
	}
	return errorf(CodeFailed, "%s %s: %w", verb, path, err)
}
