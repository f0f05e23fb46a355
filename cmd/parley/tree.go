package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-agents/parley/internal/ground/text/nearest"
	"github.com/parley-agents/parley/server"
)

// group returns a command that has verbs and does nothing by itself.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("%s needs a verb: %s", cmd.CommandPath(), strings.Join(verbNames(cmd), ", "))
		},
		DisableFlagsInUseLine: true,
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// noun returns the command of a kind of things. Alone it lists them, as NOUN list does; the other
// verbs are below it. The help shows the list on the line of the noun.
func noun(use, short string, list *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	list.Hidden = true
	cmd := &cobra.Command{
		Use: use + " [" + list.Name() + "]", Short: short, Example: list.Example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && list.Args(list, args) != nil {
				return unknownVerb(cmd, args[0])
			}
			return nil
		},
		RunE: list.RunE,
	}
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.AddCommand(append([]*cobra.Command{list}, verbs...)...)
	return cmd
}

// nounVerb gives a command with arguments, such as "land REF", a list and other verbs. Without
// arguments and without flags of its own it lists.
func nounVerb(cmd, list *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	act, check := cmd.RunE, cmd.Args
	own := map[*pflag.Flag]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { own[f] = list.Flags().Lookup(f.Name) == nil })
	cmd.Flags().AddFlagSet(list.Flags())

	// A flag that only the command has asks for the command, which then names the missing argument.
	lists := func(cmd *cobra.Command, args []string) bool {
		asksCommand := len(args) > 0
		cmd.Flags().Visit(func(f *pflag.Flag) { asksCommand = asksCommand || own[f] })
		return !asksCommand
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if lists(cmd, args) {
			return nil
		}
		return check(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if !lists(cmd, args) {
			return act(cmd, args)
		}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if of := list.Flags().Lookup(f.Name); of != nil && of != f && err == nil {
				err = list.Flags().Set(f.Name, f.Value.String())
			}
		})
		if err != nil {
			return err
		}
		return list.RunE(cmd, args)
	}
	cmd.AddCommand(append([]*cobra.Command{list}, verbs...)...)
	return cmd
}

// verbNames returns the verbs of a command that people type.
func verbNames(cmd *cobra.Command) (out []string) {
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			out = append(out, sub.Name())
		}
	}
	return out
}

// takesAway has the verbs that send, delete or end something. A misspelt word is never taken for
// one of them.
var takesAway = []string{
	"approve", "ask", "continue", "decide", "deny", "down", "drop", "end", "forget", "import", "land", "move", "off", "offer", "publish", "release", "remove", "reply",
	"revoke", "run", "send", "stop", "undo", "uninstall", "up", "withdraw",
}

// unknownVerb is the error of a word that is no verb of a command.
func unknownVerb(cmd *cobra.Command, word string) error {
	err := usagef("unknown command %q for %s", word, cmd.CommandPath())
	near := cmd.SuggestionsFor(word)
	near = slices.DeleteFunc(near, func(name string) bool { return slices.Contains(takesAway, name) })
	if best := nearest.Name(word, slices.Values(near)); best != "" {
		near = []string{best}
	}
	switch {
	case len(near) > 0:
		return err.WithHint("did you mean %s %s?", cmd.CommandPath(), strings.Join(near, " or "))
	case cmd.HasParent():
		return err.WithHint("%s has %s; %[1]s --help explains them", cmd.CommandPath(), strings.Join(verbNames(cmd), ", "))
	}
	return err.WithHint(`run "parley help all" to list the commands`)
}

// A chapter is a part of the help.
type chapter struct {
	title    string
	commands []*cobra.Command
}

// chapters returns the commands that people type, and where the first screen ends.
func (a *app) chapters() (out []chapter, first int) {
	windows := a.launchCommands()
	first = 5
	return []chapter{
		{"Begin", slices.Concat([]*cobra.Command{a.demoCommand(), a.initCommand()}, windows, []*cobra.Command{a.openCommand(), a.watchCommand(), a.doctorCommand()})},
		{"Talk", []*cobra.Command{a.sendCommand(), a.askCommand(), a.replyCommand(), a.inboxCommand(), a.logCommand()}},
		{"Work", []*cobra.Command{a.handoffCommand(), a.runCommand(), a.teamCommand(), a.filesCommand(), a.checkCommand(), a.landCommand(), a.contractCommand(), a.spendCommand(), a.continueCommand()}},
		{"Decide", []*cobra.Command{a.showCommand(), a.approveCommand(), a.denyCommand()}},
		{"Hub", []*cobra.Command{a.hubCommand(), a.agentCommand()}},
		{"For agents and hooks", []*cobra.Command{a.statusCommand(), a.offerCommand(), a.decideCommand(), a.artifactCommand(), a.workqCommand(), a.mcpCommand(), a.guardCommand(), a.wakeCommand()}},
		{"Other repositories and the world", []*cobra.Command{a.projectCommand(), a.contextCommand(), a.peerCommand(), a.eventsCommand(), a.scheduleCommand(), a.notifyCommand()}},
		{"Authors of agents", []*cobra.Command{a.acpCommand(), a.complyCommand(), a.modelCommand(), a.reportCommand(), a.schemaCommand()}},
		{"The program", []*cobra.Command{a.serveCommand(), a.stopCommand(), a.upCommand(), a.downCommand(), a.launchCommand(), a.connectCommand(), a.upgradeCommand(), a.uninstallCommand(), a.versionCommand()}},
		{"Proof", []*cobra.Command{a.proveCommand(), a.verifyCommand()}},
	}, first
}

func (a *app) root() *cobra.Command {
	root := group("parley", "The hub where coding agents talk")
	root.SuggestionsMinimumDistance = 2
	chapters, first := a.chapters()
	for _, c := range chapters {
		root.AddCommand(c.commands...)
	}
	root.AddCommand(a.helpCommand(chapters))

	// The words of CI are commands in both forms for one release; the hub runs the other itself.
	for _, cmd := range []*cobra.Command{a.canMergeCommand(), a.canDeployCommand(), a.confinedCommand()} {
		cmd.Hidden = true
		root.AddCommand(cmd)
	}

	// Without a command, a person at a terminal sees the hub if it runs, else the help.
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		home, err := a.homeDir()
		atTerminal := err == nil && isTerminal(a.in) && isTerminal(a.out)
		if atTerminal && (os.Getenv("PARLEY_URL") != "" || server.Running(home)) {
			return a.watch(cmd.Context(), false)
		}
		return cmd.Help()
	}

	helpOf := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			writeFirstScreen(cmd.OutOrStdout(), chapters[:first])
			return
		}
		helpOf(cmd, args)
	})

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
	plainErrors(root)
	return root
}

// windowed reports whether a command starts an agent in this terminal. The help shows them on one line.
func windowed(cmd *cobra.Command) bool { return cmd.Annotations[windowMark] != "" }

// windowMark marks the commands that start an agent CLI.
const windowMark = "window"

// writeChapter writes the commands of a chapter, one a line.
func writeChapter(w io.Writer, c chapter) {
	fmt.Fprintf(w, "%s:\n", c.title)
	var others []string
	for _, cmd := range c.commands {
		if windowed(cmd) {
			others = append(others, cmd.Name())
		}
	}
	isFirst := true
	for _, cmd := range c.commands {
		short := cmd.Short
		if windowed(cmd) {
			if !isFirst {
				continue
			}
			isFirst = false
			short = "Start an agent in this window (" + strings.Join(others[1:], ", ") + ")"
		}
		fmt.Fprintf(w, "  %-11s %s\n", cmd.Name(), short)
	}
}

// writeFirstScreen writes the help of the program: the commands of the first hour and of every day.
func writeFirstScreen(w io.Writer, chapters []chapter) {
	fmt.Fprintln(w, "Parley is the hub where coding agents talk, hand over tasks and land their work.")
	for _, c := range chapters {
		fmt.Fprintln(w)
		writeChapter(w, c)
	}
	fmt.Fprint(w, `
"parley NOUN" lists, "parley NOUN --help" shows its verbs, "parley help all" every command.
Flags for every command: --json, --home, --key-file, --as-operator, --config.
`)
}

// helpCommand returns the help: of a command, of everything, or of the flags of messages.
func (a *app) helpCommand(chapters []chapter) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND... | all | message]", Short: "Help about a command, or all commands",
		Example: `  parley help land
  parley help all
  parley help message`,
		ValidArgs: []string{"all", "message"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch strings.Join(args, " ") {
			case "":
				return root.Help()
			case "all":
				writeAllCommands(a.out, root, chapters)
				return nil
			case "message":
				writeMessageHelp(a.out)
				return nil
			}
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(found, strings.Join(rest, " "))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// writeAllCommands writes every command in its chapter.
func writeAllCommands(w io.Writer, root *cobra.Command, chapters []chapter) {
	fmt.Fprintln(w, "All commands of Parley. \"parley COMMAND --help\" shows the verbs and flags of one.")
	for _, c := range chapters {
		if c.title == "The program" {
			for _, name := range []string{"completion", "help"} {
				if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
					c.commands = append(c.commands, cmd)
				}
			}
		}
		fmt.Fprintln(w)
		writeChapter(w, c)
	}
	fmt.Fprint(w, `
Exit codes: 0 done, 1 a check failed, 2 usage or invalid input, 3 refused,
4 not found or conflict, 5 hub unreachable or degraded.
`)
}

// writeMessageHelp writes the flags of the commands that send a message.
func writeMessageHelp(w io.Writer) {
	var m messageFlags
	cmd := new(cobra.Command)
	m.add(cmd)
	fmt.Fprintf(w, "Flags of send, ask, reply and offer:\n%s", cmd.Flags().FlagUsages())
}
