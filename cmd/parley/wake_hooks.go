package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// hookTime is the time for the one call of a hook. A test gives hooks more of it.
var hookTime = 2 * time.Second

func (a *app) wakeWatchCommand() *cobra.Command {
	var w launch.Waiter
	cmd := &cobra.Command{
		Use:   "watch CLI",
		Short: "Write mail notices into a session (for plugins)",
		Long: `Wait for mail beside a CLI, and write a notice into its session when mail arrives: as a
line on standard output, or as the CLI expects it. It holds one request to the hub,
marks no message as read, and ends when the CLI ends or when another waiter takes over.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			// A launched session has its own waiter, so that this one ends at once.
			if w.CLI, err = cli.Lookup(args[0]); err != nil || a.displaced() {
				return err
			}
			if w.Session == "" {
				return usagef("--session is required").WithHint("pass the CLI's session id")
			}
			a.attach(&w)
			return w.Watch(cmd.Context(), a.out)
		},
	}

	f := cmd.Flags()
	f.StringVar(&w.Session, "session", os.Getenv(cli.ClaudeSession), "the CLI's session id")
	f.Lookup("session").DefValue = ""
	f.IntVar(&w.Process, "process", 0, "process id of the CLI")
	f.StringVar(&w.Dir, "dir", "", "working folder of the session")
	f.StringVar(&w.Transcript, "transcript", "", "transcript of the session, to detect failed turns")
	f.StringVar(&w.Began, "began", "", "time at which a hook started this waiter")
	f.MarkHidden("began")
	return cmd
}

func (a *app) wakeArmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "arm CLI",
		Short: "Wait for mail as an asynchronous hook (for hooks)",
		Long: `Wait for mail as an asynchronous hook of Claude Code: when mail arrives, print the notice
to standard error and exit with code 2. The command exits at once with code 0 in a
session without a person, in a session that has a waiter, and when the hub is not known.`,
		Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || !cli.AttendedByClaude(os.Getenv) || a.displaced() {
				return nil // in claude -p an asynchronous hook would hold up the run
			}
			known, err := cli.Lookup(args[0])
			if err != nil {
				return nil
			}
			in, err := launch.ReadInput(cmd.Context(), a.in)
			if err != nil {
				return nil
			}
			w := launch.Waiter{CLI: known, Session: in.Session, Dir: in.Dir}
			a.attach(&w)
			if w.Arm(cmd.Context(), a.err) {
				return launch.ExitError(exitUsage) // by which the CLI starts a turn with standard error
			}
			return nil
		},
	}
}

func (a *app) wakeHookCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hook CLI [EVENT]",
		Short: "Report a session's activity to the hub (for hooks)",
		Long: `Report a session's activity to the hub. The CLI passes the hook's input on standard
input; the output is for the CLI to show to the model, if there is mail that it was not
notified of. Before and after tools that change files it asks as "parley guard hook" does.
Without EVENT the input names the event. The command gives up silently after two seconds.
Its exit code is always 0, so that no hub holds up an agent.`,
		Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), hookTime)
			defer cancel()
			defer func() { recover() }() // a panic would end with exit code 2, by which a CLI refuses
			isKnown := len(args) == 1 || len(args) == 2
			if isKnown && !a.displaced() {
				a.hook(ctx, args[0], strings.Join(args[1:], ""))
			}
			return nil
		},
	}
}

// hook tells the hub of an event and prints the answer. It fails without a word.
func (a *app) hook(ctx context.Context, known, name string) {
	c, err := cli.Lookup(known)
	if err != nil {
		return
	}
	w := launch.Waiter{CLI: c, Unguarded: a.keyFile != "" && os.Getenv(fleet.RunVariable) != ""} // the hooks of a connection are another agent in a run
	a.attach(&w)
	a.out.Write(w.Hook(ctx, name, a.in)) // a CLI that does not read it loses nothing
}

// attach gives a waiter the hub of this command.
func (a *app) attach(w *launch.Waiter) {
	w.Client = a.client
	w.Flags = a.callFlags()
	w.Closed = a.closed
	home, err := a.homeDir()
	if err != nil {
		home = os.TempDir()
	}
	w.Home = home
}

// callFlags returns the flags with which this command was given the hub and the key.
func (a *app) callFlags() (flags []string) {
	if a.home != "" {
		flags = append(flags, "--home", a.home)
	}
	if a.keyFile != "" {
		flags = append(flags, "--key-file", a.keyFile)
	}
	return flags
}

// displaced reports whether a launch gives this session an identity of its own, so
// that the hooks of a permanent connection, which name a key file, must be silent.
func (a *app) displaced() bool { return os.Getenv(launch.Variable) != "" && a.keyFile != "" }
