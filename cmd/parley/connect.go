package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/ground/briefing"
)

func (a *app) connectCommand() *cobra.Command {
	c := connect.Connection{Client: a.client}
	var names []string
	for _, known := range cli.Connectable() {
		names = append(names, known.Name)
	}

	var http, printOnly, undo, noInstruction bool
	cmd := &cobra.Command{
		Use:   "connect CLI --agent NAME",
		Short: "Connect an agent CLI to the hub",
		Long: `Give an installed agent CLI the hub's tools: write its MCP entry with a key of its
own, and one line of instructions to check the inbox. If the hub has no agent with
that name, it is added. The hub's home keeps a backup of each changed file.

"claude -p" refuses tools that are not allowed; on a terminal you are asked, scripts
pass --allow-tools. With --wake, every session of the CLI also reports its activity to
the hub and is notified of mail, and mail may start a turn while it is idle, which
spends tokens. "parley launch" does the same for one session without changing a file.

Known CLIs: ` + strings.Join(names, ", ") + `.`,
		Example: `  parley connect claude --agent planner
  parley connect codex --agent builder --print
  parley connect claude --agent planner --wake
  parley connect claude --agent planner --undo`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Over HTTP the key is in the CLI's configuration, else in a file of the hub's home.
			if http {
				c.Entry.Transport = cli.HTTP
			}
			if !noInstruction {
				c.Entry.Instruction = briefing.Connected
			}
			if err := a.locate(&c, args[0]); err != nil {
				return err
			}

			switch {
			case c.Wake && http:
				return usagef("--wake and --http cannot be combined: hooks need the key in a file").WithHint("leave out --http")
			case undo && printOnly:
				return a.previewConnection(&c, c.PreviewUndo)
			case undo:
				return a.disconnect(cmd.Context(), &c)
			case c.Agent == "":
				return usagef("the name of the agent is required").WithHint("pass it with --agent; a new agent is added to the hub")
			case printOnly:
				return a.previewConnection(&c, c.Preview)
			}
			return a.connect(cmd.Context(), &c)
		},
	}

	f := cmd.Flags()
	f.StringVar((*string)(&c.Agent), "agent", "", "name of the agent on the hub")
	f.StringVar(&c.Role, "role", "", "role of a new agent (default executor)")
	f.StringVar((*string)(&c.Place.Scope), "scope", "user", "user (everywhere) or project (the current folder)")
	f.StringVar(&c.Entry.Name, "name", "", "name of the MCP server in the CLI's configuration (default "+cli.DefaultName+")")
	f.BoolVar(&http, "http", false, "connect over HTTP, with the key in the CLI's configuration")
	f.BoolVar(&c.Allow, "allow-tools", false, "allow the hub's tools in a CLI that would refuse them")
	f.BoolVar(&c.Wake, "wake", false, "add hooks, and let mail start a turn in an idle session if the CLI supports it")
	f.BoolVar(&noInstruction, "no-instruction", false, "do not change the CLI's instruction file")
	f.BoolVar(&c.Entry.Force, "force", false, "connect even if the CLI is not found on this machine")
	f.BoolVar(&printOnly, "print", false, "print the changes without writing them")
	f.BoolVar(&undo, "undo", false, "remove the entries and revoke the key")
	choices(cmd, "scope", "user", "project")
	return cmd
}

// locate finds the CLI, the folders and the hub of a connection.
func (a *app) locate(c *connect.Connection, name string) (err error) {
	if c.CLI, err = cli.LookupConnectable(name); err != nil {
		return err
	}
	if c.Agent != "" && !c.Agent.Valid() {
		return hub.Errorf(hub.CodeInvalid, "parley", "--agent: %q is not a valid agent name", c.Agent).
			WithHint("use lowercase letters, digits, dots, dashes and underscores")
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	url, err := a.hubURL()
	if err != nil {
		return err
	}
	if isTerminal(a.in) && !a.asOperator {
		c.Ask = a.askYes
	}
	return c.Locate(home, url)
}

// previewConnection prints a change that is not made.
func (a *app) previewConnection(c *connect.Connection, plan func() (cli.Change, error)) error {
	change, err := plan()
	if err != nil {
		return err
	}
	return a.print(connect.Result{CLI: c.CLI.Name, Agent: c.Agent, Change: change, Written: []cli.SavedFile{}}, func(w io.Writer) {
		io.WriteString(w, change.String())
		fmt.Fprintln(a.err, "nothing was written")
	})
}

// connect connects a CLI, prints the changes and, for a project, offers to make its folder
// a root.
func (a *app) connect(ctx context.Context, c *connect.Connection) error {
	done, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	err = a.print(done, func(w io.Writer) { a.writeConnected(w, c, done) })
	if err != nil || c.Place.Scope != cli.ScopeProject {
		return err
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	return a.offerRoot(ctx, client, c.Place.Dir)
}

// writeConnected prints the changes, the command that takes them back, and notes.
func (a *app) writeConnected(w io.Writer, c *connect.Connection, done connect.Result) {
	if done.Added {
		fmt.Fprintf(w, "added %s to the hub\n", c.Agent)
	}
	io.WriteString(w, done.Change.String())
	if done.KeyFile != "" {
		fmt.Fprintf(w, "the key is in %s\n", done.KeyFile)
	}
	writeBackups(w, done.Written)
	if done.Displaced != "" {
		fmt.Fprintf(w, "%s was connected as %s here; it is now %s, and the old key no longer works\n", c.CLI.Title, done.Displaced, c.Agent)
	}
	fmt.Fprintf(w, "%s is connected as %s; restart it to see the tools. To undo: %s\n", c.CLI.Title, c.Agent, c.Record().UndoLine(a.typed(c.Home)))

	if c.CLI.Refuses() && !c.Allow {
		fmt.Fprintf(w, "note: %s -p refuses the hub's tools; connect again with --allow-tools to allow them\n", c.CLI.Name)
	}
	if c.Place.Scope != cli.ScopeProject {
		return
	}
	for _, e := range done.Change.Edits {
		if e.What == "the MCP server "+c.Record().Name {
			fmt.Fprintf(w, "note: keep %s out of version control: it names a program and a key of this machine\n", e.Path)
		}
	}
}

// writeBackups prints where the former files are kept.
func writeBackups(w io.Writer, written []cli.SavedFile) {
	for _, f := range written {
		if f.Backup != "" {
			fmt.Fprintf(w, "the former %s is kept as %s\n", f.Path, f.Backup)
		}
	}
}

// disconnect takes a CLI's connection back, and prints the changes and the steps that are
// left.
func (a *app) disconnect(ctx context.Context, c *connect.Connection) error {
	done, err := c.Undo(ctx)
	if err != nil {
		if done.Revoked > 0 {
			fmt.Fprintf(a.err, "%d keys revoked\n", done.Revoked)
		}
		return err
	}
	if done.StillWakes != nil {
		a.note(fmt.Sprintf("mail may still start turns: %v", done.StillWakes))
	}
	return a.print(done, func(w io.Writer) {
		io.WriteString(w, done.Change.String())
		writeBackups(w, done.Written)
		fmt.Fprintf(w, "%d keys revoked\n", done.Revoked)
		for _, note := range done.Notes() {
			a.note(note)
		}
	})
}

// note prints a sentence that the user should know on standard error.
func (a *app) note(text string) {
	fmt.Fprintf(a.err, "%s %s\n", a.paint(a.err, "33", "note:"), text)
}
