package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// A launching is one call of launch.
type launching struct {
	launch.Launch
	undo bool
}

func (a *app) launchCommand() *cobra.Command {
	var names []string
	for _, c := range cli.All() {
		names = append(names, c.Name)
	}

	var l launching
	cmd := &cobra.Command{
		Use:   "launch CLI [-- ARGS]",
		Short: "Start an agent CLI connected to the hub",
		Long: `Start an agent CLI in this terminal as an agent on the hub, with the hub's tools, hooks
that report the session's activity to the hub, and an identity of its own. Two windows
are two agents. If no hub is running, one is started. Mail is announced in the session;
if you agree once for this agent, mail also starts a turn while the session is idle,
which spends tokens. ARGS are passed to the CLI.

The CLI's files are not changed: the entries are passed as flags and variables. The
exception is Gemini CLI, where these work only for root; you see the file and are
asked once.

Known CLIs: ` + strings.Join(names, ", ") + `.
Each is also a command of its own, such as "parley claude".`,
		Example: `  parley claude
  parley codex --as builder
  parley launch qwen --wake -- --approval-mode default`,
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if l.CLI, err = cli.Lookup(args[0]); err != nil {
				return err
			}
			return a.launch(cmd.Context(), &l, args[1:])
		},
	}

	l.flags(cmd)
	return cmd
}

// launchCommands returns a command for each CLI.
func (a *app) launchCommands() []*cobra.Command {
	out := []*cobra.Command{}
	for _, c := range cli.All() {
		l := launching{Launch: launch.Launch{CLI: c}}
		cmd := &cobra.Command{
			Use:   c.Name + " [-- ARGS]",
			Short: "Start " + c.Title + " as an agent on the hub",
			Long:  fmt.Sprintf("Start %s as an agent on the hub. This is short for \"parley launch %s\"; see\n\"parley launch --help\".", c.Title, c.Name),
			RunE:  func(cmd *cobra.Command, args []string) error { return a.launch(cmd.Context(), &l, args) },

			Annotations: map[string]string{windowMark: c.Name},
		}
		l.flags(cmd)
		out = append(out, cmd)
	}
	return out
}

func (l *launching) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar((*string)(&l.As), "as", "", "name of the agent on the hub (default a new agent)")
	f.StringVar(&l.Role, "role", "", "role of a new agent (default executor)")
	f.BoolVar(&l.Resume, "resume", false, "continue as the last agent of this CLI in this folder")
	f.BoolVar(&l.Wake, "wake", false, "let mail start a turn while the session is idle; do not ask")
	f.BoolVar(&l.NoWake, "no-wake", false, "never let mail start a turn; do not ask")
	f.BoolVar(&l.undo, "undo", false, "forget the identities and answers from launches of this CLI, and revoke their keys")
	cmd.MarkFlagsMutuallyExclusive("wake", "no-wake")
	cmd.MarkFlagsMutuallyExclusive("as", "resume")
}

// launch starts a CLI, or forgets its launches.
func (a *app) launch(ctx context.Context, l *launching, args []string) error {
	l.Args = args
	if l.As != "" && !l.As.Valid() {
		return hub.Errorf(hub.CodeInvalid, "parley", "--as: %q is not a valid agent name", l.As).
			WithHint("use lowercase letters, digits, dots, dashes and underscores")
	}
	var err error
	if l.Home, err = a.homeDir(); err != nil {
		return err
	}
	if l.Dir, err = os.Getwd(); err != nil {
		return err
	}

	l.Host = a.launchHost(l.Home)
	if !l.undo {
		return l.Run(ctx)
	}
	done, err := l.Undo(ctx)
	if err != nil {
		return err
	}
	return a.print(done, func(w io.Writer) { writeForgotten(w, l.CLI, done) })
}

// launchHost returns this terminal and the hub of a home for a launch.
func (a *app) launchHost(home string) launch.Host {
	host := launch.Host{
		Stdin: a.in, Stdout: a.out.raw, Stderr: a.err.raw, Text: a.err, Note: a.note,
		Attended: isTerminal(a.in), Client: a.client, Flags: a.callFlags(),
	}
	host.OfferRoot = func(ctx context.Context, c *rpc.Client, dir string) error {
		err := a.offerRoot(ctx, c, dir)
		a.hintInit(ctx, home, dir)
		return err
	}
	if host.Attended {
		host.Ask = a.askYes
	}
	host.StartHub = func(ctx context.Context) (*rpc.Client, string, error) {
		settings, err := a.loadConfig(home)
		if err != nil {
			return nil, "", err
		}
		link, err := a.hubForRun(ctx, home, settings)
		if err != nil {
			return nil, "", err
		}
		return link.Client, link.url, nil
	}
	host.Connected = func(c *connect.Connection, done connect.Result) error {
		return a.print(done, func(w io.Writer) { a.writeConnected(w, c, done) })
	}
	return host
}

// writeForgotten prints what launch --undo did.
func writeForgotten(w io.Writer, c cli.CLI, done launch.Undone) {
	files := "launch has changed no file of " + c.Title
	if done.Files {
		files = "the entries in files of " + c.Title + " are removed"
	}
	fmt.Fprintf(w, "%s; %d identities forgotten, their wakes are off\n", files, len(done.Agents))
	if c.Forgotten != "" {
		fmt.Fprintln(w, c.Forgotten)
	}
}
