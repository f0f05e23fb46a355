package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

func (a *app) statusCommand() *cobra.Command {
	var m messageFlags
	var p api.StatusParams
	var progress int
	cmd := &cobra.Command{
		Use:       "status update|blocked|complete SUMMARY",
		Short:     "Report the status of your work",
		Example:   `  parley status blocked "no access to the staging database"`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{"update", "blocked", "complete"},
	}

	f := cmd.Flags()
	to := listFlag(cmd, (*[]hub.AgentID)(&m.To), "to", "recipients (default the coordinators, or the operator)")
	f.StringVar(&p.Detail, "detail", "", "more details")
	f.IntVar(&progress, "progress", 0, "progress in percent")
	f.StringArrayVar(&p.Blockers, "blocker", nil, "cause of the block (repeatable)")
	m.register(cmd)
	f.MarkHidden("payload")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		if err := errors.Join(to(cmd.Context(), args), m.complete(cmd, a, c)); err != nil {
			return err
		}

		p.State = args[0]
		p.Summary = args[1]
		p.SendParams = m.SendParams
		if f.Changed("progress") {
			p.Progress = &progress
		}
		return a.receipt(retry(cmd.Context(), c, api.Status, p))
	}
	return cmd
}
