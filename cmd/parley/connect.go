package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/briefing"
	"github.com/parley-agents/parley/internal/connect"
	"github.com/parley-agents/parley/internal/reach/cli"
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
		Short: "Give an installed agent CLI the hub's tools, under an identity of its own",
		Long: `Give an installed agent CLI the hub's tools: write its MCP entry with a key of its
own, and one line of instruction that makes the agent look at its inbox. The
agent is added to the hub if there is none with that name. A backup of
each changed file is kept in the hub's home. claude -p refuses tools that it was
not allowed to use; on a terminal you are asked, scripts say --allow-tools. With
--wake every session of the CLI also tells the hub what it does and is told of mail,
and mail may start a turn while it is idle, which spends tokens; parley launch does
the same for one session without a change to a file. Known are
` + strings.Join(names, ", ") + `.`,
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
				return usagef("--wake needs a key in a file, which hooks can read").WithHint("leave --http out")
			case undo && printOnly:
				return a.previewConnection(&c, c.PreviewUndo)
			case undo:
				return a.disconnect(cmd.Context(), &c)
			case c.Agent == "":
				return usagef("connect needs the name of the agent").WithHint("name it with --agent; it is added if it is new")
			case printOnly:
				return a.previewConnection(&c, c.Preview)
			}
			return a.connect(cmd.Context(), &c)
		},
	}

	f := cmd.Flags()
	f.StringVar((*string)(&c.Agent), "agent", "", "name of the agent on the hub")
	f.StringVar(&c.Role, "role", "", "role of an agent that is new (default executor)")
	f.StringVar((*string)(&c.Place.Scope), "scope", "user", "user: wherever you start the CLI; project: in the current folder")
	f.StringVar(&c.Entry.Name, "name", "", "name of the hub among the CLI's MCP servers (default "+cli.DefaultName+")")
	f.BoolVar(&http, "http", false, "let the CLI call the hub over HTTP, with the key in its configuration")
	f.BoolVar(&c.Allow, "allow-tools", false, "let the CLI use the hub's tools without asking, where it would refuse them")
	f.BoolVar(&c.Wake, "wake", false, "add hooks, and let mail start a turn of an idle session where the CLI can do it")
	f.BoolVar(&noInstruction, "no-instruction", false, "leave the CLI's instruction file alone")
	f.BoolVar(&c.Entry.Force, "force", false, "also for a CLI that is not found on this machine")
	f.BoolVar(&printOnly, "print", false, "print the changes of files, and write nothing")
	f.BoolVar(&undo, "undo", false, "remove the entries from the files, and revoke the key")
	choices(cmd, "scope", "user", "project")
	return cmd
}

// locate finds the CLI, the folders and the hub of a connection.
func (a *app) locate(c *connect.Connection, name string) (err error) {
	if c.CLI, err = cli.LookupConnectable(name); err != nil {
		return err
	}
	if c.Agent != "" && !c.Agent.Valid() {
		return hub.Errorf(hub.CodeInvalid, "parley", "--agent: %q cannot be an agent's name", c.Agent).
			WithHint("names are lower-case letters, digits, dots, dashes and underscores")
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
		fmt.Fprintf(w, "%s was connected as %s here; it is %s now, and the key of that connection does not work any more\n", c.CLI.Title, done.Displaced, c.Agent)
	}
	fmt.Fprintf(w, "%s is connected as %s; restart it to see the tools. To take it back: %s\n", c.CLI.Title, c.Agent, c.Record().UndoLine(a.typed(c.Home)))

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
