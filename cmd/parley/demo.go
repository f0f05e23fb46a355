package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/desk/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	cmd := a.demo(&cobra.Command{
		Use: "demo", Short: "Watch two agents hand over a task",
		Long: `Watch two agents talk and hand over a task. The demo runs on its own hub in a
temporary folder, with its own git repository, and leaves nothing behind. With --keep,
the folder stays and a hub keeps running in it, so you can try commands.`,
	}, demo.Task, &keep)
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the folder and leave a hub running in it")

	cmd.AddCommand(a.demo(&cobra.Command{
		Use: "coordination", Short: "Watch two hubs agree on a contract",
		Long: `Watch two hubs agree on a contract, lose the connection and catch up. The demo runs
on two hubs of its own in a temporary folder and leaves nothing behind.`,
	}, demo.Coordination, new(bool)))

	cmd.AddCommand(a.demo(&cobra.Command{
		Use: "landing", Short: "Watch branches land in main, and bad ones come back",
		Long: `Watch three agents land branches in main through a queue: one conflicts, one is a lie, and
two pass alone and break together. Main passes its check after every landing. The demo
runs on its own hub in a temporary folder, with its own git repository, and leaves
nothing behind.`,
	}, demo.Landing, new(bool)))

	cmd.AddCommand(a.demo(&cobra.Command{
		Use: "contracts", Short: "Watch a breaking change being stopped before it is merged",
		Long: `Watch two repositories with a contract. The provider takes a property away that a
consumer uses: it learns who breaks and by which document, and its branch may not be
merged until it makes the change without breaking anybody. The demo runs on its own hub
in a temporary folder and leaves nothing behind.`,
	}, demo.Contracts, new(bool)))

	// The agents of these demos are processes of this program.
	agents := a.processDemo(&cobra.Command{
		Use: "agents", Short: "Watch a hub run an agent and check its report",
		Long: `Watch a hub keep an agent: a handoff starts it, its first report is false and is
refused, and the agent corrects it. The agent is this program following a script; no
model is used. The demo runs on its own hub in a temporary folder and leaves nothing
behind.`,
	}, demo.Agents, func(ctx context.Context) error { return demo.Builder(ctx, a.in, a.out.raw) })
	teams := a.processDemo(&cobra.Command{
		Use: "team", Short: "Watch a team work in three ways",
		Long: `Watch a team work in three ways: research, a draft and its review; three hypotheses in
parallel; and work packets on one file with a merge conflict. Each member is a process
of this program following a script; no model is used. The demo runs on its own hub in a
temporary folder and leaves nothing behind.`,
	}, demo.Team, func(ctx context.Context) error { return demo.Member(ctx, a.in) })

	files := a.processDemo(&cobra.Command{
		Use: "files", Short: "Watch two agents that need the same file",
		Long: `Watch two agents that need the same file of one repository: the second is refused, waits,
and is woken when the first has committed. Each agent is a process of this program
following a script; no model is used. The demo runs on its own hub in a temporary folder
and leaves nothing behind.`,
	}, demo.Files, func(ctx context.Context) error { return demo.Editor(ctx, a.in, a.out.raw) })

	cmd.AddCommand(agents, teams, files)
	return cmd
}

// processDemo completes the command of a demo whose agents are processes of this
// program: the same command with a hidden flag.
func (a *app) processDemo(cmd *cobra.Command, run func(command ...string) demo.Demo, be func(context.Context) error) *cobra.Command {
	const flag = "as-agent"
	a.demo(cmd, func(ctx context.Context, dir, version string, tell func(actor, text string)) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return run(self, "demo", cmd.Name(), "--"+flag)(ctx, dir, version, tell)
	}, new(bool))
	show := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if agent, _ := cmd.Flags().GetBool(flag); agent {
			return be(cmd.Context())
		}
		return show(cmd, args)
	}
	cmd.Flags().Bool(flag, false, "be an agent of the demo")
	cmd.Flags().MarkHidden(flag)
	return cmd
}

// demoColours are the colours of the actors in demos.
var demoColours = map[string]string{"planner": "36", "builder": "35", "backend": "36", "frontend": "35", "ana": "36", "rita": "35", "dan": "33", "ben": "32", "cleo": "34", "eva": "31", "ivo": "95", "ada": "36"}

// demo completes a command that runs a demo in a temporary folder.
func (a *app) demo(cmd *cobra.Command, run demo.Demo, keep *bool) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := os.MkdirTemp("", "parley-demo-")
		if err != nil {
			return err
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil { // a root is not reached through a link
			return err
		}
		if !*keep {
			defer os.RemoveAll(dir)
		}

		// The lines are also collected, for the answer in JSON.
		var lines []string
		err = run(cmd.Context(), dir, version(), func(actor, text string) {
			lines = append(lines, strings.TrimSpace(actor+"  "+text))
			if actor != "" {
				text = a.paint(a.out, demoColours[actor], fmt.Sprintf("%-8s", actor)) + " " + text
			}
			if !a.json {
				fmt.Fprintln(a.out, text)
			}
		})
		if err != nil {
			return err
		}

		result := map[string]any{"scenes": lines}
		if *keep {
			home := filepath.Join(dir, demo.Home)
			if err := a.detachHub(cmd.Context(), home, "--addr", "127.0.0.1:0"); err != nil {
				return err
			}
			result["folder"], result["home"] = dir, home
			typed := a.typed(home)
			fmt.Fprintf(a.err, "  try it:       %s agent list\n                %[1]s query avatar\n                %[1]s handoff list\n"+
				"                %[1]s send builder \"Is the migration written?\"\n  its folder is %s; remove it after stopping the hub\n", typed, dir)
		}

		return a.print(result, func(io.Writer) {})
	}
	return cmd
}
