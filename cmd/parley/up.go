package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/up"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func (a *app) upCommand() *cobra.Command {
	var yes, commands, example, dry bool
	cmd := &cobra.Command{
		Use: "up [FILE]", Short: "Start the agents in parley.yaml",
		Long: `Have the hub keep the agents declared in a file (default parley.yaml). New agents are
added, agents that differ are changed, and stopped agents are restarted. Then the file's
teams are created, or get the members and roles that they lack. A second call changes
nothing. Agents and members that are not in the file stay as they are. If no hub is
running, one is started.

You see the plan and are asked to confirm. Scripts pass --yes; a command that is not a
known agent then also needs --allow-commands, because the file may come from others.`,
		Example: `  parley up --example
  parley up
  parley up team.yaml --yes --as-operator`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := cmp.Or(strings.Join(args, ""), up.Name)
			if example {
				return a.writeExample(path)
			}
			file, err := a.readUp(cmd.Context(), path)
			if err != nil {
				return err
			}
			return a.up(cmd.Context(), file, yes, commands, dry)
		},
	}

	f := cmd.Flags()
	f.BoolVar(&yes, "yes", false, "do not ask for confirmation")
	f.BoolVar(&commands, "allow-commands", false, "with --yes: also run commands that are not known agents")
	f.BoolVar(&dry, "dry-run", false, "print the plan, and change nothing")
	f.BoolVar(&example, "example", false, "write an example file, which must not exist yet")
	cmd.MarkFlagsMutuallyExclusive("example", "yes")
	cmd.MarkFlagsMutuallyExclusive("example", "dry-run")
	return cmd
}

func (a *app) downCommand() *cobra.Command {
	var forget bool
	cmd := &cobra.Command{
		Use: "down [FILE]", Short: "Stop the agents in parley.yaml; their mail is kept",
		Long: `Stop the agents declared in a file (default parley.yaml). Their mail is kept until
"parley up". The hub keeps running; "parley stop" stops it.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			file, err := a.readUp(ctx, cmp.Or(strings.Join(args, ""), up.Name))
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			plan, err := file.Down(ctx, c, forget)
			if err != nil {
				return err
			}
			return a.print(plan, func(w io.Writer) { writePlan(w, plan) })
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "remove the agents from the kept agents")
	return cmd
}

// writeExample writes an example of a file.
func (a *app) writeExample(path string) error {
	if err := up.WriteExample(path); err != nil {
		return err
	}
	return a.print(map[string]string{"file": path}, func(w io.Writer) { fmt.Fprintf(w, "wrote %s; edit it, then run \"parley up\"\n", path) })
}

// readUp reads a file of agents.
func (a *app) readUp(ctx context.Context, path string) (up.File, error) {
	raw, err := a.read(ctx, path, maxContent, hub.Errorf(hub.CodePayloadTooLarge, "parley", "%s is larger than %d bytes", path, maxContent))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return up.File{}, hub.Errorf(hub.CodeInvalid, "parley", "file %s does not exist", path).WithHint(`run "parley up --example" to write an example`)
	case err != nil:
		return up.File{}, err
	}
	return up.Parse(path, raw)
}

// planSigns are the signs of actions in a plan.
var planSigns = map[up.Action]string{up.Keep: "+", up.Create: "+", up.Change: "~", up.Restart: ">", up.Stop: "-", up.Forget: "-", up.None: "="}

// writePlan prints a plan, one line for each step.
func writePlan(w io.Writer, p up.Plan) {
	if p.Hub != "" {
		fmt.Fprintf(w, "start a hub in %s\n", p.Hub)
	}
	writeTable(w, "", p.Steps, func(s up.Step) []any { return []any{planSigns[s.Action], s.Name(), s.Reason} })
}

// up makes the hub keep the agents of a file, after a yes.
func (a *app) up(ctx context.Context, file up.File, yes, commands, dry bool) error {
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	running, err := a.runningHub(ctx, home)
	if err != nil {
		return err
	}

	// Without a hub everything in the file is new, and the plan names the home of the hub to start.
	var c *rpc.Client
	if running != nil {
		c = running.Client
	}
	plan, err := file.Plan(ctx, c)
	if err != nil {
		return err
	}
	if c == nil {
		plan.Hub = home
	}

	if dry || plan.Idle() {
		plan.Applied = !dry
		return a.print(plan, func(w io.Writer) { writePlan(w, plan) })
	}
	if !a.json {
		writePlan(a.err, plan)
	}
	if ok, err := a.agreed(ctx, plan, yes, commands); err != nil || !ok {
		return err
	}

	// The plan is agreed by now, so that a hub may be started.
	if c == nil {
		if c, plan, err = a.upWithHub(ctx, file, home); err != nil {
			return err
		}
	}
	if err := plan.Apply(ctx, c); err != nil {
		return err
	}
	return a.print(plan, func(w io.Writer) {
		fmt.Fprintf(w, "%d agents are up; run \"parley agent list --kept\" to list them\n", len(file.Agents))
	})
}

// upWithHub starts a hub in a home and returns its client, and the plan anew: the hub may
// keep some of the agents already.
func (a *app) upWithHub(ctx context.Context, file up.File, home string) (*rpc.Client, up.Plan, error) {
	settings, err := a.loadConfig(home)
	if err != nil {
		return nil, up.Plan{}, err
	}
	started, err := a.hubForRun(ctx, home, settings)
	if err != nil {
		return nil, up.Plan{}, err
	}
	plan, err := file.Plan(ctx, started.Client)
	plan.Hub = home
	return started.Client, plan, err
}

// agreed asks whether a plan may be carried out, and about each command that is no
// known agent.
func (a *app) agreed(ctx context.Context, plan up.Plan, yes, commands bool) (bool, error) {
	terminal := isTerminal(a.in)
	if !yes && !terminal {
		return false, usagef("the plan needs confirmation, and there is no terminal to ask on").WithHint("pass --yes to accept it, or --dry-run to see it")
	}
	for _, s := range plan.Steps {
		switch {
		case s.Asks == nil || (yes && commands):
		case yes || !terminal:
			return false, hub.Errorf(hub.CodeDenied, "parley", "agent %s runs a command that is not a known agent: %s", s.Agent, strings.Join(s.Asks, " ")).
				WithHint("pass --allow-commands to allow it")
		default:
			ok, err := a.askYes(ctx, fmt.Sprintf("Run %s, which is not a known agent, in %s?", strings.Join(s.Asks, " "), s.Dir()))
			if err != nil || !ok {
				return false, err
			}
		}
	}
	if yes {
		return true, nil
	}
	return a.askYes(ctx, "Carry out this plan? Turns cost tokens.")
}
