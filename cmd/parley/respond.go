package main

import (
	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

func (a *app) replyCommand() *cobra.Command {
	var m messageFlags
	cmd := &cobra.Command{
		Use:   "reply ID [TEXT]",
		Short: "Answer a message",
		Long: `Answer a message, in its thread and to its sender. The message is marked as read. A
question of a kept agent, such as q1, is answered with yes, no or the id of an option.`,
		Example: `  parley reply m17 "yes, it is nullable"
  git log -5 | parley reply m17 -
  parley reply q1 yes`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if kind, _ := splitID(args[0]); kind == "q" && len(args) == 2 {
				c, err := a.client()
				if err != nil {
					return err
				}
				return a.answerQuestion(cmd.Context(), c, args[0], args[1])
			}
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
