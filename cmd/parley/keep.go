package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/up"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/keeper"
)

func (a *app) agentKeepCommand() *cobra.Command {
	var p api.KeepParams
	var budget string
	var or []string
	cmd := &cobra.Command{
		Use:   "keep NAME --cli CLI [flags] | keep NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Have the hub run an agent when mail arrives",
		Long: `The hub starts the agent over ACP when it gets mail, in a folder that no other kept
agent uses, and prompts it with a notice. It never sends a second prompt while one is
running. An idle agent is stopped after a while; the next mail starts it again and
resumes its session if the agent supports that.

Turns cost tokens. By keeping an agent you allow mail to start turns, within the
budget. The agent may read files in its folder. --policy write lets it change them, and
have the hub run the checks that you allowed for the repository in that folder. With
--policy build the hub runs any command for it there, confined as checks are, and
without the network unless --network is given. Its own shell stays denied. --policy ask
holds each question for a person. The policy answers the questions that
the agent asks: known CLIs are configured to ask, and changes that violate the policy
are reported after the turn, not undone.`,
		Example: `  parley agent keep builder --cli codex --dir ../app --worktree --policy write --budget 20/h
  parley agent keep reviewer --dir . --role reviewer -- my-agent --acp`,
		Args: cobra.MinimumNArgs(1),
	}

	f := cmd.Flags()
	f.StringVar(&p.CLI, "cli", "", `known agent CLI; "parley agent clis" lists them`)
	f.StringVar(&p.Dir, "dir", ".", "the agent's working folder")
	f.BoolVar(&p.Worktree, "worktree", false, "work in a separate git worktree, on the branch parley/NAME")
	f.BoolVar(&p.V2, "v2", false, "offer protocol version 2 (draft)")
	f.StringVar((*string)(&p.Policy), "policy", "read", "the agent's permissions: read, write, build, or ask, where a person answers")
	f.BoolVar(&p.Network, "network", false, "commands that --policy build lets it run have the network")
	f.StringVar(&budget, "budget", "", "turns per hour that mail may start, such as 20/h (default the hub's budget)")
	f.StringSliceVar(&or, "or", nil, "who continues its tasks when it cannot go on, in this order: CLIs in the same folder, agents, or self")
	f.StringVar((*string)(&p.Role), "role", "", "role of a new agent (default executor)")
	f.StringSliceVar(&p.Can, "can", nil, "abilities of a new agent, shown to other agents, such as go,sql")
	f.Var(&p.Memory, "memory", "memory limit of its processes in MiB (default 4096)")
	choices(cmd, "policy", "read", "write", "build", "ask")
	choices(cmd, "role", words(hub.Roles)...)

	return operation(a, cmd, api.KeepAgent, &p, func(w io.Writer, got api.KeptAgent) {
		fmt.Fprintf(w, "%s is kept in %s: mail starts it\n", got.Agent, got.Dir)
		if got.Branch != "" {
			fmt.Fprintf(w, "it works on branch %s\n", got.Branch)
		}
	}, argument(0, &p.Agent), secondsFlag(cmd, &p.Idle, "idle", "idle time without mail before its process is stopped (default 5m)"),
		secondsFlag(cmd, &p.Hang, "hang", "time without a sign of life before a turn is cancelled (default 10m)"),
		secondsFlag(cmd, &p.Question, "answer-within", "time to wait for a person's answer before a question is denied (default 10m)"),
		func(_ context.Context, args []string) (err error) {
			if p.PerHour, err = up.PerHour(budget); err != nil {
				return usagef("--budget: %w", err)
			}
			if (p.CLI == "") == (len(args) == 1) {
				return usagef("give either a known agent with --cli, or a command after --")
			}
			if p.Command, err = keptProgram(p.CLI, args[1:]); err != nil {
				return err
			}
			if p.Or, err = successors(or); err != nil {
				return err
			}

			// The hub starts the agent later, with the PATH and the folder of this command.
			p.Path = os.Getenv("PATH")
			p.Dir, err = filepath.Abs(p.Dir)
			return err
		})
}

// keptProgram returns the command of a known agent, or another one, with the path of its
// program.
func keptProgram(cli string, command []string) ([]string, error) {
	program, err := up.Program(cli, command)
	if hub.CodeOf(err) == hub.CodeInvalid {
		return nil, usagef("%w", err)
	}
	return program, err
}

func writeKept(w io.Writer, got api.KeptList) {
	if len(got.Agents) == 0 {
		fmt.Fprintln(w, `the hub keeps no agents; add one with "parley agent keep NAME --cli CLI --dir FOLDER"`)
		return
	}
	writeTable(w, "NAME, STATE, SINCE, CLI, POLICY, MEMORY, FOLDER", got.Agents, func(k api.KeptAgent) []any {
		size := "-"
		if k.Resident > 0 {
			size = fmt.Sprintf("%d MiB", k.Resident)
		}
		return []any{k.Agent, k.State, ago(k.Since), cmp.Or(k.CLI, filepath.Base(k.Command[0])), k.Policy, size, k.Dir}
	})
	for _, k := range got.Agents {
		if k.Problem != "" {
			fmt.Fprintf(w, "%s: %s\n", k.Agent, k.Problem)
		}
		for _, window := range k.Windows {
			fmt.Fprintf(w, "%s has the window %s since %s (key ends in %s)\n", k.Agent, window.Name, ago(window.Since), window.Hint)
		}
		for _, q := range k.Asks {
			writeQuestion(w, k.Agent, q)
		}
	}
}

// writeQuestion writes a question of a kept agent with the command of each answer.
func writeQuestion(w io.Writer, agent hub.AgentID, q keeper.Question) {
	fmt.Fprintf(w, "%s asks (q%d): %s\n", agent, q.ID, q.Text)
	for _, c := range q.Choices {
		fmt.Fprintf(w, "  parley reply q%d %s  (%s)\n", q.ID, c.ID, c.Label())
	}
}

func (a *app) agentStopCommand() *cobra.Command {
	var p api.StopParams
	cmd := &cobra.Command{Use: "stop NAME", Short: "Stop a kept agent; its mail waits", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&p.Forget, "forget", false, "remove the agent from the kept agents")
	return operation(a, cmd, api.StopAgent, &p, func(w io.Writer, _ api.None) {
		if p.Forget {
			fmt.Fprintf(w, "%s is no longer kept\n", p.Agent)
			return
		}
		fmt.Fprintf(w, "%s is stopped; its mail waits until parley agent restart %s\n", p.Agent, p.Agent)
	}, argument(0, &p.Agent))
}

func (a *app) agentRestartCommand() *cobra.Command {
	var p api.RestartParams
	cmd := &cobra.Command{Use: "restart NAME", Short: "Restart a kept agent at the next mail", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&p.Fresh, "fresh", false, "start a new session; the agent forgets the old one")
	return operation(a, cmd, api.RestartAgent, &p, func(w io.Writer, got api.KeptAgent) {
		fmt.Fprintf(w, "%s is %s: mail starts it\n", got.Agent, got.State)
	}, argument(0, &p.Agent))
}

func (a *app) agentLogsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Show the latest output of a kept agent", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.followLog(cmd.Context(), c, hub.AgentID(args[0]), follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new lines until Ctrl-C")
	return cmd
}

// followLog prints the lines of a kept agent.
func (a *app) followLog(ctx context.Context, c *rpc.Client, name hub.AgentID, follow bool) error {
	p, text := api.KeptLogParams{Agent: name}, false
	for {
		got, err := rpc.Call(ctx, c, api.LogAgent, p)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for _, l := range got.Lines {
			p.After = l.N
			text = a.writeLine(l, text)
		}
		if !follow {
			if text {
				fmt.Fprintln(a.out)
			}
			return nil
		}
		p.WaitS = 30
	}
}

// writeLine prints a line of a kept agent and reports whether it was a part of a text,
// which the next part continues.
func (a *app) writeLine(l keeper.Line, within bool) bool {
	if a.json {
		encoder(a.out).Encode(l) // the reader may have ended
		return false
	}
	if l.Kind == "text" {
		fmt.Fprint(a.out, l.Text)
		return true
	}
	if within {
		fmt.Fprintln(a.out)
	}
	fmt.Fprintf(a.out, "%s %s %s\n", a.paint(a.out, "2", l.At.Local().Format(time.TimeOnly)), a.paint(a.out, "36", l.Kind), l.Text)
	return false
}

func (a *app) agentAttachCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attach NAME", Short: "Watch a kept agent and send it prompts", Args: cobra.ExactArgs(1),
		Long: `Show the agent's turns as they happen. Each line that you type is a prompt for the
agent; it waits for the current turn to end. Ctrl-C or the end of the input detaches;
the agent keeps running.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			name := hub.AgentID(args[0])
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)

			// Each line of the input is a prompt. Its end ends the command, not the agent.
			go func() {
				typed := bufio.NewScanner(a.in)
				for typed.Scan() {
					if typed.Text() == "" {
						continue
					}
					if _, err := rpc.Call(ctx, c, api.PromptAgent, api.PromptParams{Agent: name, Text: typed.Text()}); err != nil {
						cancel(err)
						return
					}
				}
				cancel(typed.Err())
			}()

			err = a.followLog(ctx, c, name, true)
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return err
		},
	}
}
