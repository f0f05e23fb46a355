package clone

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The kinds of an [Error].
var (
	ErrNoGit        = errors.New("git is not installed")
	ErrNoRepository = errors.New("not a git repository")
	ErrUnsafe       = errors.New("the repository leads to another folder")
	ErrNoCommit     = errors.New("no such commit")
	ErrIncomplete   = errors.New("the repository lacks objects")
	ErrName         = errors.New("not a valid name")
	ErrUnrelated    = errors.New("the commits have no common history")
	ErrMoved        = errors.New("the branch is at another commit")
	ErrNotForward   = errors.New("the commit does not contain the branch")
	ErrTooLarge     = errors.New("too large")
	ErrBusy         = errors.New("the copy of the repository is being made or changed")
	ErrOldGit       = errors.New("git is too old")
	ErrFiles        = errors.New("a file could not be read or written")
	ErrGit          = errors.New("git failed")
)

// An Error is a failure of an operation on a repository. Kind is one of the errors above,
// for errors.Is; the texts are for people.
type Error struct {
	Op     string // such as "fetch"
	Folder string // of the repository, or the one in question
	Kind   error
	Detail string // what git or the system said; may be empty
	Cause  error  // the error of the system, if there is one
}

func (e *Error) Error() string {
	text := "clone: " + e.Op + " in " + e.Folder + ": " + e.Kind.Error()
	if e.Detail != "" {
		text += ": " + strings.ReplaceAll(e.Detail, "\n", "; ")
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// typed makes an error of the system an Error. Those of contexts stay as they are. It is
// deferred by exported functions.
func typed(err *error, op, folder string) {
	var known *Error
	ended := errors.Is(*err, context.Canceled) || errors.Is(*err, context.DeadlineExceeded)
	if *err == nil || ended || errors.As(*err, &known) {
		return
	}
	*err = &Error{Op: op, Folder: folder, Kind: ErrFiles, Detail: (*err).Error(), Cause: *err}
}

func fail(kind error, op, folder, detail string) error {
	return &Error{Op: op, Folder: folder, Kind: kind, Detail: detail}
}

// contained runs fn, and turns a panic into an error: in a goroutine of its own a panic would end the
// hub.
func contained(op, folder string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fail(ErrGit, op, folder, fmt.Sprintf("panic: %v", p))
		}
	}()
	return fn()
}
