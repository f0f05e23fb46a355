package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/strictjson"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/strictyaml"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

// pauseCommand returns the one stop for all turns that mail starts.
func (a *app) pauseCommand() *cobra.Command {
	var p api.WakePauseParams
	cmd := &cobra.Command{
		Use:     "pause AGENT|--all",
		Short:   "Stop all turns that mail starts, or those of one agent; parley wake resume lets them go on",
		Example: "  parley pause --all",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&p.All, "all", false, "all agents")
	return operation(a, cmd, api.PauseWake, &p, func(w io.Writer, got api.PauseState) {
		fmt.Fprintf(w, "the wakes of %s are paused; mail waits in the inbox\n", cmp.Or(string(got.Agent), "all agents"))
	}, argument(0, &p.Agent))
}

// probeCommand returns the command that probes an agent.
func (a *app) probeCommand() *cobra.Command {
	var p api.WakeTestParams
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "probe AGENT",
		Short: "Start one turn of an agent with a notice, wait for the proof, and store the report",
		Long: `Show a notice without a message to an agent and wait until its CLI shows that a
turn began. It costs one turn. The report has the mechanism and the seconds; it is
stored with its date, and parley wake sessions and parley doctor show it. The exit
code is 1 if no turn began.`,
		Args: cobra.ExactArgs(1),
	}

	cmd.AddCommand(a.probeGatewayCommand())
	wait = time.Minute
	cmd.Flags().Var((*strictyaml.Period)(&wait), "wait", "how long to wait for the proof, at most 5m")

	return prepared(cmd, func(ctx context.Context) error {
		p.Seconds = strictjson.Count(wait / time.Second)
		got, err := call(ctx, a, api.TestWake, p)
		if err != nil {
			return err
		}
		return a.check(got.Proven, got, func(w io.Writer) {
			if got.Proven {
				fmt.Fprintf(w, "%s was woken by %s in %.1f s (%s)\n", got.Agent, cmp.Or(got.Mechanism, string(got.Channel)), got.Seconds, got.Wake)
				return
			}
			fmt.Fprintf(w, "%s was not woken: %s\n", got.Agent, cmp.Or(got.Detail, got.State))
		})
	}, argument(0, &p.Agent))
}

// lastProbe says how the last probe of an agent ended; p may be nil.
func lastProbe(p *api.ProbeReport) string {
	switch {
	case p == nil:
		return "-"
	case p.Away():
		return p.State
	case p.Proven:
		return "proven " + ago(p.At)
	}
	return "failed " + ago(p.At)
}

// checkWakes looks at the agents that mail may wake.
func checkWakes(ctx context.Context, c *rpc.Client) (out []server.Check) {
	got, err := rpc.Call(ctx, c, api.ListSessions, api.AgentNameParams{})
	if err != nil {
		return []server.Check{{What: "wakes", Detail: rpc.Describe(err, rpc.Commands).Message}}
	}

	allowed := 0
	for _, w := range got.Agents {
		if w.Allowed {
			allowed++
		}

		// One session without quota is enough to name the agent.
		for _, s := range w.Sessions {
			if s.State != wake.SessionEnded && !s.NoQuota.IsZero() {
				out = append(out, server.Check{
					What: "agent " + string(w.Agent), Detail: fmt.Sprintf("it ran out of quota in %s (%s)", s.CLI, ago(s.NoQuota)),
					Hint: "its turns fail and its mail waits, until the limit of its account is reset or it is started with another account",
				})
				break
			}
		}

		if detail, hint := wakeProblem(w); detail != "" {
			out = append(out, server.Check{What: "wakes of " + string(w.Agent), Detail: detail, Hint: hint})
		}
	}

	if len(out) > 0 {
		return out
	}
	detail := fmt.Sprintf("mail may wake %d agents", allowed)
	if got.Paused {
		detail += ", and all wakes are paused: parley wake resume --all"
	}
	return []server.Check{{What: "wakes", OK: true, Detail: detail}}
}

// wakeProblem returns why mail does not wake an agent though its user allowed it, with
// a remedy; "" if it does or could.
func wakeProblem(w api.AgentWakes) (detail, hint string) {
	armed, live := false, false
	for _, s := range w.Sessions {
		live = live || s.State != wake.SessionEnded
		armed = armed || !s.Armed.IsZero()
	}

	away := w.Probe != nil && w.Probe.Away()
	switch {
	case !w.Allowed:
		return "", ""
	case w.Looped > 0:
		return fmt.Sprintf("%d messages are held, because agents answered each other too often", w.Looped), fmt.Sprintf("parley inbox shows the mail of an agent to you; parley wake resume %s lets them go on", w.Agent)
	case w.Spent != "":
		return w.Spent, fmt.Sprintf("parley wake allow %s --per-hour N changes the budget", w.Agent)
	case w.Disarmed != "":
		return "they are disarmed, because " + w.Disarmed, fmt.Sprintf("parley wake resume %[1]s arms them; parley probe %[1]s tries one", w.Agent)
	case away && !armed:
		return fmt.Sprintf("%s: %s, where it was probed last (%s)", w.Probe.State, w.Probe.Detail, ago(w.Probe.At)), "start the hub on " + w.Probe.Machine
	case w.Probe != nil && !w.Probe.Proven && !away:
		return fmt.Sprintf("the last probe (%s) started no turn: %s", ago(w.Probe.At), cmp.Or(w.Probe.Detail, w.Probe.State)), fmt.Sprintf("parley probe %s tries again", w.Agent)
	}

	// A proof from another version of the CLI does not count for this one.
	for _, s := range w.Sessions {
		if s.State != wake.SessionEnded && s.Proven != "" && s.Version != "" && s.Proven != s.Version {
			return fmt.Sprintf("mail has started no turn yet since %s was changed from %s to %s", s.CLI, s.Proven, s.Version), fmt.Sprintf("parley probe %s tries it", w.Agent)
		}
	}

	if live && !armed {
		return "it has a session, and no mechanism of it is armed", fmt.Sprintf("start it anew with parley launch; parley wake sessions %s shows its sessions", w.Agent)
	}
	return "", ""
}
