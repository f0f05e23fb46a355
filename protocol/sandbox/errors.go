package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// A Code is the kind of an error. Codes are a contract; the text of an error is not.
type Code string

// The codes.
const (
	CodeInvalid    Code = "invalid"           // an invalid argument: a relative path, a negative line
	CodeOutside    Code = "outside_roots"     // the path, or the target of a link, is not under a root
	CodeNotFound   Code = "not_found"         // no such file, command or terminal
	CodeDirectory  Code = "is_directory"      // a folder where a file is needed
	CodeNotRegular Code = "not_regular"       // a pipe, device, socket or broken link where a file is needed
	CodeNotText    Code = "not_text"          // the bytes are not UTF-8
	CodeTooLarge   Code = "too_large"         // more bytes than may be read, written or passed to a command
	CodePermission Code = "permission_denied" // the operating system denies access
	CodeRefused    Code = "refused"           // the policy or the person asked denies the action
	CodeLimit      Code = "limit_reached"     // the largest number of terminals is reached
	CodeClosed     Code = "closed"            // after Close
	CodeFailed     Code = "failed"            // anything else; see the cause
)

// An Error is a failure with a code.
type Error struct {
	Code Code
	Err  error // the attempt, the reason and an advice
}

// Error returns the text of the cause, or the code without one.
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

// brief returns s for an error text: quoted, and at most 200 characters of it.
func brief(s string) string { return fmt.Sprintf("%.200q", s) }

// systemCodes holds the codes of the operating system's errors. The first match
// counts.
var systemCodes = []struct {
	is   error
	code Code
}{
	{fs.ErrNotExist, CodeNotFound},
	{syscall.ENOTDIR, CodeNotFound}, // a component of the path is a file
	{fs.ErrExist, CodeNotFound},     // the same, while folders are made
	{fs.ErrPermission, CodePermission},
	{fs.ErrClosed, CodeClosed},
	{syscall.ELOOP, CodeInvalid},
	{syscall.ENAMETOOLONG, CodeInvalid},
	{syscall.EINVAL, CodeInvalid},
	{syscall.E2BIG, CodeTooLarge},
}

// systemError returns the Error for an error of the operating system.
func systemError(verb, path string, err error) *Error {
	for _, s := range systemCodes {
		if errors.Is(err, s.is) {
			return errorf(s.code, "%s %s: %w", verb, path, err)
		}
	}
	return errorf(CodeFailed, "%s %s: %w", verb, path, err)
}
