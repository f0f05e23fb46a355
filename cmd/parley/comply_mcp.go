package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/comply/fixture"
)

// complyServerCommand is the MCP server that tests tell an agent to use.
func (a *app) complyServerCommand() *cobra.Command {
	var fault, note string
	cmd := &cobra.Command{
		Use:   "mcp-server",
		Short: "Be the MCP server that compliance tests give to an agent",
		Long: `Be a small MCP server over standard input and output, with the tools echo, add,
fail and slow. Tests that are about MCP tell the agent to start it. The file that
the variable PARLEY_MCP_RECORD names gets a line of JSON for its start and for
each message, so that a test can see whether and how it was used.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := fixture.Serve(cmd.Context(), a.in, a.out, a.err, fixture.Fault(fault))
			if err != nil && fault != "" {
				return errors.Join(errCheck, err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&fault, "fault", "", "what it does wrong: dead ends at once, mute never answers")
	cmd.Flags().StringVar(&note, "note", "", "goes into the record with the other arguments")
	return cmd
}
