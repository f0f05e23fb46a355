package main

import (
	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

func (a *app) denyCommand() *cobra.Command {
	var yes bool
	var reason string
	cmd := &cobra.Command{
		Use:   "deny ID",
		Short: "Deny a held message or handoff",
		Long: `Deny a held message, handoff or team operation; its sender is notified. On a terminal
the item is shown and you are asked to confirm. Only the operator can deny.`,
		Example: `  parley deny 0198c1d2-7a3e-7b3c-9d52-0f3b6a1e2c44 --reason "not on a Friday"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decide(cmd, api.Deny, api.IDParams{ID: hub.EnvelopeID(args[0]), Reason: reason}, "Deny it?", yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&reason, "reason", "", "reason for the sender")
	return cmd
}
