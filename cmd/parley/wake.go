package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/parley-agents/parley/internal/reach/wake"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

func (a *app) wakeCommand() *cobra.Command {
	cmd := group("wake", "See and steer how mail starts turns of agents",
		a.wakeSessionsCommand(), a.wakeTestCommand(), a.wakeAllowCommand(), a.wakePauseCommand("pause", "Stop the wakes of an agent, or all; mail goes on", api.PauseWake),
		a.wakePauseCommand("resume", "Let mail wake an agent again, or all", api.ResumeWake), a.wakeWatchCommand(), a.wakeArmCommand(), a.wakeHookCommand())
	cmd.Long = `See and steer how mail starts turns of agents. A wake is a notice with an id and
counts, never the text of a message; it starts a turn of an idle session, which spends
tokens, and so each agent needs your yes once.`
	return cmd
}

func (a *app) wakeSessionsCommand() *cobra.Command {
	var p api.AgentNameParams
	cmd := &cobra.Command{Use: "sessions [AGENT]", Short: "List sessions of agents, and how mail reaches them", Args: cobra.MaximumNArgs(1)}
	return operation(a, cmd, api.ListSessions, &p, func(w io.Writer, got api.WakeList) {
		if got.Paused {
			fmt.Fprintln(w, "all wakes are paused; go on with: parley wake resume --all")
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

func (a *app) wakeAllowCommand() *cobra.Command {
	var p api.WakeAllowParams
	var off bool
	cmd := &cobra.Command{
		Use: "allow AGENT", Short: "Let mail start turns of an agent, which spends tokens (operator)", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&off, "off", false, "take it back")
	cmd.Flags().BoolVar(&p.Interrupt, "interrupt", false, "critical mail of a coordinator may interrupt a turn")
	cmd.Flags().IntVar(&p.PerHour, "per-hour", 0, "the most wakes within an hour (default that of the hub)")
	cmd.Flags().BoolVar(&p.WithText, "with-text", false, "a short message of yours travels in the notice itself; text of agents never does")
	return operation(a, cmd, api.AllowWake, &p, func(w io.Writer, got api.AgentWakes) {
		if got.Allowed {
			fmt.Fprintf(w, "mail may start turns of %s\n", got.Agent)
		} else {
			fmt.Fprintf(w, "mail does not start turns of %s\n", got.Agent)
		}
	}, argument(0, &p.Agent), func(context.Context, []string) error {
		p.Allow = !off
		return nil
	})
}

func (a *app) wakePauseCommand(verb, short string, o rpc.Operation[*api.Services, api.WakePauseParams, api.PauseState]) *cobra.Command {
	var p api.WakePauseParams
	cmd := &cobra.Command{Use: verb + " AGENT | --all", Short: short + " (operator)", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVar(&p.All, "all", false, "all agents of the hub")
	return operation(a, cmd, o, &p, func(w io.Writer, got api.PauseState) {
		state := "on"
		if got.Paused {
			state = "paused"
		}
		fmt.Fprintf(w, "wakes of %s are %s\n", cmp.Or(string(got.Agent), "all agents"), state)
	}, argument(0, &p.Agent))
}

func (a *app) wakeTestCommand() *cobra.Command {
	var p api.WakeTestParams
	cmd := &cobra.Command{
		Use: "test AGENT", Short: "Wake an agent without mail, wait for the proof, and print mechanism and seconds (operator)", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Var(&p.Seconds, "seconds", "how long to wait for the proof (default 60)")
	return operation(a, cmd, api.TestWake, &p, func(w io.Writer, got api.ProbeReport) {
		if got.Proven {
			fmt.Fprintf(w, "%s began a turn after %.1f s, by %s\n", got.Agent, got.Seconds, got.Mechanism)
			return
		}
		fmt.Fprintf(w, "%s did not begin a turn: %s\n", got.Agent, cmp.Or(got.Detail, got.State))
	}, argument(0, &p.Agent))
}
