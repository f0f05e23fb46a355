package sandbox

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Command is a command line for a terminal.
type Command struct {
	// Name is a program. It is found in the PATH of the command or, if it has a
	// slash, relative to Dir. Without Args it may also be a line for the shell.
	Name string
	Args []string

	Env         map[string]string // added to TerminalOptions.Env
	Dir         string            // the working folder, absolute and under a root; empty for the first root
	OutputLimit *int              // bytes of output kept; nil for TerminalOptions.MaxOutput
}

// shellSyntax holds the characters that make a name a line for the shell.
const shellSyntax = " \t\r\n|&;<>()$`\\\"'*?[]#~=%{}!"

// Limits of the name, arguments and variables of a command, in bytes. Operating
// systems allow little more.
const (
	maxArgument = 128<<10 - 1 // of each
	maxCommand  = 1 << 20     // of all together
)

// check reports an invalid command.
func (c Command) check() error {
	if strings.TrimSpace(c.Name) == "" {
		return errorf(CodeInvalid, "run: the command is empty")
	}
	if c.OutputLimit != nil && *c.OutputLimit < 0 {
		return errorf(CodeInvalid, "run %s: the output limit %d is negative", brief(c.Name), *c.OutputLimit)
	}
	for name := range c.Env {
		if name == "" || strings.Contains(name, "=") {
			return errorf(CodeInvalid, "run %s: %s is not a valid variable name", brief(c.Name), brief(name))
		}
	}
	size := 0
	for _, s := range slices.Concat([]string{c.Name}, c.Args, c.variables()) {
		size += len(s) + 1
		switch {
		case len(s) > maxArgument || size > maxCommand:
			return errorf(CodeTooLarge, "run %s: an argument is limited to %d bytes, and all arguments to %d; pass longer text in a file", brief(c.Name), maxArgument, maxCommand)
		case strings.ContainsRune(s, 0):
			return errorf(CodeInvalid, "run %s: %s contains a zero byte", brief(c.Name), brief(s))
		}
	}
	return nil
}

// variables returns Env as NAME=value, sorted.
func (c Command) variables() (env []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	return env
}

// prepare returns c ready to be started in dir, with env and the variables of c.
func (c Command) prepare(dir string, env []string) (*exec.Cmd, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	env = slices.Concat(env, []string{"PWD=" + dir}, c.variables())
	cmd := &exec.Cmd{Dir: dir, Env: env}
	path, err := lookup(c.Name, dir, env)
	switch {
	case err == nil:
		cmd.Path, cmd.Args = path, append([]string{c.Name}, c.Args...)
		group(cmd)
	case len(c.Args) == 0 && strings.ContainsAny(c.Name, shellSyntax):
		shell(cmd, c.Name)
	case errors.Is(err, fs.ErrPermission):
		return nil, errorf(CodePermission, "run %s: the file is not executable", brief(c.Name))
	default:
		return nil, errorf(CodeNotFound, "run %s: no such program; use a program in PATH, a path, or a shell line without arguments", brief(c.Name))
	}
	return cmd, nil
}

// lookup returns the path of the program name for a process in dir with env.
// Relative folders in PATH are ignored.
func lookup(name, dir string, env []string) (string, error) {
	if len(name) > maxPath {
		return "", exec.ErrNotFound // it can only be a shell line
	}
	if filepath.IsAbs(name) {
		return exec.LookPath(name)
	}
	if filepath.Base(name) != name {
		return exec.LookPath(filepath.Join(dir, name))
	}
	for _, folder := range filepath.SplitList(variable(env, "PATH")) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// variable returns the value of a variable in env: the last one counts.
func variable(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if key, value, ok := strings.Cut(e, "="); ok && sameVariable(key, name) {
			return value
		}
	}
	return ""
}

func sameVariable(a, b string) bool {
	return a == b || (runtime.GOOS == "windows" && strings.EqualFold(a, b))
}

// harmless lists the variables that every command gets. Programs need them to find
// themselves, their user and their language, and none of them holds a key.
var harmless = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE",
	"LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
	// Windows.
	"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// Environment returns the variables of this process that are known not to hold a
// key. It is the default environment of commands.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return !slices.ContainsFunc(harmless, func(h string) bool { return sameVariable(h, name) })
	})
}
