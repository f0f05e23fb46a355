package main

import (
	"cmp"
	"context"
	"io"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// listUndelivered lists failed and expired messages, newest first: the caller's own, or those of all
// agents for the operator and auditors.
func (a *app) listUndelivered(ctx context.Context) error {
	return answer(ctx, a, api.ListUndelivered, api.None{}, func(w io.Writer, got mailroom.UndeliveredList) {
		writeList(w, "undelivered messages", "ID, SENT, FROM, MISSED BY, STATUS, WHY, SENT AGAIN AS, TEXT", got.Messages, func(u mailroom.Undelivered) []any {
			e := u.Message
			again := cmp.Or(got.ShortIDs.Of(string(u.Retried)), "-")
			return []any{got.ShortIDs.Of(string(e.ID)), e.CreatedAt, e.From, mailroom.JoinTo(u.Missed), state(e.Status), cmp.Or(u.Reason, "-"), again, shorten.Line(got.ShortIDs.Headline(e), 60)}
		})
	})
}
