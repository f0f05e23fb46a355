package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

func (a *app) inboxTopicsCommand() *cobra.Command {
	p := api.SubscribeParams{Action: "list"}
	list := operation(a, &cobra.Command{Use: "list", Short: "List your subscriptions", Args: cobra.NoArgs}, api.Subscribe, &p, writeSubscriptions)
	cmd := noun("topics", "List or change the subscriptions of your inbox", list, a.subscriptionsAddCommand(), a.subscriptionsRemoveCommand())
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
		Example: `  parley inbox topics add --team auth --topic 'schema/*'
  parley inbox topics add --from ana,bo --type status.blocked --priority-min high`,
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
