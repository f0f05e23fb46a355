package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

// agentChange returns a command that changes the state of an agent.
func (a *app) agentChange(verb, short, done string, o rpc.Operation[*api.Services, api.AgentParams, api.AgentState]) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := api.AgentParams{ID: hub.AgentID(args[0])}
			return answer(cmd.Context(), a, o, p, func(w io.Writer, got api.AgentState) { fmt.Fprintf(w, "%s is %s\n", got.Agent.ID, done) })
		},
	}
}
