package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	cmd := a.demo(&cobra.Command{
		Use: "demo", Short: "Watch two agents talk and hand a task over, on a temporary hub",
		Long: `Watch two agents talk and hand a task over. The demo runs on a hub of its own in
a temporary folder, with a git repository of its own, and leaves nothing behind.`,
	}, demo.Task, &keep)
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the hub's folder")
	cmd.AddCommand(a.demo(&cobra.Command{
		Use: "coordination", Short: "Watch two hubs agree on a contract, also while one of them is away",
		Long: `Watch two hubs agree on a contract, lose the connection and catch up. The demo
runs on two hubs of its own in a temporary folder and leaves nothing behind.`,
	}, demo.Coordination, new(bool)))
	return cmd
}

// demoColours are the colours of the actors in demos.
var demoColours = map[string]string{"planner": "36", "builder": "35", "backend": "36", "frontend": "35"}

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
		if *keep {
			fmt.Fprintf(a.err, "the hub's home is %s\n", filepath.Join(dir, demo.Home))
		} else {
			defer os.RemoveAll(dir)
		}
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
		return a.print(map[string]any{"scenes": lines}, func(io.Writer) {})
	}
	return cmd
}
