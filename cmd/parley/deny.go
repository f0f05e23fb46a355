package main

import (
	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

func (a *app) denyCommand() *cobra.Command {
	var yes bool
	var reason string
	cmd := &cobra.Command{
		Use:   "deny ID",
		Short: "Make a held message fail",
		Long: `Make a held message fail; its sender is told. On a terminal the message is
shown and you are asked first. Only the operator can do this.`,
		Example: `  parley deny 0198c1d2-7a3e-7b3c-9d52-0f3b6a1e2c44 --reason "not on a Friday"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			id := hub.EnvelopeID(args[0])
			if ok, err := a.confirm(cmd, c, id, "Refuse it?", yes); err != nil || !ok {
				return err
			}
			return a.verdict(rpc.Call(cmd.Context(), c, api.Deny, api.IDParams{ID: id, Reason: reason}))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&reason, "reason", "", "what the sender is told")
	return cmd
}
