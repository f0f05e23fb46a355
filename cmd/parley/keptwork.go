package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/keptwork"
)

// keptWorkCommands returns the commands for the uncommitted work that the hub keeps before agents
// can destroy it.
func (a *app) keptWorkCommands() []*cobra.Command {
	return []*cobra.Command{a.keptWorkListCommand(), a.keptWorkShowCommand(), a.bringBackCommand(), a.keptWorkDropCommand()}
}

func (a *app) keptWorkListCommand() *cobra.Command {
	var p api.KeptParams
	cmd := &cobra.Command{
		Use: "kept [PATH]", Short: "List the uncommitted work kept before commands of agents", Args: cobra.MaximumNArgs(1),
		Long: `List the states of a working tree that the hub kept before commands and edits of agents,
newest first. With PATH only those that have the file.`,
		Example: "  parley rescue kept\n  parley rescue kept src/main.go",
	}
	cmd.Flags().BoolVar(&p.All, "all", false, "of all working trees")
	return operation(a, cmd, api.ListKeptWork, &p, func(w io.Writer, got keptwork.Listing) {
		if len(got.Kept) == 0 {
			fmt.Fprintln(w, "no work is kept")
			return
		}
		writeTable(w, "ID, WHEN, BEFORE, AGENT, FILES, LINES, STASH, LOST, TREE", got.Kept, func(k keptwork.Row) []any {
			return []any{k.ID, ago(k.At), plaintext.Line(occasion(k)), k.Agent, k.Files, fmt.Sprintf("+%d -%d", k.Added, k.Removed), k.Stash, k.Lost, k.Tree}
		})
	}, treeFlag(cmd, &p.Tree, "."), argument(0, &p.Path))
}

// occasion says before what work was kept.
func occasion(k keptwork.Row) string {
	if k.Command != "" {
		return k.Command
	}
	return strings.ReplaceAll(string(k.Why), "_", " ")
}

func (a *app) keptWorkShowCommand() *cobra.Command {
	var p api.KeptID
	cmd := &cobra.Command{Use: "files ID", Short: "List the files of kept work", Args: cobra.ExactArgs(1), Example: "  parley rescue files s12"}
	return operation(a, cmd, api.ShowKeptWork, &p, func(w io.Writer, got keptwork.Details) {
		fmt.Fprintf(w, "%s before %s of %s in %s, %s\n", got.ID, plaintext.Line(occasion(got.Row)), got.Agent, got.Tree, when(got.At))
		writeTable(w, "FILE, WAS, NOW, BYTES", got.Content, func(f hub.KeptFile) []any {
			return []any{plaintext.Line(f.Path), f.State, f.Now, f.Bytes}
		})
		for _, name := range got.NamedOnly {
			fmt.Fprintf(w, "not in it, because it is too large: %s\n", plaintext.Line(name))
		}
	}, argument(0, &p.ID))
}

func (a *app) bringBackCommand() *cobra.Command {
	var p keptwork.Request
	var yes bool
	cmd := &cobra.Command{
		Use: "back [ID] [PATH...]", Short: "Bring uncommitted work back that an agent's command destroyed",
		Long: `Bring kept work back. Without an ID it is the last destruction in this working tree, after a
question. Only files that the command changed are written, and of those only files that
nothing changed since; the others are listed, and their names bring them back. The state of
now is kept first. With --into all files are written into a new folder, and entries of the
stash into folders of it. Branches and commits never move.`,
		Example: "  parley rescue back\n  parley rescue back s12 src/main.go\n  parley rescue back s12 --into ../found",
	}
	cmd.Flags().StringVar(&p.Into, "into", "", "new folder that gets all of it")
	cmd.Flags().BoolVar(&p.Index, "index", false, "bring the state of git's index back, too")
	cmd.Flags().BoolVar(&p.Stash, "stash", false, "make entries of the stash again")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return prepared(cmd, func(ctx context.Context) (err error) {
		if p.Into != "" {
			if p.Into, err = filepath.Abs(p.Into); err != nil {
				return err
			}
		}
		if p.ID == "" && !yes {
			if err := a.askBack(ctx, &p); err != nil {
				return err
			}
		}
		got, err := call(ctx, a, api.BringBack, p)
		if err != nil {
			return err
		}
		return a.print(got, func(w io.Writer) { writeBack(w, got) })
	}, treeFlag(cmd, &p.Tree, "."), func(_ context.Context, args []string) error {
		if len(args) > 0 && hub.KeptID(args[0]).Number() > 0 {
			p.ID, args = hub.KeptID(args[0]), args[1:]
		}
		p.Paths = args
		return nil
	})
}

// askBack asks whether the last destruction in a tree is brought back.
func (a *app) askBack(ctx context.Context, p *keptwork.Request) error {
	try := *p
	try.Try = true
	plan, err := call(ctx, a, api.BringBack, try)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("before `%s` of %s, %s: %s, +%d -%d", plaintext.Line(occasion(plan.Work)), plan.Work.Agent, ago(plan.Work.At), countFiles(len(plan.Files)), plan.Work.Added, plan.Work.Removed)
	p.ID = plan.ID
	isYes, err := a.askYes(ctx, text+". Bring them back?")
	if err == nil && !isYes {
		return usagef("nothing was brought back; --yes does not ask")
	}
	return err
}

// writeBack says what was brought back.
func writeBack(w io.Writer, got keptwork.Back) {
	fmt.Fprintf(w, "%s of %s brought back into %s\n", countFiles(len(got.Files)), got.ID, got.Into)
	for _, f := range got.Left {
		fmt.Fprintf(w, "left: %s (%s)\n", plaintext.Line(f.Path), plaintext.Line(f.Why))
	}
	if got.Undo != "" {
		fmt.Fprintf(w, "the state before that is %s\n", got.Undo)
	}
}

func (a *app) keptWorkDropCommand() *cobra.Command {
	var p api.KeptID
	cmd := &cobra.Command{Use: "forget ID", Short: "Remove kept work and its content", Args: cobra.ExactArgs(1), Example: "  parley rescue forget s12"}
	return operation(a, cmd, api.DropKeptWork, &p, func(w io.Writer, _ api.None) { fmt.Fprintf(w, "%s is removed\n", p.ID) }, argument(0, &p.ID))
}
