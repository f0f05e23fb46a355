package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func (a *app) queryCommand() *cobra.Command {
	var p api.QueryParams
	cmd := &cobra.Command{
		Use:   "query [WORD...]",
		Short: "Search messages, newest first",
		Long: `Search the messages that you sent or received, newest first; auditors search all
messages. A message must contain all the words.`,
		Example: `  parley query avatar nullable --since 2h
  parley query --from planner --to builder
  parley query --agent builder --type status.blocked --json
  parley query --overdue`,
	}

	f := cmd.Flags()
	f.StringVar((*string)(&p.Agent), "agent", "", "only messages from or to this agent")
	f.StringVar((*string)(&p.From), "from", "", "only messages from this sender")
	f.StringVar((*string)(&p.To), "to", "", "only messages to this recipient")
	f.StringVar(&p.Thread, "thread", "", "only messages of this thread")
	f.StringVar(&p.Team, "team", "", "only messages of this team that you may read")
	f.StringVar((*string)(&p.Type), "type", "", "only messages of this type")
	f.StringVar((*string)(&p.Status), "status", "", "only messages with this status: pending, delivered, read, expired or failed")
	f.StringVar(&p.Topic, "topic", "", "only messages with this topic")
	f.StringVar(&p.Text, "text", "", "words to search for, in addition to the arguments")
	f.BoolVar(&p.Overdue, "overdue", false, "only messages that were not acknowledged by the deadline of their sender")
	f.Var(&p.Limit, "limit", "maximum number of messages (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page")

	return operation(a, cmd, api.Query, &p, func(w io.Writer, got api.QueryAnswer) {
		io.WriteString(w, mailroom.Text{Short: got.ShortIDs, When: when}.Messages(got.Messages))
		if got.Next != "" {
			fmt.Fprintf(w, "\nmore: add --cursor %s\n", got.Next)
		}
	}, func(_ context.Context, args []string) error {
		// The arguments and --text together are the words to search for.
		p.Text = strings.TrimSpace(strings.Join(append(args, p.Text), " "))
		return nil
	}, momentFlag(cmd, &p.Since, -1, "since", "earliest time: a duration ago such as 2h, or an ISO 8601 time"),
		momentFlag(cmd, &p.Until, -1, "until", "latest time: a duration ago such as 2h, or an ISO 8601 time"))
}
