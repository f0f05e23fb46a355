package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/surface/api"
)

func (a *app) queryCommand() *cobra.Command {
	var p api.QueryParams
	var agent, kind, status, since, until string
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Search the messages you sent or received, newest first",
		Example: `  parley query --since 2h --text avatar
  parley query --agent builder --type status.blocked --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			p.Agent, p.Type, p.Status = hub.AgentID(agent), hub.MessageType(kind), hub.MessageStatus(status)
			if p.Since, err = moment("since", since, -1); err != nil {
				return err
			}
			if p.Until, err = moment("until", until, -1); err != nil {
				return err
			}
			return answer(cmd.Context(), a, api.Query, p, func(w io.Writer, got mailroom.Listing) {
				io.WriteString(w, mailroom.RenderMessages(got.Messages))
				if got.Next != "" {
					fmt.Fprintf(w, "\nmore: add --cursor %s\n", got.Next)
				}
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "sender or recipient")
	f.StringVar(&p.Thread, "thread", "", "thread")
	f.StringVar(&kind, "type", "", "message type")
	f.StringVar(&status, "status", "", "pending, delivered, read, expired or failed")
	f.StringVar(&p.Topic, "topic", "", "topic")
	f.StringVar(&since, "since", "", "not older than a span like 2h, or an ISO 8601 time")
	f.StringVar(&until, "until", "", "older than a span, or an ISO 8601 time")
	f.StringVar(&p.Text, "text", "", "words that must all occur")
	f.IntVar(&p.Limit, "limit", 0, "how many at most (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "go on after a page: its next")
	return cmd
}
