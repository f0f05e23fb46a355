// Package git runs git so that a repository cannot make it run programs.
//
// A repository is a folder that others may have written, and its configuration names
// programs: hooks, a file monitor, filters, pagers, editors, helpers for credentials and
// for connections. Every command of this package runs without hooks, monitor, pager,
// editor, prompt and network. Which configuration it reads depends on where it runs:
//
//   - [In] works in a repository of the user. It is for commands that neither convert nor
//     compare content: those are the ones that run filters.
//   - [Alone] reads the configuration of the repository that the caller made, and no other.
//   - [Scratch] writes and compares content of a working tree of the user. It converts by the
//     user's own configuration, and the repository's is not read.
//
// Aliases do not matter: git does not let one replace a command that it has.
package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// settings precede the arguments of every command. They win over every configuration.
var settings = []string{
	"--no-pager",
	"-c", "core.hooksPath=" + os.DevNull,
	"-c", "core.fsmonitor=false",
	"-c", "core.commitGraph=false", // a cache that may lie
	"-c", "core.multiPackIndex=false",
	"-c", "submodule.recurse=false",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "protocol.allow=never",
}

// environment is in the environment of every command.
var environment = []string{
	"LC_ALL=C",
	"GIT_ALLOW_PROTOCOL=", // no network; wins over every configuration
	"GIT_NO_LAZY_FETCH=1",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_OPTIONAL_LOCKS=0",
	"GIT_EDITOR=false",
}

// waitDelay is the time between the end of a command and that of its output, which a
// process that it started can hold open.
const waitDelay = 5 * time.Second

// Alone returns a command that reads the configuration of the repository in dir alone,
// which the caller made. It has an environment of its own; the caller can add to it.
func Alone(ctx context.Context, program, dir string, args ...string) *exec.Cmd {
	own := []string{"-c", "core.attributesFile=" + os.DevNull, "-c", "core.excludesFile=" + os.DevNull}
	cmd := command(ctx, program, dir, append(own, args...))
	cmd.Env = append(slices.Clone(environment), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1")
	return cmd
}

// In returns a command in a folder of the user, with the user's configuration and that of
// the repository around the folder. The command must be one that converts no content.
func In(ctx context.Context, program, dir string, args ...string) *exec.Cmd {
	cmd := command(ctx, program, dir, args)
	cmd.Env = userEnvironment()
	return cmd
}

func command(ctx context.Context, program, dir string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, append(slices.Clone(settings), args...)...)
	cmd.Dir = dir
	cmd.WaitDelay = waitDelay
	return cmd
}

// kept are the variables of git that a command gets from the environment: they name the
// user's configuration, and say how the user's programs reach servers. Others, such as
// GIT_DIR, would lead git to another repository than the one that it is run for.
var kept = []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_LFS_", "GIT_SSH", "GIT_SSL_"}

// userEnvironment returns the environment of this process, with those variables of git
// alone that are the user's.
func userEnvironment() (env []string) {
	for _, v := range os.Environ() {
		mine := slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(v, prefix) })
		if !strings.HasPrefix(v, "GIT_") || mine {
			env = append(env, v)
		}
	}
	return append(env, environment...)
}

// output runs a command and returns its output without the last newline. The error has
// the first lines that git wrote about it.
func output(cmd *exec.Cmd) (string, error) {
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(errOut.String())
		return "", errors.New(cmp.Or(text[:min(len(text), 2000)], fmt.Sprint(err)))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
