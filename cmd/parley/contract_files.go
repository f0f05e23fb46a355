package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/desk/contractfile"
	"github.com/parley-agents/parley/internal/operation/coordination"
)

// filesLong describes the file that push, pull and status read.
const filesLong = `
The file parley.contracts.yaml of the folder names the files of contracts:

  repository: backend-api
  provides: [{name: User, file: api/user.json}]
  uses: [{name: Order, parts: [Order.total], file: contracts/order.yaml}]`

// A filesRun is one run of push, pull or status: the folder, and its files compared with the hub.
type filesRun struct {
	in      coordination.InProject
	folder  *contractfile.Folder
	entries []contractfile.Entry
}

// contractFilesCommand completes a command about the files of a folder.
func (a *app) contractFilesCommand(cmd *cobra.Command, run func(context.Context, *filesRun) error) *cobra.Command {
	cmd.Long += "\n" + filesLong
	cmd.Args = cobra.MaximumNArgs(1)
	var r filesRun
	find := a.inProject(cmd, &r.in)
	return prepared(cmd, func(ctx context.Context) error {
		defer r.folder.Close()
		c, err := a.client()
		if err != nil {
			return err
		}
		if r.entries, err = r.folder.Compare(ctx, c, r.in.Project); err != nil {
			return err
		}
		return run(ctx, &r)
	}, func(ctx context.Context, args []string) (err error) {
		if r.folder, err = contractfile.Read(cmp.Or(strings.Join(args, ""), ".")); err != nil {
			return err
		}
		r.in.Project = cmp.Or(r.in.Project, r.folder.Project)
		if err := find(ctx, args); err != nil {
			r.folder.Close()
			return err
		}
		return nil
	})
}

func (a *app) contractStatusCommand() *cobra.Command {
	return a.contractFilesCommand(&cobra.Command{
		Use: "status [DIR]", Short: "Compare the files of contracts with the hub (for CI)",
		Long: `Compare the files of contracts in a folder with the hub. A file is same, ahead (you
changed it), behind (the hub has a newer version), in conflict (both), or new. The exit
code is 1 unless all are the same. Each difference is shown by its JSON pointer.`,
	}, func(_ context.Context, r *filesRun) error {
		states := contractfile.StatesOf(r.entries)
		return a.check(states.Same(), states, func(w io.Writer) { a.writeStates(w, states) })
	})
}

// writeStates prints one line for each file, and the differences.
func (a *app) writeStates(w io.Writer, s contractfile.States) {
	for _, f := range s.Files {
		fmt.Fprintf(w, "%-8s  %s", f.State, f.Name)
		if f.File != "" {
			fmt.Fprintf(w, "  %s", f.File)
		}
		if f.Verdict != "" {
			fmt.Fprintf(w, "  %s", a.paint(w, verdictColours[f.Verdict], string(f.Verdict)))
		}
		fmt.Fprintln(w)
		for _, at := range f.Drift {
			fmt.Fprintf(w, "  %s\n", cmp.Or(at, "the whole document"))
		}
	}
}

func (a *app) contractPullCommand() *cobra.Command {
	var force bool
	cmd := a.contractFilesCommand(&cobra.Command{
		Use: "pull [DIR]", Short: "Write the agreed versions of contracts to files",
		Long: `Write the agreed versions of the contracts in parley.contracts.yaml to their files, and
parley.contracts.lock. A file that you changed is left as it is unless --force is given.`,
	}, func(ctx context.Context, r *filesRun) error {
		written, err := r.folder.Pull(r.entries, force)
		if err != nil {
			return err
		}
		states, err := a.compareAgain(ctx, r)
		if err != nil {
			return err
		}
		return a.print(states, func(w io.Writer) {
			for _, name := range written {
				fmt.Fprintf(w, "wrote %s\n", name)
			}
			a.writeStates(w, states)
		})
	})
	cmd.Flags().BoolVar(&force, "force", false, "replace files that you changed")
	return cmd
}

// compareAgain compares the files with the hub after a change.
func (a *app) compareAgain(ctx context.Context, r *filesRun) (contractfile.States, error) {
	c, err := a.client()
	if err != nil {
		return contractfile.States{}, err
	}
	entries, err := r.folder.Compare(ctx, c, r.in.Project)
	return contractfile.StatesOf(entries), err
}

func (a *app) contractPushCommand() *cobra.Command {
	var yes, force bool
	cmd := a.contractFilesCommand(&cobra.Command{
		Use: "push [DIR]", Short: "Propose the files of contracts that you changed",
		Long: `Propose the provided files that differ from the hub as new contracts or new versions, and
declare the parts that the repository uses. The verdict for each consumer is shown first,
and you are asked on a terminal. A file that lacks the hub's newest version is refused
unless --force is given.`,
	}, func(ctx context.Context, r *filesRun) error {
		if ok, err := a.confirmPush(ctx, r.entries, force, yes); err != nil || !ok {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		pushed, err := r.folder.Push(ctx, c, r.in.Project, r.entries, force)
		if err != nil {
			return err
		}
		states, err := a.compareAgain(ctx, r)
		if err != nil {
			return err
		}
		return a.print(states, func(w io.Writer) { a.writePushed(w, pushed) })
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&force, "force", false, "replace newer versions of the hub")
	return cmd
}

// confirmPush shows the verdicts about changed files and asks the person at the terminal.
func (a *app) confirmPush(ctx context.Context, entries []contractfile.Entry, force, yes bool) (bool, error) {
	changes := 0
	for _, e := range entries {
		if !e.Pushes(force) {
			continue
		}
		changes++
		if e.Diff != nil {
			fmt.Fprintf(a.err, "%s: ", e.Name)
			a.writeDiff(a.err, *e.Diff)
		}
	}
	if changes == 0 || yes || !isTerminal(a.in) {
		return true, nil
	}
	return a.askYes(ctx, fmt.Sprintf("Push %s?", counted(changes, "change")))
}

// writePushed prints the hub's answers.
func (a *app) writePushed(w io.Writer, pushed []contractfile.Pushed) {
	if len(pushed) == 0 {
		fmt.Fprintln(w, "nothing to push")
	}
	for _, p := range pushed {
		switch {
		case p.Proposal != nil:
			fmt.Fprintf(w, "%s: ", p.Name)
			a.writeProposed(w, *p.Proposal)
		case p.Use != nil:
			fmt.Fprintf(w, "%s uses %s: %s\n", p.Use.Repository, p.Name, partsText(p.Use.Parts))
		}
	}
}
