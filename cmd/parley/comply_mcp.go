package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/protocol/comply/fixture"
)

// complyServerCommand runs the MCP server that tests tell an agent to use.
func (a *app) complyServerCommand() *cobra.Command {
	var fault, note, record string
	cmd := &cobra.Command{
		Use:   "mcp-server",
		Short: "Run the MCP server of the compliance tests",
		Long: `Run a small MCP server on standard input and output, with the tools echo, add, fail
and slow. MCP tests have the agent start it. The server appends a line of JSON for
its start and for each message to the file named by --record or PARLEY_MCP_RECORD, so
a test can check how the agent used it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := fixture.Serve(cmd.Context(), a.in, a.out.raw, a.err.raw, fixture.Fault(fault), record)
			if err != nil && fault != "" {
				return errors.Join(errCheck, err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&fault, "fault", "", "fault to simulate: dead exits at once, mute never answers")
	cmd.Flags().StringVar(&record, "record", "", "file for the record; the default is PARLEY_MCP_RECORD")
	cmd.Flags().StringVar(&note, "note", "", "text for the record, without effect")
	return cmd
}
