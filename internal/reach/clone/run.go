package clone

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"

	"github.com/parley-agents/parley/internal/ground/git"
)

// program is the name under which git is found.
const program = "git"

// maxDetail bounds the bytes of git's own text in an error.
const maxDetail = 2000

// An exit is the failure of a command of git, with its exit code and its text.
type exit struct {
	code int
	text string
}

func (e *exit) Error() string { return e.text }

// alone returns a command that works in the copy, with the configuration of the copy only.
func (c *Copy) alone(ctx context.Context, args ...string) *exec.Cmd {
	cmd := git.Alone(ctx, program, c.bare, args...)
	cmd.Env = append(cmd.Env, "GIT_DIR="+c.bare)
	return cmd
}

// run runs a command in the copy and returns its output without the last newline.
func (c *Copy) run(ctx context.Context, args ...string) (string, error) {
	return output(c.alone(ctx, args...), args[0], c.bare)
}

// user returns a command in the user's repository. It must be one that converts and compares
// no content. Objects count as they are: replacements are ignored.
func (s source) user(ctx context.Context, args ...string) *exec.Cmd {
	cmd := git.In(ctx, program, s.folder, args...)
	cmd.Env = append(cmd.Env, "GIT_NO_REPLACE_OBJECTS=1")
	return cmd
}

// shared returns the source for commands that are about the whole repository. They work after
// the working tree was removed.
func (s source) shared() source {
	s.folder = s.common
	return s
}

// run runs a command in the user's repository.
func (s source) run(ctx context.Context, args ...string) (string, error) {
	return output(s.user(ctx, args...), args[0], s.folder)
}

// output runs a command and returns its output without the last newline.
func output(cmd *exec.Cmd, op, folder string) (string, error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := finish(cmd); err != nil {
		return "", failed(err, op, folder)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// finish runs a command. A failure of git is an *exit with its text.
func finish(cmd *exec.Cmd) error {
	var errOut bytes.Buffer
	cmd.Stderr = &limited{to: &errOut, left: maxDetail}
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return &exit{code: ended.ExitCode(), text: strings.TrimSpace(errOut.String())}
	}
	return err
}

// failed turns the failure of a command into an Error.
func failed(err error, op, folder string) error {
	kind := ErrGit
	if errors.Is(err, exec.ErrNotFound) {
		kind = ErrNoGit
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fail(kind, op, folder, err.Error())
}

// exitCode returns the exit code of git in an error of finish, and -1 for other errors.
func exitCode(err error) int {
	var e *exit
	if errors.As(err, &e) {
		return e.code
	}
	return -1
}

// limited writes the first bytes and drops the others.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.to.Write(p[:n])
	l.left -= n
	return len(p), nil
}
