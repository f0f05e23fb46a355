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
	"github.com/parley-agents/parley/server"
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

// group returns a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := usagef("unknown command %[2]q for %[1]s", cmd.Name(), args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return err.WithHint("did you mean %s?", strings.Join(near, " or "))
			}
			return err.WithHint(`run "%s --help" to list the commands`, cmd.CommandPath())
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2, DisableFlagsInUseLine: true,
	}
	cmd.AddCommand(commands...)
	return cmd
}

func (a *app) root() *cobra.Command {
	root := group("parley", "The hub where coding agents talk")
	for i, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Hub:", []*cobra.Command{a.serveCommand(), a.openCommand(), a.watchCommand(), a.webCommand(), a.stopCommand(), a.serviceCommand(), a.uninstallCommand(), a.upCommand(), a.downCommand(), a.doctorCommand(), a.demoCommand(), a.rootCommand(), a.operatorCommand()}},
		{"Agents in this terminal:", a.launchCommands()},
		{"Agents and their tools:", []*cobra.Command{a.agentCommand(), a.connectCommand(), a.mcpCommand(), a.wakeCommand(), a.guardCommand(), a.contactCommand(), a.pauseCommand(), a.notifyCommand(), a.inCommand(), a.everyCommand(), a.probeCommand()}},
		{"Messages:", []*cobra.Command{
			a.sendCommand(), a.broadcastCommand(), a.respondCommand(), a.askCommand(), a.statusCommand(), a.inboxCommand(), a.subscriptionsCommand(), a.queryCommand(), a.logCommand(), a.traceCommand(), a.artifactCommand(),
			a.undeliveredCommand(), a.retryCommand(), a.approveCommand(), a.denyCommand(), a.forgetCommand(),
		}},
		{"Tasks:", []*cobra.Command{a.offerCommand(), a.negotiationsCommand(), a.positionsCommand(), a.decideCommand(), a.decisionsCommand(), a.teamCommand(), a.handoffCommand(), a.checkCommand(), a.reviewCommand(), a.reviewsCommand(), a.landingCommand(), a.landCommand(), a.landingsCommand(), a.undoLandingCommand(), a.workqCommand(), a.reserveCommand(), a.releaseCommand(), a.reservationsCommand(), a.runCommand(), a.runsCommand(), a.agentsCommand(), a.spendCommand(), a.pricesCommand(), a.budgetCommand(), a.continueCommand(), a.continuationsCommand(), a.rescueCommand()}},
		{"Other repositories and hubs:", []*cobra.Command{
			a.projectCommand(), a.contractCommand(), a.contextCommand(), a.implCommand(), a.canMergeCommand(), a.canDeployCommand(), a.deployedCommand(), a.peerCommand(), a.discoverCommand(),
		}},
		{"Records:", []*cobra.Command{a.metricsCommand(), a.auditCommand(), a.proveCommand(), a.verifyCommand(), a.exportCommand(), a.importCommand(), a.archiveCommand(), a.backupCommand(), a.storeCommand()}},
		{"For agent authors:", []*cobra.Command{a.acpCommand(), a.complyCommand(), a.modelCommand(), a.reportCommand(), a.schemaCommand()}},
		{"About Parley:", []*cobra.Command{a.versionCommand(), a.upgradeCommand()}},
	} {
		id := fmt.Sprint(i)
		root.AddGroup(&cobra.Group{ID: id, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = id
		}
		root.AddCommand(g.commands...)

		// The help and completion commands are in the last group.
		root.SetHelpCommandGroupID(id)
		root.SetCompletionCommandGroupID(id)
	}

	root.Long = `Parley is a hub where coding agents exchange typed messages. Agents cannot forge the
identity of another agent.

  parley serve                          start the hub
  parley agent add planner              add an agent; prints its key once
  PARLEY_KEY=... parley send builder "schema is frozen"
  PARLEY_KEY=... parley inbox --wait 30s

Exit codes: 0 done, 1 a check failed, 2 usage or invalid input, 3 refused,
4 not found or conflict, 5 hub unreachable or degraded.`

	// Without a command, a person at a terminal sees the hub if it runs, else the help.
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		home, err := a.homeDir()
		atTerminal := err == nil && isTerminal(a.in) && isTerminal(a.out)
		if atTerminal && (os.Getenv("PARLEY_URL") != "" || server.Running(home)) {
			return a.watch(cmd.Context(), false)
		}
		return cmd.Help()
	}

	root.AddCommand(a.confinedCommand()) // for the hub, not for people
	root.Version = version()
	root.SetVersionTemplate("parley {{.Version}}\n")
	root.SilenceUsage, root.SilenceErrors = true, true
	root.PersistentPreRun = func(*cobra.Command, []string) { a.began = true }

	f := root.PersistentFlags()
	f.Var((*pathFlag)(&a.home), "home", "the hub's home folder (default $PARLEY_HOME, or ~/.parley)")
	f.Var((*pathFlag)(&a.config), "config", "configuration file (default $PARLEY_CONFIG, or config.yaml in the home)")
	f.BoolVar(&a.json, "json", false, "print JSON, with errors on stderr")
	f.Var((*pathFlag)(&a.keyFile), "key-file", "file with your key (default the key in $PARLEY_KEY)")
	f.BoolVar(&a.asOperator, "as-operator", false, "use the operator's key from the home")

	return root
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
