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
	return group("agent", "Manage agents and their keys",
		a.agentAddCommand(), a.agentListCommand(), a.agentKeyCommand(), a.agentRevokeCommand(),
		a.agentRoleCommand(),
		a.agentKeepCommand(), a.agentKeptCommand(), a.agentStopCommand(), a.agentRestartCommand(), a.agentLogsCommand(), a.agentAttachCommand(), a.agentAnswerCommand(), a.agentWindowCommand(),
		a.agentChange("pause", "Stop an agent from sending; it can still read", "paused: it can read, not send", api.PauseAgent),
		a.agentChange("resume", "Let a paused agent send again", "active again", api.ResumeAgent),
		a.agentChange("reset", "Lift an agent's suspension for repeated messages", "no longer suspended", api.ResetAgent),
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
	cmd := &cobra.Command{Use: "list", Short: "List agents", Args: cobra.NoArgs}
	return operation(a, cmd, api.ListAgents, &api.None{}, func(w io.Writer, got api.AgentList) {
		writeTable(w, "NAME, ROLE, CAN, STATE, UNREAD, LAST SEEN, REACHABLE, KEYS", got.Agents, func(p api.AgentProfile) []any {
			return []any{p.ID, p.Role, cmp.Or(strings.Join(p.Can, ","), "-"), agentState(p), p.Unread, ago(p.LastSeen), p.Reach, keyList(p.Keys)}
		})
	})
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

// agentChange returns a command that changes the state of an agent.
func (a *app) agentChange(verb, short, state string, o rpc.Operation[*api.Services, api.AgentParams, api.AgentState]) *cobra.Command {
	var p api.AgentParams
	cmd := &cobra.Command{Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1)}
	return operation(a, cmd, o, &p, func(w io.Writer, got api.AgentState) { fmt.Fprintf(w, "%s is %s\n", got.Agent.ID, state) }, argument(0, &p.ID))
}
