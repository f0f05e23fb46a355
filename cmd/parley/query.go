package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/surface/api"
)

func (a *app) queryCommand() *cobra.Command {
	var p api.QueryParams
	cmd := &cobra.Command{
		Use:   "query [WORD...]",
		Short: "Search the messages you sent or received, newest first",
		Long: `Search the messages you sent or received, newest first; those who audit search all
of them. Words must all occur in a message.`,
		Example: `  parley query avatar nullable --since 2h
  parley query --from planner --to builder
  parley query --agent builder --type status.blocked --json
  parley query --overdue`,
	}

	f := cmd.Flags()
	f.StringVar((*string)(&p.Agent), "agent", "", "sender or recipient")
	f.StringVar((*string)(&p.From), "from", "", "sender")
	f.StringVar((*string)(&p.To), "to", "", "recipient")
	f.StringVar(&p.Thread, "thread", "", "thread")
	f.StringVar(&p.Team, "team", "", "messages of this team that you may read")
	f.StringVar((*string)(&p.Type), "type", "", "message type")
	f.StringVar((*string)(&p.Status), "status", "", "pending, delivered, read, expired or failed")
	f.StringVar(&p.Topic, "topic", "", "topic")
	f.StringVar(&p.Text, "text", "", "words that must all occur, as the arguments are")
	f.BoolVar(&p.Overdue, "overdue", false, "only messages that were not acknowledged by the time that their sender asked for")
	f.Var(&p.Limit, "limit", "how many at most (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "continue after a page: the cursor that it printed")

	return operation(a, cmd, api.Query, &p, func(w io.Writer, got api.QueryAnswer) {
		io.WriteString(w, mailroom.Text{Short: got.ShortIDs, When: when}.Messages(got.Messages))
		if got.Next != "" {
			fmt.Fprintf(w, "\nmore: add --cursor %s\n", got.Next)
		}
	}, func(_ context.Context, args []string) error {
		// The arguments and --text together are the words to search for.
		p.Text = strings.TrimSpace(strings.Join(append(args, p.Text), " "))
		return nil
	}, momentFlag(cmd, &p.Since, -1, "since", "not older than a span like 2h, or an ISO 8601 time"),
		momentFlag(cmd, &p.Until, -1, "until", "older than a span, or an ISO 8601 time"))
}
