package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func (a *app) agentCommand() *cobra.Command {
	return noun("agent", "Manage agents: their keys, their wakes, those that the hub keeps", a.agentListCommand(),
		a.agentAddCommand(), a.agentKeyCommand(), a.agentRevokeCommand(), a.agentRoleCommand(),
		a.agentClisCommand(), a.agentContactCommand(), a.agentSessionsCommand(), a.agentTestCommand(), a.agentWakeCommand(),
		a.agentKeepCommand(), a.agentStopCommand(), a.agentRestartCommand(), a.agentLogsCommand(), a.agentAttachCommand(), a.agentWindowCommand(),
		a.agentChange("pause", "Stop an agent from sending; it can still read", "paused: it can read, not send", api.PauseAgent),
		a.agentResumeCommand(),
	)
}

func (a *app) agentAddCommand() *cobra.Command {
	var p api.AgentParams
	var root string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an agent and print its first key",
		Example: `  parley agent add planner --role coordinator
  parley agent add builder --can go,sql --root ~/src/app
  parley agent add ci --auditor --expires 720h`,
		Args: cobra.ExactArgs(1),
	}

	f := cmd.Flags()
	f.StringVar((*string)(&p.Role), "role", "", "role: coordinator, researcher, executor, reviewer or integrator (default executor)")
	f.BoolVar(&p.Auditor, "auditor", false, "let the agent read every message, except those of high sensitivity")
	f.StringVar(&p.Label, "label", "", "label of the key (default \"default\")")
	f.StringVar(&root, "root", "", "the agent's working folder, offered as a root for checking handoffs")
	f.StringSliceVar(&p.Can, "can", nil, "abilities shown to other agents, such as go,sql")
	choices(cmd, "role", "coordinator", "researcher", "executor", "reviewer", "integrator")

	return operation(a, cmd, api.AddAgent, &p, func(w io.Writer, got api.AgentKey) {
		fmt.Fprintf(w, "added %s (%s)\nkey: %s\n", got.Agent.ID, got.Agent.Role, got.Key)
		fmt.Fprintln(a.err, "The key is shown only once. Give it to the agent as PARLEY_KEY, or as the bearer token for /mcp.")
	}, argument(0, &p.ID), secondsFlag(cmd, &p.ExpiresS, "expires", "lifetime of the key, such as 720h (default unlimited)"), func(ctx context.Context, _ []string) error {
		switch {
		case root == "":
			return nil
		case a.asOperator && !isTerminal(a.in): // the flag is a yes
			dir, err := filepath.Abs(root)
			if err != nil {
				return invalid(err)
			}
			added, err := call(ctx, a, api.AddRoot, api.RootParams{Path: dir})
			if err == nil {
				writeRootAdded(a.err, added)
			}
			return err
		}

		// A person at a terminal is asked before the folder becomes a root.
		c, err := a.client()
		if err != nil {
			return err
		}
		return a.offerRoot(ctx, c, root)
	})
}

func (a *app) agentListCommand() *cobra.Command {
	var isKept bool
	cmd := &cobra.Command{Use: "list", Short: "List agents", Args: cobra.NoArgs, Example: "  parley agent list\n  parley agent list --kept"}
	cmd.Flags().BoolVar(&isKept, "kept", false, "the agents that the hub keeps, with their questions")
	operation(a, cmd, api.ListAgents, &api.None{}, func(w io.Writer, got api.AgentList) {
		writeTable(w, "NAME, ROLE, CAN, STATE, UNREAD, LAST SEEN, REACHABLE, KEYS", got.Agents, func(p api.AgentProfile) []any {
			return []any{p.ID, p.Role, cmp.Or(strings.Join(p.Can, ","), "-"), agentState(p), p.Unread, ago(p.LastSeen), p.Reach, keyList(p.Keys)}
		})
	})
	all := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if isKept {
			return answer(cmd.Context(), a, api.ListKept, api.None{}, writeKept)
		}
		return all(cmd, args)
	}
	return cmd
}

// agentState returns the state of an agent as people read it.
func agentState(p api.AgentProfile) string {
	switch {
	case p.Suspended:
		return "suspended"
	case p.State == hub.AgentActive && p.Session != nil:
		return fmt.Sprintf("%s in %s, %s", p.Session.State, p.Session.CLI, ago(p.Session.Since))
	}
	return string(p.State)
}

// ago returns how long ago something was, a dash if it never was.
func ago(t hub.Time) string {
	if t.IsZero() {
		return "-"
	}
	switch d := now().Sub(t.Time); {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/(24*time.Hour))
	}
}

func (a *app) agentRoleCommand() *cobra.Command {
	var p api.AgentParams
	cmd := &cobra.Command{
		Use:       "role NAME ROLE",
		Short:     "Change an agent's role",
		Example:   `  parley agent role builder reviewer`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: words(hub.Roles),
	}
	return operation(a, cmd, api.SetRole, &p, func(w io.Writer, got api.AgentState) {
		fmt.Fprintf(w, "%s is %s\n", got.Agent.ID, got.Agent.Role)
	}, argument(0, &p.ID), argument(1, &p.Role))
}

func keyList(keys []hub.Key) string {
	now := hub.At(time.Now())
	var out []string
	for _, k := range keys {
		s := fmt.Sprintf("%s …%s", localTimes(k.Label), k.Hint)
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
	cmd := &cobra.Command{
		Use:     "key NAME --label LABEL",
		Short:   "Create and print another key for an agent",
		Example: `  parley agent key builder --label laptop --expires 720h`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Label, "label", "", "label of the key; each label can be used once")
	return operation(a, cmd, api.AddKey, &p, func(w io.Writer, got api.AgentKey) { fmt.Fprintf(w, "key: %s\n", got.Key) },
		argument(0, &p.ID), secondsFlag(cmd, &p.ExpiresS, "expires", "lifetime of the key, such as 720h (default unlimited)"),
		func(context.Context, []string) error {
			if p.Label == "" {
				return usagef("--label is required").WithHint("name the new key, for example after its machine: --label laptop")
			}
			return nil
		})
}

func (a *app) agentRevokeCommand() *cobra.Command {
	var p api.AgentParams
	cmd := &cobra.Command{
		Use:     "revoke NAME [--label LABEL]",
		Short:   "Revoke one or all keys of an agent",
		Example: `  parley agent revoke builder --label laptop`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Label, "label", "", "label of the key to revoke (default all keys)")
	return operation(a, cmd, api.RevokeKeys, &p, func(w io.Writer, got api.Revoked) {
		fmt.Fprintf(w, "revoked %d keys of %s\n", got.Revoked, got.Agent)
	}, argument(0, &p.ID))
}

func (a *app) agentResumeCommand() *cobra.Command {
	var p api.AgentParams
	var suspension, all bool
	cmd := &cobra.Command{
		Use: "resume NAME", Short: "Let a paused or suspended agent send again",
		Long: `Let a paused agent send again. --suspension lifts the suspension for repeated messages,
--all everything that holds the agent, with the pause of its wakes. The answer names
everything else that holds it, with the command that lifts it.`,
		Example: `  parley agent resume builder
  parley agent resume builder --suspension
  parley agent resume builder --all`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&suspension, "suspension", false, "lift the suspension for repeated messages")
	cmd.Flags().BoolVar(&all, "all", false, "lift everything that holds the agent")
	return prepared(cmd, func(ctx context.Context) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		got, err := a.resume(ctx, c, p, suspension, all)
		if err != nil {
			return err
		}
		rest := holdings(ctx, c, p.ID)
		return a.print(got, func(w io.Writer) {
			what := "active again"
			if suspension {
				what = "no longer suspended"
			}
			fmt.Fprintf(w, "%s is %s\n", got.Agent.ID, what)
			for _, line := range rest {
				fmt.Fprintln(w, line)
			}
		})
	}, argument(0, &p.ID))
}

// resume lifts the pause of an agent, its suspension, or all that holds it.
func (a *app) resume(ctx context.Context, c *rpc.Client, p api.AgentParams, suspension, all bool) (got api.AgentState, err error) {
	if suspension || all {
		if got, err = rpc.Call(ctx, c, api.ResetAgent, p); err != nil || !all {
			return got, err
		}
		if _, err := rpc.Call(ctx, c, api.ResumeWake, api.WakePauseParams{Agent: p.ID}); err != nil {
			return got, err
		}
	}
	return rpc.Call(ctx, c, api.ResumeAgent, p)
}

// holdings returns a line for each thing that still holds an agent, with the command that lifts it.
func holdings(ctx context.Context, c *rpc.Client, name hub.AgentID) (out []string) {
	if list, err := rpc.Call(ctx, c, api.ListAgents, api.None{}); err == nil {
		for _, p := range list.Agents {
			switch {
			case p.ID != name:
			case p.Suspended:
				out = append(out, fmt.Sprintf("it is suspended for repeated messages: parley agent resume %s --suspension", name))
			case p.State == hub.AgentPaused:
				out = append(out, fmt.Sprintf("it may not send: parley agent resume %s", name))
			}
		}
	}
	got, err := rpc.Call(ctx, c, api.ListSessions, api.AgentNameParams{Agent: name})
	if err != nil {
		return out
	}
	if got.Paused {
		out = append(out, "all wakes are paused: parley agent wake --all --on")
	}
	for _, w := range got.Agents {
		if detail, hint := wakeProblem(w); detail != "" {
			out = append(out, fmt.Sprintf("mail does not wake it: %s; %s", detail, hint))
		}
	}
	return out
}

// agentChange returns a command that changes the state of an agent.
func (a *app) agentChange(verb, short, state string, o rpc.Operation[*api.Services, api.AgentParams, api.AgentState]) *cobra.Command {
	var p api.AgentParams
	cmd := &cobra.Command{Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1)}
	return operation(a, cmd, o, &p, func(w io.Writer, got api.AgentState) { fmt.Fprintf(w, "%s is %s\n", got.Agent.ID, state) }, argument(0, &p.ID))
}
