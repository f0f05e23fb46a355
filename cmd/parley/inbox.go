package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func (a *app) inboxCommand() *cobra.Command {
	var p api.InboxParams
	var wait time.Duration
	var watch bool
	var ids []string
	cmd := &cobra.Command{
		Use:   "inbox [AGENT]",
		Short: "Read your inbox, most urgent first",
		Long: `Read your inbox, most urgent first. A message that has been shown counts as delivered;
it stays in the inbox until it is acknowledged: with --ack (all shown messages), with
--ack-id, or by answering it. The operator can name an agent and read its inbox without
changing it.`,
		Example: `  parley inbox --wait 30s
  parley inbox --watch --ack --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				p.Agent = hub.AgentID(args[0])
			}

			c, err := a.client()
			if err != nil {
				return err
			}

			// Flags that contradict each other are refused before the hub is called.
			switch {
			case p.Ack.All && len(ids) > 0:
				return usagef("--ack and --ack-id cannot be combined")
			case p.Agent != "" && watch:
				return usagef("--watch works only for your own inbox").WithHint(`run "parley hub journal --follow" to see every message as it is sent`)
			case p.Peek && (p.Ack.All || len(ids) > 0):
				return usagef("--peek cannot be combined with --ack or --ack-id")
			case watch && (p.Peek || p.Cursor != "" || wait != 0):
				return usagef("--watch cannot be combined with --wait, --peek or --cursor")
			case p.Part != 0 && p.ID == "":
				return usagef("--part needs --id").WithHint("for example: parley inbox --id m17 --part 1")
			case wait < 0:
				return usagef("--wait must not be negative")
			}

			for _, id := range ids {
				p.Ack.IDs = append(p.Ack.IDs, hub.EnvelopeID(id))
			}
			if watch {
				return a.watchInbox(cmd.Context(), c, p)
			}

			got, err := waitInbox(cmd.Context(), c, p, wait)
			if err != nil {
				return err
			}
			return a.printInbox(got)
		},
	}

	f := cmd.Flags()
	f.DurationVar(&wait, "wait", 0, "time to wait for a message if the inbox is empty")
	f.BoolVar(&watch, "watch", false, "keep printing new messages until Ctrl-C")
	f.BoolVar(&p.Ack.All, "ack", false, "mark the shown messages as read")
	f.StringSliceVar(&ids, "ack-id", nil, "mark these messages as read")
	f.BoolVar(&p.NewOnly, "new", false, "show only messages that were not shown before")
	f.BoolVar(&p.Peek, "peek", false, "show messages without marking them as delivered")
	f.StringVar((*string)(&p.ID), "id", "", "show only the message with this id")
	f.Var(&p.Part, "part", "with --id: part of a long text to show, starting at 1")
	f.Var(&p.Limit, "limit", "maximum number of messages (default 50)")
	f.StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page")
	cmd.AddCommand(a.inboxTopicsCommand())
	return cmd
}

// waitInbox fetches the inbox, in several calls if the wait is long.
func waitInbox(ctx context.Context, c *rpc.Client, p api.InboxParams, wait time.Duration) (mailroom.Inbox, error) {
	deadline := time.Now().Add(wait)
	for {
		left := min(time.Until(deadline), mailroom.MaxWait)
		p.WaitS = max(0, int((left+time.Second-1)/time.Second))
		got, err := rpc.Call(ctx, c, api.Inbox, p)
		if err != nil || len(got.Messages) > 0 || time.Until(deadline) <= 0 {
			return got, err
		}
		p.Ack.IDs = nil // done
	}
}

// watchInbox shows each message once, also over a restart of the hub. A hub
// that cannot be reached at the first call is an error.
func (a *app) watchInbox(ctx context.Context, c *rpc.Client, p api.InboxParams) error {
	p.NewOnly = true
	wait, away := time.Duration(0), false
	for {
		got, err := waitInbox(ctx, c, p, wait)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how this ends
		case hub.Unavailable(err) && wait > 0:
			if !away {
				fmt.Fprintln(a.err, "the hub is unreachable; trying again")
			}
			away = true
			pause(ctx, watchRetry)
			// It may have come back under another address.
			if again, err := a.client(); err == nil {
				c = again
			}
			continue
		case err != nil:
			return err
		}

		if away {
			fmt.Fprintln(a.err, "the hub is back")
		}
		wait = mailroom.MaxWait
		away = false
		p.Ack.IDs = nil

		if len(got.Messages) == 0 {
			continue
		}
		got.Next = "" // the rest comes by itself
		if err := a.printInbox(got); err != nil {
			return err
		}
	}
}

// watchRetry is the time between two attempts of a watch to reach the hub again.
const watchRetry = 500 * time.Millisecond

func (a *app) printInbox(got mailroom.Inbox) error {
	return a.print(got, func(w io.Writer) {
		io.WriteString(w, mailroom.Text{Short: got.ShortIDs, Viewer: got.You, When: when}.Messages(got.Messages))
		if got.Part != nil {
			io.WriteString(w, mailroom.RenderPart(got))
		}
		if got.Next != "" {
			fmt.Fprintf(w, "\nmore: parley inbox --cursor %s\n", got.Next)
		}
	})
}
