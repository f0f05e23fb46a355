package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/work/keeper"
)

func (a *app) continueCommand() *cobra.Command {
	return nounVerb(a.continueTaskCommand(), a.continuationsCommand())
}

// continueTaskCommand returns the command that lets a task go on with another agent.
func (a *app) continueTaskCommand() *cobra.Command {
	var p api.ContinueParams
	var terminal bool
	cmd := &cobra.Command{
		Use: "continue HANDOFF|TASK --with CLI|AGENT|self", Short: "Continue a task whose agent cannot go on",
		Long: `Hand the task of an agent that cannot go on to another one: an agent of this hub, a new
agent of a CLI that the hub runs in the same folder, or the same agent again. The hub
keeps the uncommitted work first ("parley files kept") and proposes the task as a
handoff of the first agent. The next owner starts with a short text about the task and
accepts it. With --terminal the CLI opens in this terminal. A task of a team is named by
its id, such as T-3, and goes on with a member of the team.`,
		Example: `  parley continue h3 --with codex
  parley continue T-3 --with reviewer
  parley continue h3 --with claude --terminal`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.With, "with", "", "the next owner: a CLI, an agent, or self")
	cmd.Flags().BoolVar(&terminal, "terminal", false, "open the CLI in this terminal")

	return prepared(cmd, func(ctx context.Context) error {
		if p.With == "" {
			return usagef("--with is required: a CLI, an agent of this hub, or self")
		}
		if terminal {
			return a.continueHere(ctx, p)
		}
		p.Command, p.Path = successorProgram(p.With)
		got, err := call(ctx, a, api.ContinueTask, p)
		if err != nil {
			return err
		}
		return a.print(got, func(w io.Writer) { writeContinued(w, got) })
	}, argument(0, &p.Handoff))
}

// successorProgram returns the command of a CLI by its path, with the PATH under which it was
// found. It is empty for agents, and for a CLI that is not installed.
func successorProgram(name string) (command []string, path string) {
	command, err := keptProgram(name, nil)
	if err != nil {
		return nil, ""
	}
	return command, os.Getenv("PATH")
}

// successors returns who takes over the tasks of a kept agent: names of CLIs, which must be
// installed, of agents, and self.
func successors(names []string) (out []keeper.Successor, err error) {
	for _, name := range names {
		s := keeper.Successor{Name: name}
		isCLI := slices.ContainsFunc(cli.Agents(), func(c cli.CLI) bool { return c.Name == name })
		if isCLI {
			if s.Command, err = keptProgram(name, nil); err != nil {
				return nil, err
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// continueHere makes an agent of a CLI, hands the task on to it, and opens the CLI in the folder
// of the task.
func (a *app) continueHere(ctx context.Context, p api.ContinueParams) error {
	c, err := cli.Lookup(p.With)
	if err != nil {
		return err
	}
	if hub.TaskID(p.Handoff).Valid() {
		return usagef("--terminal takes a handoff: a task of a team goes on with a member of the team")
	}
	shown, err := call(ctx, a, api.Handoff, api.HandoffParams{Action: "show", ID: p.Handoff})
	if err != nil {
		return err
	}
	name := hub.AgentID(fmt.Sprintf("%s-%s", shown.Report.To, c.Name))
	made, err := call(ctx, a, api.AddAgent, api.AgentParams{ID: name})
	if err != nil && hub.CodeOf(err) != hub.CodeConflict {
		return err
	}
	if err == nil { // the launch makes a key of its own
		if _, err := call(ctx, a, api.RevokeKeys, api.AgentParams{ID: name, Label: made.Label}); err != nil {
			return err
		}
	}

	p.With = string(name)
	got, err := call(ctx, a, api.ContinueTask, p)
	if err != nil {
		return err
	}
	writeContinued(a.err, got)
	if got.Folder != "" {
		if err := os.Chdir(got.Folder); err != nil {
			return err
		}
	}
	return a.launch(ctx, &launching{Launch: launch.Launch{CLI: c, As: name}}, nil)
}

// writeContinued says who continues a task.
func writeContinued(w io.Writer, c continuation.Continued) {
	if c.To == c.Of {
		fmt.Fprintf(w, "%s continues its task %q\n", c.Of, c.Title)
		return
	}
	next := cmp.Or(string(c.ShortIDs[c.Next]), string(c.Next))
	fmt.Fprintf(w, "%s is offered to %s: %q of %s\n", next, c.To, c.Title, c.Of)
	if c.Rescue != nil {
		fmt.Fprintf(w, "uncommitted work is kept as %s: %s\n", c.Rescue.ID, rescueText(*c.Rescue))
	}
}

// rescueText counts the changes of a rescue.
func rescueText(r hub.Rescue) string {
	return fmt.Sprintf("%s, +%d -%d", countFiles(r.Files), r.Insertions, r.Deletions)
}

// countFiles counts files in words.
func countFiles(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// continuationsCommand returns the command that lists continuations.
func (a *app) continuationsCommand() *cobra.Command {
	var p api.ContinuationListParams
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks whose agent could not go on", Args: cobra.NoArgs,
		Long: `List the tasks whose agent ran out of quota or context, lost its login, crashed, spent its
budget or was closed, with their next owners, newest first.`,
	}
	cmd.Flags().BoolVar(&p.Open, "open", false, "only tasks that no agent has taken")
	return operation(a, cmd, api.Continuations, &p, writeContinuations)
}

// writeContinuations writes continuations as a table, with the reason of each that no agent has taken.
func writeContinuations(w io.Writer, got continuation.Listing) {
	if len(got.Continuations) == 0 {
		fmt.Fprintln(w, "no task was continued")
		return
	}
	writeTable(w, "ID, HANDOFF, TASK, OF, REASON, STATE, TO, KEPT, WHEN", got.Continuations, func(c hub.Continuation) []any {
		kept := "-"
		if c.Rescue != nil {
			kept = fmt.Sprintf("%s (%s)", c.Rescue.ID, rescueText(*c.Rescue))
		}
		of := cmp.Or(string(got.ShortIDs[c.Handoff]), string(c.Handoff), c.Task)
		return []any{c.ID, of, c.Title, c.Of, c.Reason, c.State, cmp.Or(string(c.To), "-"), kept, ago(c.At)}
	})
	for _, c := range got.Continuations {
		if c.Why != "" && c.State != hub.ContinuationTaken {
			fmt.Fprintf(w, "%s: %s\n", c.ID, c.Why)
		}
	}
}

// writeRescue writes kept work as a patch.
func writeRescue(w io.Writer, got continuation.RescuePatch) {
	fmt.Fprintf(w, "%s of %s in %s, %s: %s\n", got.ID, got.Agent, got.Folder, when(got.At), rescueText(got.Rescue))
	fmt.Fprintf(w, "commit %s under %s in %s\n", got.Commit, got.Ref, got.Copy)
	for _, name := range got.Submodules {
		fmt.Fprintf(w, "not in it: changes inside the submodule %s\n", name)
	}
	for _, name := range got.Unreadable {
		fmt.Fprintf(w, "not in it: %s, which could not be read\n", name)
	}
	fmt.Fprintln(w, got.Patch)
	if got.Cut {
		fmt.Fprintln(w, "the patch has more")
	}
}

// applyRescue brings the work that a continuation kept into a working tree.
func (a *app) applyRescue(ctx context.Context, p api.RescueParams) error {
	got, err := call(ctx, a, api.ApplyRescue, p)
	if err != nil {
		return err
	}
	isApplied := len(got.Waits)+len(got.Conflicts) == 0
	return a.check(isApplied, got, func(w io.Writer) { writeApplied(w, got) })
}

// writeApplied says which files were changed, or why none was.
func writeApplied(w io.Writer, got continuation.Applied) {
	for _, text := range got.Waits {
		fmt.Fprintf(w, "not applied, %s\n", text)
	}
	for _, name := range got.Conflicts {
		fmt.Fprintf(w, "not applied, %s was changed differently since\n", name)
	}
	if len(got.Waits)+len(got.Conflicts) == 0 {
		fmt.Fprintf(w, "%s changed in %s: %s\n", countFiles(len(got.Paths)), got.Folder, strings.Join(got.Paths, ", "))
	}
	for _, name := range got.Kept {
		fmt.Fprintf(w, "a file that was in the way is kept as %s\n", name)
	}
}
