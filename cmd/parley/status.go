package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

func (a *app) statusCommand() *cobra.Command {
	var m messageFlags
	var to, blockers []string
	var detail string
	var progress int
	cmd := &cobra.Command{
		Use:       "status update|blocked|complete SUMMARY",
		Short:     "Tell the coordinators how work stands",
		Example:   `  parley status blocked "no access to the staging database"`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{"update", "blocked", "complete"},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			base, err := m.params(cmd, a, c, "")
			if err != nil {
				return err
			}
			p := api.StatusParams{State: args[0], Summary: args[1], Detail: detail, Blockers: blockers, SendParams: base}
			for _, id := range to {
				p.To = append(p.To, hub.AgentID(id))
			}
			if cmd.Flags().Changed("progress") {
				p.Progress = &progress
			}
			return a.receipt(retry(cmd.Context(), func(ctx context.Context) (mailroom.Receipt, error) { return rpc.Call(ctx, c, api.Status, p) }))
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&to, "to", nil, "recipients (default the coordinators, else the operator)")
	f.StringVar(&detail, "detail", "", "more than fits into a sentence")
	f.IntVar(&progress, "progress", 0, "percent done")
	f.StringArrayVar(&blockers, "blocker", nil, "what stands in the way (repeatable)")
	m.register(cmd)
	f.MarkHidden("payload")
	return cmd
}
