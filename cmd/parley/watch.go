package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/desk/watch"
)

func (a *app) watchCommand() *cobra.Command {
	var plain bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch the hub in this terminal",
		Long: `Watch the hub in this terminal: agents and their activity, the conversation, handoffs
with their proof, and the items that wait for a person. The keys are shown: select with
the arrow keys, read with Enter, answer with y or n, quit with q. An answer counts once,
wherever it is given.

Without a terminal, or with --plain, a line is printed for each message and for each
item that starts or stops waiting. On a terminal, "parley" without arguments is the same
as "parley watch" while a hub is running.`,
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
	o := watch.Options{Connect: a.client, URL: url, In: a.in, Out: a.out, When: when}
	canDraw := isTerminal(a.in) && isTerminal(a.out) && os.Getenv("TERM") != "dumb"
	if plain || !canDraw {
		return watch.Plain(ctx, o)
	}
	o.Out = a.out.raw
	return watch.Run(ctx, o)
}
