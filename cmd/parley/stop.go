package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the hub",
		Long:  "Stop the hub, and wait until it has released its home: at most 10 seconds.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			c, err := a.client()
			if err != nil {
				return err
			}
			home, err := a.homeDir()
			if err != nil {
				return err
			}
			got, err := stopHub(ctx, c, home)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { fmt.Fprintf(w, "stopped the hub (process %d)\n", got.PID) })
		},
	}
}

// stopHub stops the hub that the client calls and waits until it has released its home.
func stopHub(ctx context.Context, c *rpc.Client, home string) (api.HubProcess, error) {
	got, err := rpc.Call(ctx, c, api.StopHub, api.None{})
	if err != nil {
		return got, err
	}
	elsewhere := os.Getenv("PARLEY_URL") != "" // then the home may be that of another hub
	for deadline := now().Add(server.EndTime); ; pause(ctx, 20*time.Millisecond) {
		_, err := rpc.Call(ctx, c, api.Whoami, api.None{})
		switch {
		case ctx.Err() != nil:
			return got, ctx.Err()
		case err != nil && (elsewhere || !server.Running(home)):
			return got, nil
		case now().After(deadline):
			return got, hub.Errorf(hub.CodeDegraded, "parley", "the hub (process %d) is still running after %s", got.PID, server.EndTime).
				WithHint(`run "kill %d" to end the process`, got.PID)
		}
	}
}
