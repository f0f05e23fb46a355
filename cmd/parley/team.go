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
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/surface/api"
)

func (a *app) teamCommand() *cobra.Command {
	cmd := group("team", "Work in teams: members with roles, tasks, decisions",
		a.teamNewCommand(),
		a.teamListCommand(),
		a.teamShowCommand(),
		a.teamAddCommand(),
		a.teamRemoveCommand(),
		a.teamRoleCommand(),
		a.teamTaskCommand(),
		a.teamDecideCommand(),
		a.teamArtifactCommand(),
		a.teamStatusCommand(),
		a.teamCloseCommand(),
		a.teamMove("archive", "Take a closed team out of the lists"),
		a.teamLogCommand(),
		a.teamPolicyCommand(),
	)
	cmd.Long = `Work in teams. A team has a goal, members with roles, tasks and decisions. The role
of an agent in the team decides what it may do there; parley team policy TEAM
prints which role may do what.`
	return cmd
}

// team completes a command that calls acp/team.
func (a *app) team(cmd *cobra.Command, p *api.TeamParams, preparations ...preparation) *cobra.Command {
	return operation(a, cmd, api.Team, p, writeTeam, preparations...)
}

func writeTeam(w io.Writer, got team.Answer) { fmt.Fprint(w, team.Render(got)) }

func (a *app) teamNewCommand() *cobra.Command {
	p := api.TeamParams{Action: "create", Policy: &team.Policy{}}
	var members []string
	cmd := &cobra.Command{
		Use: "new TEAM --goal TEXT --members NAME:ROLE[,NAME:ROLE...]", Short: "Create a team",
		Long: `Create a team. The operator may, and agents that are coordinators on the hub; such
an agent is the coordinator of its team. A new team is forming: its tasks can be
planned, and are started once parley team status TEAM active was run.`,
		Example: `  parley team new auth --goal "log in without a password" --members ana:coordinator,bo:executor,cy:reviewer`,
		Args:    cobra.ExactArgs(1),
	}

	f := cmd.Flags()
	f.StringVar(&p.Objective, "goal", "", "what the team is to reach")
	f.StringVar(&p.Name, "name", "", "title of the team (default its name)")
	f.StringSliceVar(&members, "members", nil, "agents with their roles: "+strings.Join(words(hub.Roles), ", "))
	f.Var(&p.Policy.MaxParallelTasks, "max-parallel", "tasks in progress at a time (default 6)")
	gates := listFlag(cmd, &p.Policy.HumanGateActions, "gate", "operations that wait for the operator: "+strings.Join(team.Gateable, ", "))
	f.StringVar((*string)(&p.Policy.DefaultVisibility), "visibility", "", "of messages with the team that name none (default team)")

	return a.team(cmd, &p, argument(0, &p.Team), gates, func(context.Context, []string) error {
		if p.Objective == "" {
			return usagef("a team needs a goal").WithHint("give it with --goal")
		}

		for _, m := range members {
			agent, role, ok := strings.Cut(m, ":")
			if !ok {
				return usagef("--members: %q has no role", m).WithHint("write NAME:ROLE, for example bo:executor")
			}
			p.Members = append(p.Members, team.Seat{Agent: hub.AgentID(agent), Role: hub.Role(role)})
		}
		return nil
	})
}

func (a *app) teamListCommand() *cobra.Command {
	p := api.TeamParams{Action: "list"}
	cmd := &cobra.Command{Use: "list", Short: "List teams: yours, or all for those who audit", Args: cobra.NoArgs}
	f := cmd.Flags()
	f.StringVar((*string)(&p.Member), "member", "", "teams of this agent")
	f.StringVar((*string)(&p.Lifecycle), "lifecycle", "", "one of "+strings.Join(words(hub.Lifecycles), ", ")+"; archived teams are listed with it alone")
	f.Var(&p.Limit, "limit", "how many at most (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "next page")
	choices(cmd, "lifecycle", hub.Lifecycles...)
	return operation(a, cmd, api.Team, &p, func(w io.Writer, got team.Answer) {
		writeList(w, "teams", "TEAM, LIFECYCLE, MEMBERS, OPEN TASKS, GOAL", got.Teams, func(v team.View) []any {
			open := 0
			for state, n := range v.TaskCounts {
				if !state.Over() {
					open += n
				}
			}
			return []any{v.ID, v.Lifecycle, len(v.Members), open, v.Objective}
		})
	})
}

func (a *app) teamShowCommand() *cobra.Command {
	p := api.TeamParams{Action: "show"}
	cmd := &cobra.Command{Use: "show TEAM", Short: "Show a team with its members and tasks", Args: cobra.ExactArgs(1)}
	f := cmd.Flags()
	f.StringVar((*string)(&p.State), "state", "", "tasks in this state: "+strings.Join(words(hub.TaskStates), ", "))
	f.StringVar((*string)(&p.Owner), "owner", "", "tasks of this agent")
	f.Var(&p.Limit, "limit", "how many tasks at most (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "next page of tasks")
	choices(cmd, "state", hub.TaskStates...)
	return a.team(cmd, &p, argument(0, &p.Team))
}

func (a *app) teamAddCommand() *cobra.Command {
	p := api.TeamParams{Action: "add"}
	cmd := &cobra.Command{Use: "add TEAM AGENT", Short: "Make an agent a member of a team", Args: cobra.ExactArgs(2)}
	cmd.Flags().StringVar((*string)(&p.Role), "role", "", "its role (default executor)")
	choices(cmd, "role", hub.Roles...)
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Agent))
}

func (a *app) teamRemoveCommand() *cobra.Command {
	p := api.TeamParams{Action: "remove"}
	cmd := &cobra.Command{
		Use: "remove TEAM AGENT", Short: "End the membership of an agent",
		Long: "End the membership of an agent; its tasks go back to the backlog. A member can remove itself.", Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, which the members are told")
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Agent))
}

func (a *app) teamRoleCommand() *cobra.Command {
	p := api.TeamParams{Action: "role"}
	var accept, refuse bool
	cmd := &cobra.Command{
		Use: "role TEAM AGENT [ROLE]", Short: "Propose, accept or change a role",
		Long: `Propose a role for a member, or accept one. The role counts when the member has
accepted it; a coordinator who gives a reason changes it at once.`,
		Example: `  parley team role auth bo reviewer                      # propose
  parley team role auth bo --accept                      # bo agrees
  parley team role auth bo reviewer --reason coverage    # at once, by a coordinator`,
		Args: cobra.RangeArgs(2, 3),
	}
	f := cmd.Flags()
	f.StringVar(&p.Reason, "reason", "", "change it at once: "+strings.Join(hub.RoleReasons, ", "))
	f.StringVar((*string)(&p.SwapWith), "swap-with", "", "the member that has the role now, and gets the other one")
	f.BoolVar(&accept, "accept", false, "agree to the proposed role")
	f.BoolVar(&refuse, "refuse", false, "refuse the proposed role")
	cmd.MarkFlagsMutuallyExclusive("accept", "refuse", "reason")
	choices(cmd, "reason", hub.RoleReasons...)
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Agent), argument(2, &p.Role), func(context.Context, []string) error {
		if accept || refuse {
			p.Accept = &accept
		} else if p.Role == "" {
			return usagef("no role").WithHint("name one of %s, or use --accept", strings.Join(words(hub.Roles), ", "))
		}
		return nil
	})
}

func (a *app) teamTaskCommand() *cobra.Command {
	p := api.TeamParams{Action: "task"}
	var depends []string
	cmd := &cobra.Command{
		Use: "task TEAM TITLE|T-NUMBER", Short: "Create a task; or show, assign and move one",
		Long: `Create a task with a title. With the id of a task, assign it (--owner, --reviewer),
move it (--state, with --reason where it needs one), or show it.`,
		Example: `  parley team task auth "rotate the keys" --class guarded --depends T-3
  parley team task auth T-12 --owner bo --reviewer cy
  parley team task auth T-12 --state blocked --reason dependency`,
		Args: cobra.ExactArgs(2),
	}

	f := cmd.Flags()
	f.StringVar((*string)(&p.Class), "class", "", "of a new task: "+strings.Join(words(hub.TaskClasses), ", ")+" (default normal)")
	f.StringSliceVar(&depends, "depends", nil, "tasks that must be done first; replaces those of before ('' for none)")
	f.StringVar((*string)(&p.Owner), "owner", "", "member that works on it")
	f.StringVar((*string)(&p.Reviewer), "reviewer", "", "member that reviews it")
	f.StringVar((*string)(&p.State), "state", "", "move it: "+strings.Join(words(hub.TaskStates), ", "))
	f.StringVar(&p.Reason, "reason", "", "blocked: "+strings.Join(hub.BlockReasons, ", ")+"; rework, backlog and dropped: why")
	choices(cmd, "class", hub.TaskClasses...)
	choices(cmd, "state", hub.TaskStates...)

	return a.team(cmd, &p, argument(0, &p.Team), func(_ context.Context, args []string) error {
		// An argument that is no id of a task is the title of a new one.
		if p.Task = hub.TaskID(args[1]); !p.Task.Valid() {
			p.Task, p.Title = "", args[1]
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
		Use: "decide TEAM DECISION --because WHY", Short: "Record a decision of a team",
		Long: "Record a decision of a team: a coordinator decides, other members propose.", Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&p.Rationale, "because", "", "the reason")
	cmd.Flags().StringVar(&p.Title, "title", "", "what it is about (default the decision)")
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Decision), func(context.Context, []string) error {
		if p.Rationale == "" {
			return usagef("a decision needs a reason").WithHint("give it with --because")
		}
		return nil
	})
}

func (a *app) teamStatusCommand() *cobra.Command {
	p := api.TeamParams{Action: "status"}
	cmd := &cobra.Command{
		Use: "status TEAM [LIFECYCLE]", Short: "Show how far a team has come, or move it on",
		Long: "Show how far a team has come, or move it: forming, active, incident and back to\nactive, stabilizing, closed, archived. Its coordinators may, and the operator.", Args: cobra.RangeArgs(1, 2),
	}
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Lifecycle))
}

func (a *app) teamCloseCommand() *cobra.Command {
	p := api.TeamParams{Action: "close"}
	cmd := &cobra.Command{
		Use: "close TEAM", Short: "Close a team whose tasks are all done or dropped",
		Long: `Close a team whose tasks are all done or dropped. A team with versions of artifacts
that are still to be merged is closed with --anyway only: they are abandoned, and
cannot be merged later.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&p.Anyway, "anyway", false, "abandon versions that are not merged")
	return a.team(cmd, &p, argument(0, &p.Team))
}

// teamMove returns a command that needs the name of a team.
func (a *app) teamMove(action, short string) *cobra.Command {
	p := api.TeamParams{Action: action}
	return a.team(&cobra.Command{Use: action + " TEAM", Short: short, Args: cobra.ExactArgs(1)}, &p, argument(0, &p.Team))
}

func (a *app) teamLogCommand() *cobra.Command {
	var p api.TeamLogParams
	cmd := &cobra.Command{Use: "log TEAM", Short: "Show what has happened in a team, oldest first", Args: cobra.ExactArgs(1)}
	cmd.Flags().Int64Var(&p.After, "after", 0, "entries after this number")
	cmd.Flags().Var(&p.Limit, "limit", "how many at most (default 50)")
	return operation(a, cmd, api.TeamLog, &p, func(w io.Writer, got team.Log) {
		writeList(w, "entries", "N, AT, BY, ACTION, FACTS", got.Entries, func(e hub.Entry) []any {
			return []any{e.Seq, e.At, e.Actor, e.Action, factsText(e)}
		})
	}, argument(0, &p.Team))
}

func (a *app) teamPolicyCommand() *cobra.Command {
	var p api.TeamPolicyParams
	var set []string
	cmd := &cobra.Command{
		Use: "policy TEAM", Short: "Print which role may do what in a team, or change it (operator)",
		Long: `Print which role may do what in a team. The operator changes cells of this table
with --set ROLE:ACTION=VALUE. Actions: ` + strings.Join(words(hub.TeamActions), ", ") + `.
Values: ` + strings.Join(words(hub.Permits), ", ") + `; merge allows it for merge tasks, guarded for
guarded and high-risk ones.`,
		Example: `  parley team policy auth --set reviewer:block=deny`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "change a cell: ROLE:ACTION=VALUE (repeatable)")
	return operation(a, cmd, api.TeamPolicy, &p, writeGrid, argument(0, &p.Team), func(context.Context, []string) error {
		for _, s := range set {
			cell, err := parseCell(s)
			if err != nil {
				return err
			}
			p.Set = append(p.Set, cell)
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
		return c, usagef("--set: %q is not ROLE:ACTION=VALUE", s)
	case !c.Role.Known():
		return c, usagef("--set: %q is not a role", role).WithHint("use %s", strings.Join(words(hub.Roles), ", "))
	case !slices.Contains(hub.TeamActions, c.Action):
		return c, usagef("--set: %q is not an action", action).WithHint("use %s", strings.Join(words(hub.TeamActions), ", "))
	case !slices.Contains(hub.Permits, c.Permit):
		return c, usagef("--set: %q is not a value", value).WithHint("use %s", strings.Join(words(hub.Permits), ", "))
	}
	return c, nil
}

// writeGrid writes the matrix of a team as a table; cells that the operator changed have
// a star.
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
}
