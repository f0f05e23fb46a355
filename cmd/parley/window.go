package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/window"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/work/fleet"
)

func (a *app) acpServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve [AGENT]",
		Short: "Show a kept agent in an editor",
		Long: `Be an ACP agent on standard input and output that is the kept agent AGENT. An editor that
starts this command opens the agent's session, prompts it and answers its questions; a
session that it loads begins with the history. The hub still runs the agent: mail starts turns, and every turn is
recorded.

In the agent's folder the editor opens the agent's own session. In another folder it
begins a further session, with a process of its own and without the hub's tools. Without
AGENT, the editor finds all kept agents in its list of sessions.

The editor needs a key: "parley agent window AGENT" makes one. A process that an agent
started is refused.`,
		Example: `  parley agent window builder
  parley acp serve builder --key-file ~/.parley/windows/builder.editor.key`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseBelowAgent("parley acp serve"); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			o := window.Options{Version: version(), Log: func(err error) { fmt.Fprintf(a.err, "parley: %v\n", err) }}
			if len(args) == 1 {
				o.Agent = hub.AgentID(args[0])
			}
			return window.Serve(cmd.Context(), c, o, a.in, a.out)
		},
	}
}

// refuseBelowAgent refuses a command that only a person may use in a process that an agent
// started.
func refuseBelowAgent(command string) error {
	if process.Below(os.Getpid(), fleet.LaunchVariable, fleet.RunVariable) {
		return hub.Errorf(hub.CodeDenied, "parley", "%s cannot be used by a process that an agent started", command)
	}
	return nil
}

func (a *app) agentWindowCommand() *cobra.Command {
	var p api.WindowParams
	var file, revoke string
	cmd := &cobra.Command{
		Use:   "window NAME",
		Short: "Let an editor show a kept agent",
		Long: `Make a key with which an editor shows one kept agent, and write it to a file that only you
can read. With the key the editor can show the agent's sessions, prompt the agent and
answer its questions, and nothing else. The journal names the window behind each prompt
and each answer. "parley agent list --kept" lists the windows; --revoke makes a key useless.`,
		Example: `  parley agent window builder
  parley agent window builder --label zed --file ~/zed-builder.key
  parley agent window builder --revoke zed`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&p.Name, "label", "", "name of the window in lists and in the journal (default editor)")
	f.StringVar(&file, "file", "", "file for the key (default windows/NAME.LABEL.key in the hub's home)")
	f.StringVar(&revoke, "revoke", "", "revoke the key of the window with this label")

	return prepared(cmd, func(ctx context.Context) error {
		if revoke != "" {
			p.Name = revoke
			return answer(ctx, a, api.RemoveWindow, p, func(w io.Writer, got api.WindowParams) {
				fmt.Fprintf(w, "the window %s of %s is revoked\n", got.Name, got.Agent)
			})
		}
		return a.makeWindow(ctx, p, file)
	}, argument(0, &p.Agent), func(context.Context, []string) error {
		if revoke != "" && (p.Name != "" || file != "") {
			return usagef("--revoke takes neither --label nor --file")
		}
		return refuseBelowAgent("parley agent window")
	})
}

// A madeWindow is a window with the file of its key.
type madeWindow struct {
	Agent hub.AgentID `json:"agent"`
	Name  string      `json:"name"`
	File  string      `json:"file"`
}

// makeWindow makes the key of a window, writes it to a file and says how an editor uses it.
func (a *app) makeWindow(ctx context.Context, p api.WindowParams, file string) error {
	got, err := call(ctx, a, api.AddWindow, p)
	if err != nil {
		return err
	}
	if file == "" {
		home, err := a.homeDir()
		if err != nil {
			return err
		}
		file = filepath.Join(home, "windows", fmt.Sprintf("%s.%s.key", got.Agent, got.Name))
	}
	if file, err = filepath.Abs(file); err != nil {
		return invalid(err)
	}
	if err := writeSecret(file, got.Key); err != nil {
		_, revoked := call(context.WithoutCancel(ctx), a, api.RemoveWindow, api.WindowParams{Agent: got.Agent, Name: got.Name})
		if revoked != nil {
			fmt.Fprintf(a.err, "parley: the key that was not written is still valid: %v\n", revoked)
		}
		return invalid(err)
	}

	made := madeWindow{got.Agent, got.Name, file}
	return a.print(made, func(w io.Writer) {
		fmt.Fprintf(w, "the key of the window %s of %s is in %s\n", made.Name, made.Agent, made.File)
		fmt.Fprintf(w, "in the settings of an editor, such as Zed:\n%s\n", a.agentServers(made))
	})
}

// writeSecret writes a secret to a new file that only its owner can read.
func writeSecret(file, secret string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(secret + "\n"); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// agentServers returns the entry for a window in the settings of an editor.
func (a *app) agentServers(w madeWindow) string {
	program, err := os.Executable()
	if err != nil {
		program = "parley"
	}
	args := []string{"--key-file", w.File, "acp", "serve", string(w.Agent)}
	if a.home != "" || os.Getenv("PARLEY_HOME") != "" { // the editor does not have the variable
		if home, err := a.homeDir(); err == nil {
			args = append([]string{"--home", home}, args...)
		}
	}
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	text, err := json.MarshalIndent(map[string]any{"agent_servers": map[string]server{
		string(w.Agent): {program, args},
	}}, "", "  ")
	if err != nil {
		return ""
	}
	return string(text)
}
