package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/watch"
)

func (a *app) watchCommand() *cobra.Command {
	var plain bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch the hub in this terminal, and answer what waits for you",
		Long: `Watch the hub in this terminal: agents and how they stand, the conversation,
handoffs with their proof, and what waits for a person. The keys are shown: choose
with the arrows, read with enter, answer with y or n, leave with q. An answer counts
once, wherever it is given.

Without a terminal, or with --plain, each message and each thing that begins or ends
to wait is a line. parley without arguments does the same as parley watch on a
terminal while a hub runs.`,
		Example: "  parley watch\n  parley watch --plain --as-operator | tee today.log",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.watch(cmd.Context(), plain) },
	}
	cmd.Flags().BoolVar(&plain, "plain", false, "print lines, and ask nothing")
	return cmd
}

func (a *app) watch(ctx context.Context, plain bool) error {
	url, err := a.hubURL()
	if err != nil {
		return err
	}
	o := watch.Options{Connect: a.client, URL: url, In: a.in, Out: a.out}
	if plain || !isTerminal(a.in) || !isTerminal(a.out) || os.Getenv("TERM") == "dumb" {
		return watch.Plain(ctx, o)
	}
	o.Out = a.out.raw
	return watch.Run(ctx, o)
}
