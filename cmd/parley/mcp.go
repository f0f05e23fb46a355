package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/surface/mcptools"
)

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve the hub's tools over MCP on stdio",
		Long: `Serve the hub's tools as an MCP server on standard input and output, for agents that
start their MCP servers as programs. The hub must be running. PARLEY_KEY or --key-file
determines the agent that the tools act for. Agents that speak MCP over HTTP can use
the hub's /mcp directly.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.clientFor("stdio-" + string(hub.NewIDs(now).Next()))
			if err != nil {
				return err
			}
			if _, err := rpc.Call(cmd.Context(), c, api.Whoami, api.None{}); err != nil && !hub.Unavailable(err) {
				return err // a key that is wrong now will not become right; a hub that is away may come back
			}
			in, ok := a.in.(io.ReadCloser)
			if !ok {
				in = io.NopCloser(a.in)
			}
			if err := mcptools.ServeStdio(cmd.Context(), version(), c, in, output{a.out.raw}); err != nil && cmd.Context().Err() == nil {
				return hub.Errorf(hub.CodeDegraded, "parley mcp", "%v", err)
			}
			return nil
		},
	}
}

// output closes a writer if it can be closed.
type output struct{ io.Writer }

func (w output) Close() error {
	if f, ok := w.Writer.(*os.File); ok {
		return f.Close()
	}
	return nil
}
