package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// askPause is the time between two looks for an answer.
const askPause = 300 * time.Millisecond

// A dialogue is a question and the answer to it, nil if none came.
type dialogue struct {
	Question hub.EnvelopeID `json:"question"`
	Answer   *hub.Envelope  `json:"answer"`
}

func (a *app) askCommand() *cobra.Command {
	var m messageFlags
	wait := 5 * time.Minute
	cmd := &cobra.Command{
		Use:   "ask AGENT QUESTION",
		Short: "Ask an agent and wait for the answer",
		Long: `Ask an agent a question, wait for the answer and print it. The answer is marked as
read. If no answer arrives in time, the exit code is 1; the question stays in the
agent's inbox, and a later answer goes to yours.`,
		Example: `  parley ask builder "Can avatar be null?" --wait 5m`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait < 0 {
				return usagef("--wait must not be negative")
			}

			c, err := m.compose(cmd, a, args[1:])
			if err != nil {
				return err
			}
			m.To, m.Type = api.Recipients{hub.AgentID(args[0])}, hub.TypeKnowledgeQuery
			sent, err := retry(cmd.Context(), c, api.Send, m.SendParams)
			if err != nil {
				return err
			}

			got := dialogue{Question: sent.ID}
			if got.Answer, err = waitAnswer(cmd.Context(), c, sent, wait); err != nil {
				return err
			}

			// Without an answer, the deliveries show how far the question got.
			if got.Answer == nil {
				fmt.Fprintf(a.err, "no answer from %s within %s; the question is %s\n", args[0], wait, cmp.Or(string(sent.ShortID), string(sent.ID)))
				for _, d := range sent.Deliveries {
					fmt.Fprintf(a.err, "  %s over %s: %s, %s\n", d.Recipient, d.Channel, d.Reach, d.Reason)
				}
			}

			return a.check(got.Answer != nil, got, func(w io.Writer) {
				if got.Answer != nil {
					io.WriteString(w, mailroom.Text{When: when}.Messages([]hub.Envelope{*got.Answer}))
				}
			})
		},
	}

	cmd.Flags().DurationVar(&wait, "wait", wait, "how long to wait for the answer")
	m.register(cmd)
	cmd.Flags().MarkHidden("payload")
	return cmd
}

// waitAnswer returns the first answer to a question and acks it, or nil if none
// comes in time. It reads the thread of the question, so that other messages in the
// inbox stay as they are.
func waitAnswer(ctx context.Context, c *rpc.Client, question mailroom.Receipt, wait time.Duration) (*hub.Envelope, error) {
	for deadline := now().Add(wait); ; pause(ctx, askPause) {
		page, err := rpc.Call(ctx, c, api.Query, api.QueryParams{Thread: question.ThreadID})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		}
		i := slices.IndexFunc(page.Messages, func(e hub.Envelope) bool { return e.ReplyTo == question.ID })
		if i >= 0 {
			answer := page.Messages[i]
			_, err := rpc.Call(ctx, c, api.Inbox, api.InboxParams{Peek: true, Limit: 1, Ack: api.AckSet{IDs: []hub.EnvelopeID{answer.ID}}})
			return &answer, err
		}
		if now().After(deadline) {
			return nil, nil
		}
	}
}
