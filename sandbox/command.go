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

// A Command says what to run in a terminal.
type Command struct {
	// Name is a program, looked up in the PATH that the command gets or, if
	// it has a slash, relative to Dir. Without Args it may also be a whole
	// line for the shell.
	Name string
	Args []string

	Env         map[string]string // added to what every command gets
	Dir         string            // absolute and under a root; empty for the first root
	OutputLimit *int              // bytes of output kept; nil for as many as are allowed
}

// shellSyntax holds the characters that make a name a line for the shell.
const shellSyntax = " \t\r\n|&;<>()$`\\\"'*?[]#~=%{}!"

// What may be passed to a command, in bytes. No system of ours takes much more.
const (
	maxArgument = 128<<10 - 1 // the name, an argument, or a variable
	maxCommand  = 1 << 20     // all of them
)

// check returns an error if c makes no sense or is too large.
func (c Command) check() error {
	if strings.TrimSpace(c.Name) == "" {
		return errorf(CodeInvalid, "run: no command given")
	}
	if c.OutputLimit != nil && *c.OutputLimit < 0 {
		return errorf(CodeInvalid, "run %s: the output limit %d must not be negative", brief(c.Name), *c.OutputLimit)
	}
	for name := range c.Env {
		if name == "" || strings.Contains(name, "=") {
			return errorf(CodeInvalid, "run %s: %s is not the name of a variable", brief(c.Name), brief(name))
		}
	}
	size := 0
	for _, s := range slices.Concat([]string{c.Name}, c.Args, c.variables()) {
		size += len(s) + 1
		switch {
		case len(s) > maxArgument || size > maxCommand:
			return errorf(CodeTooLarge, "run %s: at most %d bytes can be passed at once, and %d in all; use a file", brief(c.Name), maxArgument, maxCommand)
		case strings.ContainsRune(s, 0):
			return errorf(CodeInvalid, "run %s: %s holds a zero byte", brief(c.Name), brief(s))
		}
	}
	return nil
}

// variables returns what c adds to the environment, as NAME=value.
func (c Command) variables() (env []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	return env
}

// prepare returns c ready to be started in dir, with env before what it adds.
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
		return nil, errorf(CodePermission, "run %s: not a program that may be run", brief(c.Name))
	default:
		return nil, errorf(CodeNotFound, "run %s: no such program; give one that is in PATH, a path, or a whole shell line without arguments", brief(c.Name))
	}
	return cmd, nil
}

// lookup returns the program that name means to a process in dir with env.
// Folders in PATH that are not absolute are passed over.
func lookup(name, dir string, env []string) (string, error) {
	if len(name) > maxPath {
		return "", exec.ErrNotFound // a line for the shell, then
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

// variable returns the value that a process with env sees under name.
func variable(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if key, value, ok := strings.Cut(e, "="); ok && sameVariable(key, name) {
			return value
		}
	}
	return ""
}

func sameVariable(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}

// harmless names the variables that every command gets: what programs need to
// find themselves, their user, and their language, but none that could hold a
// key.
var harmless = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE",
	"LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
	// Windows.
	"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// Environment returns what every command gets unless it is said otherwise: those
// variables of this process that are known not to hold a key.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return !slices.ContainsFunc(harmless, func(h string) bool { return sameVariable(h, name) })
	})
}
