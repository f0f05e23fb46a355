package main

import (
	"cmp"
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func (a *app) undeliveredCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undelivered",
		Short: "List failed and expired messages",
		Long: `List failed and expired messages, newest first: your own, or those of all agents for the
operator and auditors. "parley retry" sends a message again.`,
		Example: `  parley undelivered
  parley undelivered --as-operator --json`,
		Args: cobra.NoArgs,
	}
	return operation(a, cmd, api.ListUndelivered, &api.None{}, func(w io.Writer, got mailroom.UndeliveredList) {
		writeList(w, "undelivered messages", "ID, SENT, FROM, MISSED BY, STATUS, WHY, SENT AGAIN AS, TEXT", got.Messages, func(u mailroom.Undelivered) []any {
			e := u.Message
			again := cmp.Or(got.ShortIDs.Of(string(u.Retried)), "-")
			return []any{got.ShortIDs.Of(string(e.ID)), e.CreatedAt, e.From, mailroom.JoinTo(u.Missed), state(e.Status), cmp.Or(u.Reason, "-"), again, shorten.Line(got.ShortIDs.Headline(e), 60)}
		})
	})
}

func (a *app) retryCommand() *cobra.Command {
	var p api.RetryParams
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Resend a failed or expired message",
		Long: `Resend a failed or expired message to the recipients that missed it. The new message has
the same sender and content, and refers to the old one. A message can be resent once, by
its sender or the operator.`,
		Example: `  parley retry m17
  parley retry m17 --expires 2h`,
		Args: cobra.ExactArgs(1),
	}
	return prepared(cmd, func(ctx context.Context) error {
		return a.receipt(call(ctx, a, api.Retry, p))
	}, argument(0, &p.ID), momentFlag(cmd, &p.ExpiresAt, 1, "expires", "expiry if unread: a duration such as 2h, or an ISO 8601 time (default the same duration as before)"))
}
