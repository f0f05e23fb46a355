package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/reach/wake"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/ground/strictyaml"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// turnEndings says in words what happened to a turn.
var turnEndings = map[api.TurnEnding]string{
	api.TurnEnded:   "its turn was ended",
	api.TurnDenied:  "its next tool call is denied",
	api.TurnNone:    "no turn ran",
	api.TurnUnknown: "its turn did not end in time",
}

// writeStopped writes what happened to each agent.
func writeStopped(w io.Writer, got api.StoppedAgents) {
	for _, one := range got.Agents {
		fmt.Fprintf(w, "%s is paused; %s\n", one.Agent, turnEndings[one.Turn])
	}
	fmt.Fprintln(w, `run "parley agent wake NAME --on" to undo it; turns that the hub ended then go on, in a terminal or an editor prompt the agent again`)
}

// agentTestCommand returns the command that tests a wake.
func (a *app) agentTestCommand() *cobra.Command {
	var p api.WakeTestParams
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "Test that mail can wake an agent",
		Long: `Show an agent a notice without a message and wait until its CLI shows that a turn
began. This costs one turn. The report has the mechanism and the time in seconds; it is
stored with its date and shown by "parley agent sessions" and "parley doctor". The exit
code is 1 if no turn began.`,
		Args: cobra.ExactArgs(1),
	}

	wait = time.Minute
	cmd.Flags().Var((*strictyaml.Period)(&wait), "wait", "time to wait for the turn, at most 5m")

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
					Hint: "its turns fail and its mail waits until its account's limit is reset; or start it with another account",
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
		detail += `, but all wakes are paused; run "parley agent wake --all --on" to resume`
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
		return fmt.Sprintf("%d messages are held because agents answered each other too often", w.Looped), fmt.Sprintf(`run "parley inbox %[1]s" to read the mail, and "parley agent wake %[1]s --on" to let it through`, w.Agent)
	case w.Spent != "":
		return w.Spent, fmt.Sprintf(`run "parley agent wake %s --on --per-hour N" to change the budget`, w.Agent)
	case w.Disarmed != "":
		return "they are disarmed because " + w.Disarmed, fmt.Sprintf(`run "parley agent wake %[1]s --on" to arm them, and "parley agent test %[1]s" to test`, w.Agent)
	case away && !armed:
		return fmt.Sprintf("%s: %s, where it was last probed (%s)", w.Probe.State, w.Probe.Detail, ago(w.Probe.At)), "start the hub on " + w.Probe.Machine
	case w.Probe != nil && !w.Probe.Proven && !away:
		return fmt.Sprintf("the last probe (%s) did not start a turn: %s", ago(w.Probe.At), cmp.Or(w.Probe.Detail, w.Probe.State)), fmt.Sprintf(`run "parley agent test %s" to test again`, w.Agent)
	}

	// A proof from another version of the CLI does not count for this one.
	for _, s := range w.Sessions {
		bothKnown := s.Proven != "" && s.Version != ""
		if s.State != wake.SessionEnded && bothKnown && s.Proven != s.Version {
			return fmt.Sprintf("mail has not started a turn since %s changed from %s to %s", s.CLI, s.Proven, s.Version), fmt.Sprintf(`run "parley agent test %s" to test it`, w.Agent)
		}
	}

	if live && !armed {
		return "it has a session, but no wake mechanism is armed", fmt.Sprintf(`restart it with "parley launch"; run "parley agent sessions %s" to list its sessions`, w.Agent)
	}
	return "", ""
}
