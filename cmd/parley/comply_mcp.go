package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/comply/fixture"
)

// complyServerCommand runs the MCP server that tests tell an agent to use.
func (a *app) complyServerCommand() *cobra.Command {
	var fault, note string
	cmd := &cobra.Command{
		Use:   "mcp-server",
		Short: "Run the MCP server that compliance tests give to an agent",
		Long: `Run a small MCP server over standard input and output, with the tools echo, add,
fail and slow. Tests of MCP tell the agent to start it. The server appends a line
of JSON for its start and for each message to the file that the variable
PARLEY_MCP_RECORD names, so that a test can check how the agent used it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := fixture.Serve(cmd.Context(), a.in, a.out.raw, a.err.raw, fixture.Fault(fault))
			if err != nil && fault != "" {
				return errors.Join(errCheck, err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&fault, "fault", "", "how it misbehaves: dead ends at once, mute never answers")
	cmd.Flags().StringVar(&note, "note", "", "text for the record; it has no effect")
	return cmd
}
