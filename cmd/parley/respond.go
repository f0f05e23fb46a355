package main

import (
	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

func (a *app) respondCommand() *cobra.Command {
	var m messageFlags
	cmd := &cobra.Command{
		Use:   "respond ID [TEXT]",
		Short: "Answer a message",
		Long:  "Answer a message, in its thread and to its sender. The message is marked as read.",
		Example: `  parley respond 0198c1d2-7a3e-7b3c-9d52-0f3b6a1e2c44 "yes, it is nullable"
  git log -5 | parley respond 0198c1d2-7a3e-7b3c-9d52-0f3b6a1e2c44 -`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := m.compose(cmd, a, args[1:])
			if err != nil {
				return err
			}
			m.ReplyTo = hub.EnvelopeID(args[0])
			return a.receipt(retry(cmd.Context(), c, api.Respond, m.SendParams))
		},
	}
	cmd.Flags().StringVar((*string)(&m.Type), "type", "", "message type (default knowledge.response for a question, otherwise status.update)")
	m.register(cmd)
	return cmd
}
