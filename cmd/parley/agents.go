package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
)

// An agentCLI is a known agent CLI, with its state on this machine.
type agentCLI struct {
	cli.CLI
	Installed bool   `json:"installed"`
	Path      string `json:"path,omitempty"`
	Version   string `json:"version,omitempty"`
	Problem   string `json:"problem,omitempty"`
	Runnable  bool   `json:"runnable"` // the program that speaks ACP is installed
}

func (a *app) agentClisCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clis",
		Short: "List known agent CLIs and their ACP commands",
		Long: `List the known agent CLIs with the installed version and the command that starts each
over ACP. Every installed CLI is started once to read its version.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := os.UserHomeDir()
			if err != nil {
				return hub.Errorf(hub.CodeInvalid, "parley", "cannot find the home folder: %v", err)
			}

			found := map[string]cli.Installation{}
			for _, i := range cli.Detect(cmd.Context(), home) {
				found[i.Name] = i
			}

			// An installed CLI may still lack the program that speaks ACP for it.
			list := []agentCLI{}
			for _, c := range cli.Agents() {
				i, ok := found[c.Name]
				_, err := exec.LookPath(c.ACP[0])
				list = append(list, agentCLI{CLI: c, Installed: ok, Path: i.Path, Version: i.Version, Problem: i.Problem, Runnable: err == nil})
			}

			return a.print(map[string]any{"agents": list}, func(w io.Writer) {
				writeTable(w, "", list, func(d agentCLI) []any {
					state := "not installed"
					switch {
					case d.Installed && d.Runnable:
						state = strings.TrimSpace("installed " + d.Version)
					case d.Installed && d.Adapter != "":
						state = fmt.Sprintf("installed %s, needs the npm package %s", d.Version, d.Adapter)
					case d.Installed:
						state = fmt.Sprintf("installed %s, but %s is not on the PATH", d.Version, d.ACP[0])
					}
					return []any{d.Name, state, strings.Join(d.ACP, " ")}
				})
			})
		},
	}
}
