package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
)

func (a *app) agentCommand() *cobra.Command {
	return group("agent", "Add agents, list them, and manage their keys",
		a.agentAddCommand(), a.agentListCommand(), a.agentKeyCommand(), a.agentRevokeCommand(),
		a.agentChange("pause", "Keep an agent from sending; it can still read", "paused: it can read, not send", api.PauseAgent),
		a.agentChange("resume", "Let a paused agent send again", "active again", api.ResumeAgent),
		a.agentChange("reset", "Lift the suspension of an agent that repeated itself", "not suspended any more", api.ResetAgent),
	)
}

func (a *app) agentAddCommand() *cobra.Command {
	var p api.AgentParams
	var role string
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an agent and print its first key, once",
		Example: `  parley agent add planner --role coordinator
  parley agent add ci --auditor --expires 720h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.ID, p.Role, p.ExpiresS = hub.AgentID(args[0]), hub.Role(role), int64(expires/time.Second)
			return answer(cmd.Context(), a, api.AddAgent, p, func(w io.Writer, got api.AgentKey) {
				fmt.Fprintf(w, "added %s (%s)\nkey: %s\n", got.Agent.ID, got.Agent.Role, got.Key)
				fmt.Fprintln(a.err, "The key is shown this once. Give it to the agent as PARLEY_KEY, or as bearer token for /mcp.")
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&role, "role", "", "coordinator, researcher, executor, reviewer or integrator (default executor)")
	f.BoolVar(&p.Auditor, "auditor", false, "may read every message")
	f.StringVar(&p.Label, "label", "", "what to call the key (default \"default\")")
	f.DurationVar(&expires, "expires", 0, "how long the key is good, as in 720h (default for ever)")
	cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"coordinator", "researcher", "executor", "reviewer", "integrator"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) agentListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the agents of the hub",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd.Context(), a, api.ListAgents, api.None{}, func(w io.Writer, got api.AgentList) {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(tw, "NAME\tROLE\tSTATE\tKEYS")
				for _, p := range got.Agents {
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", p.ID, p.Role, p.State, keyList(p.Keys))
				}
				tw.Flush()
			})
		},
	}
}

func keyList(keys []hub.Key) string {
	now := hub.At(time.Now())
	var out []string
	for _, k := range keys {
		s := fmt.Sprintf("%s …%s", k.Label, k.Hint)
		switch {
		case !k.RevokedAt.IsZero():
			s += " (revoked)"
		case !k.Live(now):
			s += " (expired)"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func (a *app) agentKeyCommand() *cobra.Command {
	var p api.AgentParams
	var expires time.Duration
	cmd := &cobra.Command{
		Use:     "key NAME --label LABEL",
		Short:   "Make another key for an agent and print it, once",
		Example: `  parley agent key builder --label laptop --expires 720h`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.ID, p.ExpiresS = hub.AgentID(args[0]), int64(expires/time.Second)
			return answer(cmd.Context(), a, api.AddKey, p, func(w io.Writer, got api.AgentKey) { fmt.Fprintf(w, "key: %s\n", got.Key) })
		},
	}
	cmd.Flags().StringVar(&p.Label, "label", "", "what to call the key; each label is used once")
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long the key is good (default for ever)")
	return cmd
}

func (a *app) agentRevokeCommand() *cobra.Command {
	var p api.AgentParams
	cmd := &cobra.Command{
		Use:     "revoke NAME [--label LABEL]",
		Short:   "Revoke the keys of an agent, one or all",
		Example: `  parley agent revoke builder --label laptop`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.ID = hub.AgentID(args[0])
			return answer(cmd.Context(), a, api.RevokeKeys, p, func(w io.Writer, got api.Revoked) { fmt.Fprintf(w, "revoked %d keys of %s\n", got.Revoked, got.Agent) })
		},
	}
	cmd.Flags().StringVar(&p.Label, "label", "", "the key to revoke (default all)")
	return cmd
}
