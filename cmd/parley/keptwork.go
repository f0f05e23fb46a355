package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/keptwork"
)

func (a *app) keptWorkListCommand() *cobra.Command {
	var p api.KeptParams
	cmd := &cobra.Command{
		Use: "kept [PATH]", Short: "List kept work, newest first", Args: cobra.MaximumNArgs(1),
		Long: `List the uncommitted work of this working tree that the hub keeps, newest first: its states
before commands and edits of agents, and the work of tasks whose agent could not go on. PATH
is a file, relative to the top of the tree: only work with this file is listed.`,
		Example: "  parley files kept\n  parley files kept src/main.go\n  parley files kept --all",
	}
	cmd.Flags().BoolVar(&p.All, "all", false, "of all working trees")
	return prepared(cmd, func(ctx context.Context) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		got, err := listKeptWork(ctx, c, p)
		if err != nil {
			return err
		}
		return a.print(got, func(w io.Writer) { writeKeptWorks(w, got, p) })
	}, treeFlag(cmd, &p.Tree, "."), argument(0, &p.Path))
}

// listKeptWork returns kept work and the work that continuations kept, newest first.
func listKeptWork(ctx context.Context, c *rpc.Client, p api.KeptParams) (keptwork.Listing, error) {
	out, err := rpc.Call(ctx, c, api.ListKeptWork, p)
	if err != nil {
		return out, err
	}
	rescues, err := rpc.Call(ctx, c, api.ListRescues, api.None{})
	if err != nil {
		return out, err
	}
	for _, r := range rescues.Rescues {
		isHere := p.All || isIn(r.Folder, p.Tree) || isIn(p.Tree, r.Folder)
		hasPath := p.Path == "" || slices.Contains(r.Paths, p.Path)
		if isHere && hasPath {
			out.Kept = append(out.Kept, rowOfRescue(r))
		}
	}
	slices.SortStableFunc(out.Kept, func(x, y keptwork.Row) int { return y.At.Compare(x.At.Time) })
	return out, nil
}

// isIn reports whether a folder is another one, or in it.
func isIn(folder, other string) bool {
	rel, err := filepath.Rel(other, folder)
	return err == nil && filepath.IsLocal(rel)
}

// rowOfRescue returns the work that a continuation kept as a row of kept work.
func rowOfRescue(r hub.Rescue) keptwork.Row {
	return keptwork.Row{
		ID: hub.KeptID(r.ID), Tree: r.Folder, At: r.At, Why: hub.KeptContinuation, Agent: r.Agent,
		Files: r.Files, Added: r.Insertions, Removed: r.Deletions, Bytes: r.Bytes, NamedOnly: []string{},
	}
}

// isOfContinuation reports whether an error of an operation on kept work says that it has not the id:
// then a continuation may have kept the work.
func isOfContinuation(err error) bool {
	code := hub.CodeOf(err)
	return code == hub.CodeNotFound || code == hub.CodeNotEnabled
}

// writeKeptWorks writes kept work as a table.
func writeKeptWorks(w io.Writer, got keptwork.Listing, p api.KeptParams) {
	switch {
	case len(got.Kept) == 0 && p.All:
		fmt.Fprintln(w, "no work is kept")
		return
	case len(got.Kept) == 0:
		fmt.Fprintf(w, "no work is kept of %s; --all lists that of all folders\n", plaintext.Line(p.Tree))
		return
	}
	writeTable(w, "ID, WHEN, OCCASION, AGENT, FILES, LINES, STASH, LOST, TREE", got.Kept, func(k keptwork.Row) []any {
		return []any{k.ID, ago(k.At), plaintext.Line(occasion(k)), k.Agent, k.Files, fmt.Sprintf("+%d -%d", k.Added, k.Removed), k.Stash, k.Lost, k.Tree}
	})
}

// occasion returns the command before which work was kept, or the word of another occasion.
func occasion(k keptwork.Row) string {
	if k.Command != "" {
		return k.Command
	}
	return strings.ReplaceAll(string(k.Why), "_", " ")
}

// occasionText says on which occasion work was kept.
func occasionText(k keptwork.Row) string {
	switch k.Why {
	case hub.KeptBeforeCommand:
		return fmt.Sprintf("before `%s` of %s", plaintext.Line(k.Command), k.Agent)
	case hub.KeptEdit:
		return fmt.Sprintf("before an edit of %s", k.Agent)
	case hub.KeptBeforeBack:
		return "before kept work was brought back"
	case hub.KeptInterval:
		return "while agents worked"
	}
	return fmt.Sprintf("%s of %s", occasion(k), k.Agent)
}

// writeKeptWork writes kept work with its files.
func writeKeptWork(w io.Writer, got keptwork.Details) {
	fmt.Fprintf(w, "%s of %s, %s, %s\n", got.ID, got.Tree, when(got.At), occasionText(got.Row))
	writeTable(w, "FILE, WAS, NOW, BYTES", got.Content, func(f hub.KeptFile) []any {
		return []any{plaintext.Line(f.Path), f.State, f.Now, f.Bytes}
	})
	for _, name := range got.NamedOnly {
		fmt.Fprintf(w, "not in it, because it is too large: %s\n", plaintext.Line(name))
	}
}

func (a *app) bringBackCommand() *cobra.Command {
	var p keptwork.Request
	var yes bool
	cmd := &cobra.Command{
		Use: "back [ID] [PATH...]", Short: "Bring kept work back",
		Long: `Bring kept work back. Without an ID it is the last destruction in this working tree, after a
question. Only files that the command changed are written, and of those only files that
nothing changed since; the others are listed, and their names bring them back. The state of
now is kept first. With --into all files are written into a new folder, and entries of the
stash into folders of it. Branches and commits never move.

The work that a continuation kept is brought into a working tree of the same repository,
that of --into or the one that it is from. If another commit is checked out there, the
changes are merged with it. A file with changes of its own is named, and nothing is changed.`,
		Example: "  parley files back\n  parley files back s12 src/main.go\n  parley files back s12 --into ../found",
	}
	cmd.Flags().StringVar(&p.Into, "into", "", "new folder that gets all of it; of the work of a continuation the working tree")
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
		if isOfContinuation(err) && p.Tree == "" {
			if len(p.Paths) > 0 {
				return usagef("%s is the work of a continuation, which comes back whole; leave the paths out", p.ID)
			}
			return a.applyRescue(ctx, api.RescueParams{ID: hub.RescueID(p.ID), Folder: p.Into})
		}
		if err != nil {
			return err
		}
		return a.print(got, func(w io.Writer) { writeBack(w, got) })
	}, treeFlag(cmd, &p.Tree, "."), func(_ context.Context, args []string) error {
		if len(args) > 0 && hub.KeptID(args[0]).Number() > 0 {
			p.ID = hub.KeptID(args[0])
			p.Tree = ""
			args = args[1:]
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
	text := fmt.Sprintf("%s, %s: %s, +%d -%d", occasionText(plan.Work), ago(plan.Work.At), countFiles(len(plan.Files)), plan.Work.Added, plan.Work.Removed)
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
	cmd := &cobra.Command{
		Use: "drop ID", Short: "Remove kept work and its content", Args: cobra.ExactArgs(1), Example: "  parley files drop s12",
		Long: "Remove kept work. Its content is gone, but for the files that other kept work has.",
	}
	return prepared(cmd, func(ctx context.Context) error {
		_, err := call(ctx, a, api.DropKeptWork, p)
		if isOfContinuation(err) {
			_, err = call(ctx, a, api.DropRescue, api.RescueParams{ID: hub.RescueID(p.ID)})
		}
		if err != nil {
			return err
		}
		return a.print(api.None{}, func(w io.Writer) { fmt.Fprintf(w, "%s is removed\n", p.ID) })
	}, argument(0, &p.ID))
}
