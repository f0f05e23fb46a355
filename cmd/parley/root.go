package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/guard"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func (a *app) hubFolderCommand() *cobra.Command {
	cmd := noun("folder", "Manage the folders where the hub checks handoffs", a.rootListCommand(), a.rootAddCommand(), a.rootRemoveCommand())
	cmd.Long = `Manage roots, the folders where the hub checks handoffs. The hub reads files and
repositories below a root to compare them with the claims of a handoff, and reads
nothing elsewhere. A change takes effect at once, without a restart.`
	return cmd
}

func (a *app) rootAddCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "add DIR", Short: "Let the hub read a folder (operator)",
		Long: `Let the hub read a folder to check handoffs. On a terminal you are asked to confirm;
scripts pass --as-operator. A folder that contains your home or the hub's home is
refused, and so is a path through a symbolic link.`,
		Example: `  parley hub folder add .`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return invalid(err)
			}
			if isTerminal(a.in) && !yes && !a.asOperator {
				if ok, err := a.askRoot(cmd.Context(), dir); err != nil || !ok {
					return err
				}
			}
			return answer(cmd.Context(), a, api.AddRoot, api.RootParams{Path: dir}, writeRootAdded)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// askRoot asks the person at the terminal whether the hub may read a folder.
func (a *app) askRoot(ctx context.Context, dir string) (bool, error) {
	ok, err := a.askYes(ctx, fmt.Sprintf("May the hub read the files in %s to check handoffs?", dir))
	if err == nil && !ok {
		fmt.Fprintln(a.err, "no root was added")
	}
	return ok, err
}

// offerRoot offers the operator at the terminal to make a folder a root, unless it lies
// under one. Without a yes the command goes on, after a line about the missing part.
func (a *app) offerRoot(ctx context.Context, c *rpc.Client, dir string) error {
	dir, err := realPath(dir)
	if err != nil {
		return err
	}

	list, err := rpc.Call(ctx, c, api.ListRoots, api.None{})
	if err != nil {
		return nil // a hub of an earlier version has no such list
	}
	// A root stands for the linked working trees of its repository, too.
	for _, folder := range []string{dir, guard.MainTree(dir)} {
		for _, r := range list.Roots {
			if rel, err := filepath.Rel(r.Path, folder); err == nil && filepath.IsLocal(rel) {
				return nil
			}
		}
	}

	// Only the operator adds a root: a caller with the key of an agent is not asked.
	operates := a.asOperator || (a.keyFile == "" && os.Getenv("PARLEY_KEY") == "")
	if isTerminal(a.in) && operates {
		switch ok, err := a.askRoot(ctx, dir); {
		case err != nil:
			return err
		case ok:
			added, err := rpc.Call(ctx, c, api.AddRoot, api.RootParams{Path: dir})
			if err == nil {
				writeRootAdded(a.err, added)
				return nil
			}
			fmt.Fprintf(a.err, "%s %s\n", a.paint(a.err, "33", "warning:"), rpc.Describe(err, rpc.Commands).Message)
		}
	}

	fmt.Fprintf(a.err, "%s handoffs in %s are unproven until the operator runs \"parley hub folder add %s\"\n", a.paint(a.err, "33", "note:"), dir, dir)
	return nil
}

func writeRootAdded(w io.Writer, r hub.Root) {
	fmt.Fprintf(w, "%s is a root: the hub checks handoffs there\n", r.Path)
}

func (a *app) rootListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List roots", Args: cobra.NoArgs}
	return operation(a, cmd, api.ListRoots, &api.None{}, func(w io.Writer, got api.RootList) {
		writeList(w, "roots", "PATH, ADDED, BY", got.Roots, func(r hub.Root) []any { return []any{r.Path, r.AddedAt, r.AddedBy} })
	})
}

func (a *app) rootRemoveCommand() *cobra.Command {
	var p api.RootParams
	cmd := &cobra.Command{Use: "remove DIR", Short: "Stop the hub from reading a folder (operator)", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.RemoveRoot, &p, func(w io.Writer, r hub.Root) {
		fmt.Fprintf(w, "%s is no longer a root: the hub does not check handoffs there\n", r.Path)
	}, func(_ context.Context, args []string) (err error) {
		p.Path, err = filepath.Abs(args[0])
		return err
	})
}
