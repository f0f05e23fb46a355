package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/team"
)

func (a *app) teamCommand() *cobra.Command {
	cmd := noun("team", "Work in teams: roles, tasks, files", a.teamListCommand(),
		a.teamNewCommand(),
		a.teamShowCommand(),
		a.teamAddCommand(),
		a.teamRemoveCommand(),
		a.teamRoleCommand(),
		a.teamTaskCommand(),
		a.teamDecideCommand(),
		a.teamArtifactCommand(),
		a.teamStatusCommand(),
		a.teamCloseCommand(),
		a.teamMove("archive", "Archive a closed team"),
		a.teamLogCommand(),
		a.teamPolicyCommand(),
	)
	cmd.Long = `Work in teams. A team has a goal, members with roles, tasks and decisions. An agent's
role in the team determines what it may do there; "parley team policy TEAM" prints the
permissions of each role.`
	return cmd
}

// team completes a command that calls acp/team.
func (a *app) team(cmd *cobra.Command, p *api.TeamParams, preparations ...preparation) *cobra.Command {
	return operation(a, cmd, api.Team, p, writeTeam, preparations...)
}

func (a *app) teamNewCommand() *cobra.Command {
	p := api.TeamParams{Action: "create", Policy: &team.Policy{}}
	var members []string
	cmd := &cobra.Command{
		Use: "new TEAM --goal TEXT --members NAME:ROLE[,NAME:ROLE...]", Short: "Create a team",
		Long: `Create a team. Only the operator and agents that are coordinators on the hub can do
this; the agent becomes the coordinator of its team. A new team is forming: its tasks
can be planned, and can start after "parley team status TEAM active".`,
		Example: `  parley team new auth --goal "log in without a password" --members ana:coordinator,bo:executor,cy:reviewer`,
		Args:    cobra.ExactArgs(1),
	}

	f := cmd.Flags()
	f.StringVar(&p.Objective, "goal", "", "goal of the team")
	f.StringVar(&p.Name, "name", "", "title of the team (default its name)")
	f.StringSliceVar(&members, "members", nil, "agents with their roles: "+strings.Join(words(hub.Roles), ", "))
	f.Var(&p.Policy.MaxParallelTasks, "max-parallel", "maximum number of tasks in progress (default 6)")
	gates := listFlag(cmd, &p.Policy.HumanGateActions, "gate", "operations that need the operator's approval: "+strings.Join(team.Gateable, ", "))
	f.StringVar((*string)(&p.Policy.DefaultVisibility), "visibility", "", "visibility of the team's messages that do not set one (default team)")

	return a.team(cmd, &p, argument(0, &p.Team), gates, func(context.Context, []string) error {
		if p.Objective == "" {
			return usagef("a goal is required").WithHint("pass it with --goal")
		}

		for _, m := range members {
			agent, role, ok := strings.Cut(m, ":")
			if !ok {
				return usagef("--members: %q has no role", m).WithHint("use NAME:ROLE, for example bo:executor")
			}
			p.Members = append(p.Members, team.Seat{Agent: hub.AgentID(agent), Role: hub.Role(role)})
		}
		return nil
	})
}

func (a *app) teamListCommand() *cobra.Command {
	p := api.TeamParams{Action: "list"}
	cmd := &cobra.Command{Use: "list", Short: "List your teams, or all for auditors", Args: cobra.NoArgs}
	f := cmd.Flags()
	f.StringVar((*string)(&p.Member), "member", "", "only teams of this agent")
	f.StringVar((*string)(&p.Lifecycle), "lifecycle", "", "only teams with this lifecycle: "+strings.Join(words(hub.Lifecycles), ", ")+"; archived teams are left out by default")
	f.Var(&p.Limit, "limit", "maximum number of results (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page")
	choices(cmd, "lifecycle", hub.Lifecycles...)
	return operation(a, cmd, api.Team, &p, func(w io.Writer, got team.Answer) {
		writeList(w, "teams", "TEAM, LIFECYCLE, MEMBERS, OPEN TASKS, GOAL", got.Teams, func(v team.View) []any {
			open := 0
			for state, n := range v.TaskCounts {
				if !state.Over() {
					open += n
				}
			}
			return []any{v.ID, state(v.Lifecycle), len(v.Members), open, v.Objective}
		})
	})
}

func (a *app) teamShowCommand() *cobra.Command {
	p := api.TeamParams{Action: "show"}
	cmd := &cobra.Command{Use: "show TEAM", Short: "Show a team with its members and tasks", Args: cobra.ExactArgs(1)}
	f := cmd.Flags()
	f.StringVar((*string)(&p.State), "state", "", "only tasks in this state: "+strings.Join(words(hub.TaskStates), ", "))
	f.StringVar((*string)(&p.Owner), "owner", "", "only tasks of this agent")
	f.Var(&p.Limit, "limit", "maximum number of tasks (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page")
	choices(cmd, "state", hub.TaskStates...)
	return a.team(cmd, &p, argument(0, &p.Team))
}

func (a *app) teamAddCommand() *cobra.Command {
	p := api.TeamParams{Action: "add"}
	cmd := &cobra.Command{Use: "add TEAM AGENT", Short: "Add an agent to a team", Args: cobra.ExactArgs(2)}
	cmd.Flags().StringVar((*string)(&p.Role), "role", "", "role of the agent (default executor)")
	choices(cmd, "role", hub.Roles...)
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Agent))
}

func (a *app) teamRemoveCommand() *cobra.Command {
	p := api.TeamParams{Action: "remove"}
	cmd := &cobra.Command{
		Use: "remove TEAM AGENT", Short: "Remove an agent from a team",
		Long: "Remove an agent from a team; its tasks go back to the backlog. A member can remove itself.", Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&p.Reason, "reason", "", "reason, sent to the members")
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Agent))
}

func (a *app) teamRoleCommand() *cobra.Command {
	p := api.TeamParams{Action: "role"}
	var accept, refuse bool
	cmd := &cobra.Command{
		Use: "role TEAM AGENT [ROLE]", Short: "Propose, accept or change a role",
		Long: `Propose a role for a member, or accept one. The role takes effect when the member
accepts it; a coordinator who gives a reason changes it at once.`,
		Example: `  parley team role auth bo reviewer                      # propose
  parley team role auth bo --accept                      # bo agrees
  parley team role auth bo reviewer --reason coverage    # at once, by a coordinator`,
		Args: cobra.RangeArgs(2, 3),
	}
	f := cmd.Flags()
	f.StringVar(&p.Reason, "reason", "", "change the role at once, for this reason: "+strings.Join(hub.RoleReasons, ", "))
	f.StringVar((*string)(&p.SwapWith), "swap-with", "", "member that has the role now; the two swap roles")
	f.BoolVar(&accept, "accept", false, "accept the proposed role")
	f.BoolVar(&refuse, "refuse", false, "refuse the proposed role")
	cmd.MarkFlagsMutuallyExclusive("accept", "refuse", "reason")
	choices(cmd, "reason", hub.RoleReasons...)
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Agent), argument(2, &p.Role), func(context.Context, []string) error {
		if accept || refuse {
			p.Accept = &accept
		} else if p.Role == "" {
			return usagef("a role is required").WithHint("use one of %s, or --accept", strings.Join(words(hub.Roles), ", "))
		}
		return nil
	})
}

func (a *app) teamTaskCommand() *cobra.Command {
	p := api.TeamParams{Action: "task"}
	var depends []string
	cmd := &cobra.Command{
		Use: "task TEAM TITLE|T-NUMBER", Short: "Create, show, assign or move a task",
		Long: `Create a task with a title. With the id of a task, assign it (--owner, --reviewer), move
it (--state, with --reason if the state needs one), or show it.`,
		Example: `  parley team task auth "rotate the keys" --class guarded --depends T-3
  parley team task auth T-12 --owner bo --reviewer cy
  parley team task auth T-12 --state blocked --reason dependency`,
		Args: cobra.ExactArgs(2),
	}

	f := cmd.Flags()
	f.StringVar((*string)(&p.Class), "class", "", "class of a new task: "+strings.Join(words(hub.TaskClasses), ", ")+" (default normal)")
	f.StringSliceVar(&depends, "depends", nil, "tasks that must be done first; replaces the previous list ('' for none)")
	f.StringVar((*string)(&p.Owner), "owner", "", "member that works on the task")
	f.StringVar((*string)(&p.Reviewer), "reviewer", "", "member that reviews the task")
	f.StringVar((*string)(&p.State), "state", "", "move the task to this state: "+strings.Join(words(hub.TaskStates), ", "))
	f.StringVar(&p.Reason, "reason", "", "reason for blocked: "+strings.Join(hub.BlockReasons, ", ")+"; for rework, backlog and dropped: any text")
	f.StringArrayVar(&p.Checks, "check", nil, "check of the repository that must pass before the review of a new task (repeatable)")
	f.StringArrayVar(&p.Scope, "scope", nil, "file, folder or pattern that is reserved for the owner of a new task while it works (repeatable)")
	f.StringVar(&p.Worktree, "worktree", "", "folder of the files in --scope")
	choices(cmd, "class", hub.TaskClasses...)
	choices(cmd, "state", hub.TaskStates...)

	return a.team(cmd, &p, argument(0, &p.Team), func(_ context.Context, args []string) (err error) {
		// An argument that is no id of a task is the title of a new one.
		if p.Task = hub.TaskID(args[1]); !p.Task.Valid() {
			p.Task, p.Title = "", args[1]
		}
		if p.Worktree != "" {
			if p.Worktree, err = realPath(p.Worktree); err != nil {
				return err
			}
		}

		// An empty --depends removes all dependencies: the flag counts as soon as it is given.
		if cmd.Flags().Changed("depends") {
			on := []hub.TaskID{}
			for _, id := range list(strings.Join(depends, ",")) {
				on = append(on, hub.TaskID(id))
			}
			p.DependsOn = &on
		}
		return nil
	})
}

func (a *app) teamDecideCommand() *cobra.Command {
	p := api.TeamParams{Action: "decide"}
	cmd := &cobra.Command{
		Use: "decide TEAM DECISION --because WHY", Short: "Record a team's decision",
		Long: "Record a team's decision. A coordinator decides; a decision by another member is a proposal.", Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&p.Rationale, "because", "", "reason for the decision")
	cmd.Flags().StringVar(&p.Title, "title", "", "subject of the decision (default the decision itself)")
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Decision), func(context.Context, []string) error {
		if p.Rationale == "" {
			return usagef("a reason is required").WithHint("pass it with --because")
		}
		return nil
	})
}

func (a *app) teamStatusCommand() *cobra.Command {
	p := api.TeamParams{Action: "status"}
	cmd := &cobra.Command{
		Use: "status TEAM [LIFECYCLE]", Short: "Show or change a team's lifecycle",
		Long: "Show the lifecycle of a team, or move it: forming, active, incident and back to active,\nstabilizing, closed, archived. Only its coordinators and the operator can move it.", Args: cobra.RangeArgs(1, 2),
	}
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Lifecycle))
}

func (a *app) teamCloseCommand() *cobra.Command {
	p := api.TeamParams{Action: "close"}
	cmd := &cobra.Command{
		Use: "close TEAM", Short: "Close a team",
		Long: `Close a team whose tasks are all done or dropped. If versions of artifacts still have to
be merged, --anyway is required: they are abandoned and cannot be merged later.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&p.Anyway, "anyway", false, "abandon unmerged versions")
	return a.team(cmd, &p, argument(0, &p.Team))
}

// teamMove returns a command that needs the name of a team.
func (a *app) teamMove(action, short string) *cobra.Command {
	p := api.TeamParams{Action: action}
	return a.team(&cobra.Command{Use: action + " TEAM", Short: short, Args: cobra.ExactArgs(1)}, &p, argument(0, &p.Team))
}

func (a *app) teamLogCommand() *cobra.Command {
	var p api.TeamLogParams
	cmd := &cobra.Command{Use: "log TEAM", Short: "Show a team's history, oldest first", Args: cobra.ExactArgs(1)}
	cmd.Flags().Int64Var(&p.After, "after", 0, "only entries after this number")
	cmd.Flags().Var(&p.Limit, "limit", "maximum number of results (default 50)")
	return operation(a, cmd, api.TeamLog, &p, func(w io.Writer, got team.Log) {
		writeList(w, "entries", "N, AT, BY, ACTION, FACTS", got.Entries, func(e hub.Entry) []any {
			return []any{e.Seq, e.At, e.Actor, e.Action, factsText(e.Facts, nil)}
		})
	}, argument(0, &p.Team))
}

func (a *app) teamPolicyCommand() *cobra.Command {
	var p api.TeamPolicyParams
	var set, successors []string
	cmd := &cobra.Command{
		Use: "policy TEAM", Short: "Show or change the permissions of roles",
		Long: `Print the permissions of each role in a team. The operator can change cells of this
table with --set ROLE:ACTION=VALUE. The value merge allows an action for merge tasks,
guarded for guarded and high-risk tasks.

With --successors the operator names members that continue the team's tasks when their
owner cannot, in the order in which they are asked.

Actions: ` + strings.Join(words(hub.TeamActions), ", ") + `
Values: ` + strings.Join(words(hub.Permits), ", "),
		Example: `  parley team policy auth --set reviewer:block=deny
  parley team policy auth --successors bo,cy`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "change a cell: ROLE:ACTION=VALUE (repeatable)")
	cmd.Flags().StringSliceVar(&successors, "successors", nil, "members that continue tasks whose owner cannot; replaces the previous list ('' for none)")
	return operation(a, cmd, api.TeamPolicy, &p, writeGrid, argument(0, &p.Team), func(context.Context, []string) error {
		for _, s := range set {
			cell, err := parseCell(s)
			if err != nil {
				return err
			}
			p.Set = append(p.Set, cell)
		}
		if cmd.Flags().Changed("successors") {
			names := []hub.AgentID{}
			for _, name := range list(strings.Join(successors, ",")) {
				names = append(names, hub.AgentID(name))
			}
			p.Successors = &names
		}
		return nil
	})
}

// parseCell reads ROLE:ACTION=VALUE.
func parseCell(s string) (team.Cell, error) {
	role, rest, ok := strings.Cut(s, ":")
	action, value, ok2 := strings.Cut(rest, "=")
	c := team.Cell{Role: hub.Role(role), Action: hub.TeamAction(action), Permit: hub.Permit(value)}
	switch {
	case !ok || !ok2:
		return c, usagef("--set must be ROLE:ACTION=VALUE, got %q", s)
	case !c.Role.Known():
		return c, usagef("--set: unknown role %q", role).WithHint("use %s", strings.Join(words(hub.Roles), ", "))
	case !slices.Contains(hub.TeamActions, c.Action):
		return c, usagef("--set: unknown action %q", action).WithHint("use %s", strings.Join(words(hub.TeamActions), ", "))
	case !slices.Contains(hub.Permits, c.Permit):
		return c, usagef("--set: unknown value %q", value).WithHint("use %s", strings.Join(words(hub.Permits), ", "))
	}
	return c, nil
}

// writeGrid writes the matrix of a team as a table, and its successors; cells that the operator
// changed have a star.
func writeGrid(w io.Writer, g team.Grid) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ACTION\t"+strings.Join(words(hub.Roles), "\t"))
	for i, c := range g.Cells {
		if i%len(hub.Roles) == 0 {
			fmt.Fprint(t, c.Action)
		}
		star := ""
		if slices.Contains(g.Overridden, c) {
			star = "*"
		}
		fmt.Fprintf(t, "\t%s%s", c.Permit, star)
		if (i+1)%len(hub.Roles) == 0 {
			fmt.Fprintln(t)
		}
	}
	t.Flush()
	if len(g.Successors) > 0 {
		fmt.Fprintf(w, "\nsuccessors: %s\n", strings.Join(words(g.Successors), ", "))
	}
}
