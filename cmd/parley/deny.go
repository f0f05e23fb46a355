package main

import (
	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/operation/api"
)

func (a *app) denyCommand() *cobra.Command {
	var yes bool
	var reason string
	cmd := &cobra.Command{
		Use:   "deny [ID]",
		Short: "Say no to a thing that waits for you",
		Long: `Say no to a thing that waits: a held message, a handoff, a landing, a review, an operation
of a team, or a question of a kept agent. Its sender reads the reason. On a terminal the
item is shown and you are asked to confirm. Without an id, list everything that waits.`,
		Example: `  parley deny
  parley deny m17 --because "not on a Friday"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return answer(cmd.Context(), a, api.ListHeld, api.None{}, writeHeld)
			}
			return a.answerWaiting(cmd, verdict{id: args[0], because: reason, yes: yes})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&reason, "because", "", "reason, which the sender reads")
	return cmd
}
