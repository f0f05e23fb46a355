// Command parley runs a hub for coding agents and talks to one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitDone     = 0
	exitCheck    = 1 // a check failed
	exitUsage    = 2 // usage or invalid input
	exitRefused  = 3 // authority, policy or limit
	exitMissing  = 4 // not found, or in conflict with the present state
	exitDegraded = 5 // the hub cannot be reached or cannot work
	exitSignal   = 130
)

// exitCodes maps the hub's codes. All other codes are usage errors.
var exitCodes = map[hub.Code]int{
	hub.CodeUnauthenticated: exitRefused, hub.CodeTampering: exitRefused, hub.CodeDenied: exitRefused, hub.CodePolicy: exitRefused,
	hub.CodeRateLimited: exitRefused, hub.CodeCircuitOpen: exitRefused, hub.CodeLoop: exitRefused, hub.CodeNotEnabled: exitRefused, hub.CodeOutsideRoots: exitRefused,
	hub.CodeUnknownRecipient: exitMissing, hub.CodeNotFound: exitMissing, hub.CodeConflict: exitMissing, hub.CodeOwnership: exitMissing,
	hub.CodeUnproven: exitCheck,
	hub.CodeDegraded: exitDegraded, hub.CodeOverloaded: exitDegraded, hub.CodeInternal: exitDegraded, hub.CodeUnreachable: exitDegraded,
}

// errCheck ends a command with exitCheck after it has said why on its own.
var errCheck = errors.New("a check failed")

// An app is one call of the command.
type app struct {
	in       io.Reader
	out, err *printer

	home       string
	config     string
	json       bool
	keyFile    string
	asOperator bool

	began bool // the command line was understood
}

// execute performs one command and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: newPrinter(out), err: newPrinter(errOut)}
	root := a.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		a.complete(root)
	}

	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(a.out)
	root.SetErr(a.err)

	cmd, err := root, absoluteVariables()
	if err == nil {
		err = movedTo(root, args)
	}
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if !a.began && slices.Contains(args, "--json") {
		a.json = true // it may stand behind a flag that was not understood
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errCheck):
		return exitCheck
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitSignal
	}
	if exit, ok := errors.AsType[launch.ExitError](err); ok {
		return int(exit)
	}
	return a.fail(cmd, err)
}

// codeUsage is the code of a command line that makes no sense. It never
// leaves the command.
const codeUsage hub.Code = "usage"

func usagef(format string, args ...any) *hub.Error {
	return hub.Errorf(codeUsage, "parley", format, args...)
}

// invalid marks an error as one of the input.
func invalid(err error) error { return hub.Errorf(hub.CodeInvalid, "parley", "%w", err) }

// encoder returns an encoder that writes one line for each value, in which no
// character moves a cursor or hides text. Every --json is written by one.
func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(visibleWriter{w})
	enc.SetEscapeHTML(false)
	return enc
}

// A visibleWriter escapes characters of JSON that hide text or move a cursor. An encoder
// writes a value in one call.
type visibleWriter struct{ w io.Writer }

func (v visibleWriter) Write(b []byte) (int, error) {
	if _, err := v.w.Write(plaintext.JSON(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// fail prints an error and returns the exit code for it.
func (a *app) fail(cmd *cobra.Command, err error) int {
	var e *hub.Error
	err = groupError(err)
	switch {
	case errors.As(err, &e):
	case a.began:
		err = hub.Errorf(hub.CodeDegraded, "parley", "%w", err) // from the system, and in its words
	default:
		err = usagef("%w", err)
	}
	d := rpc.Describe(err, rpc.Commands)
	d.Capabilities = nil // for agents, not for people and scripts
	if d.Code == codeUsage && d.Hint == "" {
		d.Hint = fmt.Sprintf(`usage: %s; run "%s --help" for details`, cmd.UseLine(), cmd.CommandPath())
	}
	code, ok := exitCodes[d.Code]
	if !ok {
		code = exitUsage
	}
	if a.json {
		encoder(a.err).Encode(map[string]any{"error": d}) // stderr: nothing can be done if it fails
		return code
	}
	fmt.Fprintf(a.err, "%s %s\n", a.paint(a.err, "31", "parley:"), localTimes(d.Message))
	if d.Hint != "" {
		fmt.Fprintf(a.err, "  %s\n", d.Hint)
	}
	return code
}

// print writes a result: as JSON for scripts, else as text says.
func (a *app) print(result any, text func(io.Writer)) error {
	if !a.json {
		text(a.out)
		return nil
	}
	return encoder(a.out).Encode(result)
}

// A pathFlag is the value of a flag that names a file or a folder: its path from the root, so that
// it stays the one that the caller meant.
type pathFlag string

func (p *pathFlag) String() string { return string(*p) }
func (p *pathFlag) Type() string   { return "string" }
func (p *pathFlag) Set(text string) (err error) {
	if text != "" {
		text, err = filepath.Abs(text)
	}
	*p = pathFlag(text)
	return err
}

// absoluteVariables makes the variables that name the home and the configuration absolute, for this
// program and those that it starts in other folders.
func absoluteVariables() error {
	for _, name := range []string{"PARLEY_HOME", "PARLEY_CONFIG"} {
		given := os.Getenv(name)
		if given == "" || filepath.IsAbs(given) {
			continue
		}
		path, err := filepath.Abs(given)
		if err == nil {
			err = os.Setenv(name, path)
		}
		if err != nil {
			return usagef("%s: %v", name, err)
		}
	}
	return nil
}

// homeDir returns the hub's folder.
func (a *app) homeDir() (string, error) {
	switch {
	case a.home != "":
		return a.home, nil
	case os.Getenv("PARLEY_HOME") != "":
		return os.Getenv("PARLEY_HOME"), nil
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, "parley", "cannot find your home folder: %v", err).WithHint("pass --home or set PARLEY_HOME")
	}
	return filepath.Join(dir, ".parley"), nil
}
