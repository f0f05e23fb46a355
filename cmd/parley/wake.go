package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/parley-agents/parley/internal/reach/wake"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func (a *app) wakeCommand() *cobra.Command {
	return group("wake", "Report and wake the sessions of agent CLIs (for hooks)", a.wakeWatchCommand(), a.wakeArmCommand(), a.wakeHookCommand())
}

func (a *app) agentSessionsCommand() *cobra.Command {
	var p api.AgentNameParams
	cmd := &cobra.Command{Use: "sessions [NAME]", Short: "List agent sessions and their wake mechanisms", Args: cobra.MaximumNArgs(1)}
	return operation(a, cmd, api.ListSessions, &p, func(w io.Writer, got api.WakeList) {
		if got.Paused {
			fmt.Fprintln(w, `all wakes are paused; run "parley agent wake --all --on" to resume`)
		}
		type row struct {
			agent api.AgentWakes
			wake.Session
		}
		var rows []row
		for _, agent := range got.Agents {
			for _, s := range agent.Sessions {
				rows = append(rows, row{agent, s})
			}
			if len(agent.Sessions) == 0 {
				rows = append(rows, row{agent: agent})
			}
		}
		writeList(w, "sessions", "AGENT, CLI, STATE, SINCE, MECHANISM, WAKES, PROBE, FOLDER", rows, func(r row) []any {
			wakes := "off"
			if r.agent.Allowed {
				wakes = "on"
			}
			return []any{r.agent.Agent, cmp.Or(r.CLI, "-"), cmp.Or(string(r.State), "-"), ago(r.Since), cmp.Or(r.Mechanism, "-"), wakes, lastProbe(r.agent.Probe), cmp.Or(r.Cwd, "-")}
		})
	}, argument(0, &p.Agent))
}

// A wakeChange is what parley agent wake changes.
type wakeChange struct {
	of           string // an agent or team:NAME; empty for all agents
	all          bool
	on, off, now bool
	allow        api.WakeAllowParams
}

func (a *app) agentWakeCommand() *cobra.Command {
	var p wakeChange
	cmd := &cobra.Command{
		Use: "wake NAME|team:NAME|--all", Short: "Say whether mail may wake an agent, and let it or stop it",
		Long: `Say whether mail may wake an agent, and why not. A wake is a notice with an id and counts,
never the text of a message. It starts a turn in an idle session, which spends tokens, so
you must allow it once for each agent with --on (operator).

With --off mail waits in the inbox until --on. With --off --now running turns end, too,
also those of a team: agents that the hub runs are asked to stop and killed if they do
not; in a terminal the guard denies the next tool call. The answer says for each agent
what happened.`,
		Example: `  parley agent wake builder
  parley agent wake builder --on --per-hour 20
  parley agent wake --all --off
  parley agent wake team:core --off --now`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.BoolVar(&p.all, "all", false, "all agents on the hub")
	f.BoolVar(&p.on, "on", false, "let mail start turns")
	f.BoolVar(&p.off, "off", false, "stop mail from starting turns")
	f.BoolVar(&p.now, "now", false, "with --off: end running turns, too")
	f.BoolVar(&p.allow.Interrupt, "interrupt", false, "with --on: let critical mail from a coordinator interrupt a turn")
	f.IntVar(&p.allow.PerHour, "per-hour", 0, "with --on: maximum number of wakes per hour (default the hub's limit)")
	f.BoolVar(&p.allow.WithText, "with-text", false, "with --on: include your short messages in the notice; agents' text is never included")
	cmd.MarkFlagsMutuallyExclusive("on", "off")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			p.of = args[0]
		}
		if p.all == (p.of != "") {
			return usagef("name an agent, a team as team:NAME, or give --all").WithHint("for example: parley agent wake builder --on")
		}
		if p.now && !p.off {
			return usagef("--now ends turns together with --off")
		}
		isSetting := f.Changed("interrupt") || f.Changed("per-hour") || f.Changed("with-text")
		if isSetting && (!p.on || p.all) {
			return usagef("--interrupt, --per-hour and --with-text need a NAME and --on")
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		return a.changeWake(cmd.Context(), c, p, isSetting)
	}
	return cmd
}

// changeWake shows whether mail may wake agents, or changes it.
func (a *app) changeWake(ctx context.Context, c *rpc.Client, p wakeChange, isSetting bool) error {
	switch {
	case p.off && p.now:
		return answer(ctx, a, api.StopTurns, api.StopTurnsParams{Of: p.of, All: p.all}, writeStopped)
	case !p.on && !p.off:
		return a.showWake(ctx, p)
	case p.all:
		return a.pauseWake(ctx, api.WakePauseParams{All: true}, p.off)
	}

	names, err := namedAgents(ctx, c, p.of)
	if err != nil {
		return err
	}
	for _, name := range names {
		if p.off {
			err = a.pauseWake(ctx, api.WakePauseParams{Agent: name}, true)
		} else {
			p.allow.Agent = name
			err = a.allowWake(ctx, c, p.allow, isSetting)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namedAgents returns the agents that a word names: one, or the members of team:NAME.
func namedAgents(ctx context.Context, c *rpc.Client, of string) (out []hub.AgentID, err error) {
	team, isTeam := strings.CutPrefix(of, "team:")
	if !isTeam {
		return []hub.AgentID{hub.AgentID(of)}, nil
	}
	got, err := rpc.Call(ctx, c, api.Team, api.TeamParams{Action: "show", Team: hub.TeamID(team)})
	if err != nil {
		return nil, err
	}
	for _, m := range got.Team.Members {
		out = append(out, m.Agent)
	}
	return out, nil
}

// pauseWake stops mail from starting turns of one agent or all, or ends that.
func (a *app) pauseWake(ctx context.Context, p api.WakePauseParams, off bool) error {
	o := api.ResumeWake
	if off {
		o = api.PauseWake
	}
	return answer(ctx, a, o, p, func(w io.Writer, got api.PauseState) {
		of := cmp.Or(string(got.Agent), "all agents")
		if got.Paused {
			fmt.Fprintf(w, "the wakes of %s are paused; mail waits in the inbox\n", of)
			return
		}
		fmt.Fprintf(w, "wakes of %s are on\n", of)
	})
}

// allowWake lets mail start turns of an agent. Settings from before stay if none is given.
func (a *app) allowWake(ctx context.Context, c *rpc.Client, p api.WakeAllowParams, isSetting bool) error {
	now, err := rpc.Call(ctx, c, api.ListSessions, api.AgentNameParams{Agent: p.Agent})
	if err != nil {
		return err
	}
	if _, err := rpc.Call(ctx, c, api.ResumeWake, api.WakePauseParams{Agent: p.Agent}); err != nil {
		return err
	}
	isAllowed := len(now.Agents) == 1 && now.Agents[0].Allowed
	if isAllowed && !isSetting {
		return a.showWake(ctx, wakeChange{of: string(p.Agent)})
	}
	p.Allow = true
	return answer(ctx, a, api.AllowWake, p, func(w io.Writer, got api.AgentWakes) {
		fmt.Fprintf(w, "mail may start turns of %s\n", got.Agent)
	})
}

// showWake says whether mail may wake agents, and why not.
func (a *app) showWake(ctx context.Context, p wakeChange) error {
	if strings.HasPrefix(p.of, "team:") {
		return usagef("give --on or --off for %s", p.of).WithHint("to see the wakes of all agents: parley agent wake --all")
	}
	return answer(ctx, a, api.ListSessions, api.AgentNameParams{Agent: hub.AgentID(p.of)}, func(w io.Writer, got api.WakeList) {
		if got.Paused {
			fmt.Fprintln(w, `all wakes are paused; "parley agent wake --all --on" lets mail start turns again`)
		}
		for _, one := range got.Agents {
			detail, hint := wakeProblem(one)
			switch {
			case !one.Allowed:
				fmt.Fprintf(w, "mail does not start turns of %s: its user has not allowed it: parley agent wake %[1]s --on\n", one.Agent)
			case detail != "":
				fmt.Fprintf(w, "mail does not start turns of %s: %s; %s\n", one.Agent, detail, hint)
			default:
				fmt.Fprintf(w, "mail may start turns of %s\n", one.Agent)
			}
		}
	})
}
