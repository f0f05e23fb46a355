package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
)

// An agentChange is a call that changes how an agent stands.
type agentChange func(context.Context, hub.AgentID) (api.AgentState, error)

// agentChange returns the command for one of them.
func (a *app) agentChange(verb, short, done string, method func(*api.Client) agentChange) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := method(c)(cmd.Context(), hub.AgentID(args[0]))
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { fmt.Fprintf(w, "%s is %s\n", got.Agent.ID, done) })
		},
	}
}
