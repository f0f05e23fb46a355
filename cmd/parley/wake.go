package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/parley-agents/parley/internal/reach/wake"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func (a *app) wakeCommand() *cobra.Command {
	cmd := group("wake", "Control how mail starts turns of agents",
		a.wakeSessionsCommand(), a.wakeTestCommand(), a.wakeAllowCommand(), a.wakePauseCommand("pause", "Stop mail from waking one or all agents", api.PauseWake),
		a.wakePauseCommand("resume", "Let mail wake one or all agents again", api.ResumeWake), a.wakeWatchCommand(), a.wakeArmCommand(), a.wakeHookCommand())
	cmd.Long = `Control how mail starts turns of agents. A wake is a notice with an id and counts, never
the text of a message. It starts a turn in an idle session, which spends tokens, so you
must allow it once for each agent.`
	return cmd
}

func (a *app) wakeSessionsCommand() *cobra.Command {
	var p api.AgentNameParams
	cmd := &cobra.Command{Use: "sessions [AGENT]", Short: "List agent sessions and their wake mechanisms", Args: cobra.MaximumNArgs(1)}
	return operation(a, cmd, api.ListSessions, &p, func(w io.Writer, got api.WakeList) {
		if got.Paused {
			fmt.Fprintln(w, `all wakes are paused; run "parley wake resume --all" to resume`)
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
		Use: "allow AGENT", Short: "Let mail start turns of an agent (operator)", Long: "Let mail start turns of an agent. Each turn spends tokens.", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&off, "off", false, "no longer let mail start turns")
	cmd.Flags().BoolVar(&p.Interrupt, "interrupt", false, "let critical mail from a coordinator interrupt a turn")
	cmd.Flags().IntVar(&p.PerHour, "per-hour", 0, "maximum number of wakes per hour (default the hub's limit)")
	cmd.Flags().BoolVar(&p.WithText, "with-text", false, "include your short messages in the notice; agents' text is never included")
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
	cmd.Flags().BoolVar(&p.All, "all", false, "all agents on the hub")
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
		Use: "test AGENT", Short: "Wake an agent without mail (operator)",
		Long: `Wake an agent without mail, wait until a turn begins, and print the mechanism and the
time in seconds.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Var(&p.Seconds, "seconds", "seconds to wait for the turn (default 60)")
	return operation(a, cmd, api.TestWake, &p, func(w io.Writer, got api.ProbeReport) {
		if got.Proven {
			fmt.Fprintf(w, "%s began a turn after %.1f s, by %s\n", got.Agent, got.Seconds, got.Mechanism)
			return
		}
		fmt.Fprintf(w, "%s did not begin a turn: %s\n", got.Agent, cmp.Or(got.Detail, got.State))
	}, argument(0, &p.Agent))
}
