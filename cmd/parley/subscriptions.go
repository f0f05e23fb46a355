package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func (a *app) subscriptionsCommand() *cobra.Command {
	p := api.SubscribeParams{Action: "list"}
	cmd := operation(a, group("subscriptions", "List or change subscriptions", a.subscriptionsAddCommand(), a.subscriptionsRemoveCommand()), api.Subscribe, &p, writeSubscriptions)
	cmd.Args = cobra.NoArgs
	cmd.Long = `List your subscriptions, or all of them for auditors. A subscription copies messages of
your teams to your inbox that were not sent to you; the copies of 10 seconds arrive
together. Private messages of other agents are never copied.`
	return cmd
}

func (a *app) subscriptionsAddCommand() *cobra.Command {
	var f hub.Filter
	p := api.SubscribeParams{Action: "add", Filter: &f}
	cmd := &cobra.Command{
		Use: "add", Short: "Subscribe to messages",
		Long: `Copy messages to your inbox. A message must match every flag that is given, by any of
the flag's values.`,
		Example: `  parley subscriptions add --team auth --topic 'schema/*'
  parley subscriptions add --from ana,bo --type status.blocked --priority-min high`,
		Args: cobra.NoArgs,
	}
	from := listFlag(cmd, &f.From, "from", "only messages from these senders")
	topics := listFlag(cmd, &f.Topics, "topic", "only messages with these topics; schema/* matches every topic that begins with schema/")
	teams := listFlag(cmd, &f.Teams, "team", "only messages of these teams, of which you must be a member")
	types := listFlag(cmd, &f.Types, "type", "only messages of these types")
	cmd.Flags().StringVar((*string)(&f.PriorityMin), "priority-min", "", "only messages of at least this priority")
	choices(cmd, "priority-min", hub.Priorities...)
	return operation(a, cmd, api.Subscribe, &p, writeSubscriptions, from, topics, teams, types)
}

func (a *app) subscriptionsRemoveCommand() *cobra.Command {
	p := api.SubscribeParams{Action: "remove"}
	cmd := &cobra.Command{Use: "remove ID", Short: "Remove a subscription", Long: "Remove a subscription. The operator can remove any.", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.Subscribe, &p, func(w io.Writer, got api.Subscriptions) {
		fmt.Fprintf(w, "removed %s\n", got.Subscriptions[0].ID)
	}, argument(0, &p.ID))
}

func writeSubscriptions(w io.Writer, got api.Subscriptions) {
	writeList(w, "subscriptions", "ID, AGENT, FROM, TOPICS, TEAMS, TYPES, PRIORITY, SINCE", got.Subscriptions, func(s hub.Subscription) []any {
		f := s.Filter
		return []any{s.ID, s.Agent, joined(f.From), strings.Join(f.Topics, ","), strings.Join(words(f.Teams), ","), strings.Join(words(f.Types), ","), f.PriorityMin, s.CreatedAt}
	})
}

func (a *app) broadcastCommand() *cobra.Command {
	var m messageFlags
	dry := false
	cmd := &cobra.Command{
		Use: "broadcast [TEXT]", Short: "Send a message to all agents",
		Long: `Send a message to every agent on the hub. You must be a coordinator, or use priority
high or critical, and can broadcast five times an hour. With --dry-run, the hub reports
the recipients and whether the broadcast is allowed, and nothing is sent.`,
		Example: `  parley broadcast "deploying now" --priority high
  parley broadcast "deploying now" --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := m.compose(cmd, a, args)
			if err != nil {
				return err
			}

			got, err := retry(cmd.Context(), c, api.Broadcast, api.BroadcastParams{DryRun: dry, SendParams: m.SendParams})
			switch {
			case err != nil:
				return err
			case got.Trial == nil:
				return a.receipt(*got.Receipt, nil)
			}
			return a.print(got, func(w io.Writer) { writeTrial(w, *got.Trial) })
		},
	}

	cmd.Flags().StringVar((*string)(&m.Type), "type", "", "message type (default status.update for plain text)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check without sending")
	m.register(cmd)
	return cmd
}

func writeTrial(w io.Writer, t mailroom.Trial) {
	if t.Allowed {
		fmt.Fprintln(w, "allowed")
	} else {
		fmt.Fprintf(w, "not allowed: %s\n", t.Reason)
	}
	fmt.Fprintf(w, "  recipients: %s\n  remaining this hour: %d\n  resets at: %s\n", joined(t.Recipients), t.Remaining, when(t.ResetsAt))
}
