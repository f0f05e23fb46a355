package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/desk/watch"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// A conversation prints messages as a person reads a chat: one line each, oldest first.
type conversation struct {
	*app
	feed   watch.Feed
	follow bool

	width int    // characters of a line; 0 for no bound
	day   string // of the last line
}

func (a *app) logCommand() *cobra.Command {
	c := conversation{app: a}
	var p api.QueryParams
	whole, undelivered := false, false
	cmd := &cobra.Command{
		Use:   "log [WORD...]",
		Short: "Read or search the conversation",
		Long: `Print the conversation, one line per message, oldest first, in your time zone. You see
the messages that you sent or received; auditors see all messages.

With words, search: whole messages that contain all the words, newest first. --whole
prints whole messages without a search, --undelivered those that failed or expired.`,
		Example: `  parley log --since 1h
  parley log --follow --from planner
  parley log avatar nullable --since 2h
  parley log --whole --overdue
  parley log --undelivered`,
	}

	f := cmd.Flags()
	f.BoolVarP(&c.follow, "follow", "f", false, "keep printing new messages until Ctrl-C")
	f.BoolVar(&whole, "whole", false, "print whole messages, newest first")
	f.BoolVar(&undelivered, "undelivered", false, "list failed and expired messages")
	f.StringVar((*string)(&p.Agent), "agent", "", "only messages from or to this agent; whole")
	f.StringVar((*string)(&p.From), "from", "", "only messages from this sender")
	f.StringVar((*string)(&p.To), "to", "", "only messages to this recipient")
	f.StringVar((*string)(&p.Type), "type", "", "only messages of this type")
	f.StringVar(&p.Topic, "topic", "", "only messages with this topic")
	f.StringVar(&p.Team, "team", "", "only messages of this team that you may read")
	f.StringVar(&p.Thread, "thread", "", "only messages of this thread")
	f.StringVar((*string)(&p.Status), "status", "", "only messages with this status: pending, delivered, read, expired or failed; whole")
	f.StringVar(&p.Text, "text", "", "words to search for, in addition to the arguments; whole")
	f.BoolVar(&p.Overdue, "overdue", false, "only messages that were not acknowledged by the deadline of their sender; whole")
	f.Var(&p.Limit, "limit", "number of newest messages to print (default 50, or all with --since)")
	f.StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page; whole")
	cmd.MarkFlagsMutuallyExclusive("follow", "whole", "undelivered")
	since := momentFlag(cmd, &p.Since, -1, "since", "earliest time: a duration ago such as 2h, or an ISO 8601 time")
	until := momentFlag(cmd, &p.Until, -1, "until", "latest time: a duration ago such as 2h, or an ISO 8601 time; whole")

	words := func(_ context.Context, args []string) error {
		// The arguments and --text together are the words to search for.
		p.Text = strings.TrimSpace(strings.Join(append(args, p.Text), " "))
		return nil
	}
	return prepared(cmd, func(ctx context.Context) error {
		if undelivered {
			return a.listUndelivered(ctx)
		}
		whole = whole || p.Text != ""
		for _, name := range []string{"agent", "status", "overdue", "cursor", "until"} {
			whole = whole || f.Changed(name)
		}
		switch {
		case whole && c.follow:
			return usagef("--follow prints the conversation as it goes on; leave out words and the filters of whole messages")
		case whole:
			return a.search(ctx, p)
		}
		c.feed.Filter = p
		return c.run(ctx)
	}, words, since, until)
}

// search prints whole messages, newest first.
func (a *app) search(ctx context.Context, p api.QueryParams) error {
	return answer(ctx, a, api.Query, p, func(w io.Writer, got api.QueryAnswer) {
		io.WriteString(w, mailroom.Text{Short: got.ShortIDs, When: when}.Messages(got.Messages))
		if got.Next != "" {
			fmt.Fprintf(w, "\nmore: add --cursor %s\n", got.Next)
		}
	})
}

func (c *conversation) run(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	c.width = columns(c.out)
	seq := int64(0)
	if c.follow { // the head is read first: a message between the two is printed once
		if seq, err = watch.Head(ctx, client); err != nil {
			return err
		}
	}
	if err := c.more(ctx, client); err != nil {
		return err
	}
	if !c.follow {
		if c.feed.Empty() && !c.json {
			fmt.Fprintln(c.err, "no messages")
		}
		return nil
	}
	return watch.Follow(ctx, c.client, seq, c.away(ctx), func(client *rpc.Client, e hub.Entry) error {
		if e.Action != actions.MessageSent && e.Action != actions.MessageApproved {
			return nil
		}
		return c.more(ctx, client)
	})
}

// away returns a function that says that the hub is away, and waits.
func (a *app) away(ctx context.Context) func() {
	return func() {
		fmt.Fprintln(a.err, "the hub is unreachable; trying again")
		pause(ctx, watchRetry)
	}
}

// more prints the messages that were not printed yet.
func (c *conversation) more(ctx context.Context, client *rpc.Client) error {
	found, err := c.feed.Next(ctx, client)
	for _, e := range found {
		if err := c.show(e); err != nil {
			return err
		}
	}
	return err
}

// show prints one message.
func (c *conversation) show(e hub.Envelope) error {
	if c.json {
		return encoder(c.out).Encode(e)
	}
	at := e.CreatedAt.Local()
	if day := at.Format("Monday 2 January 2006"); day != c.day {
		c.day = day
		fmt.Fprintln(c.out, c.paint(c.out, "2", day))
	}
	names := watch.Names(e)
	text := logText(e, c.feed.Short)
	if room := c.width - len("15:04 ") - len([]rune(names)) - 2; c.width > 0 && room > 20 {
		text = shorten.Characters(text, room)
	}
	_, err := fmt.Fprintf(c.out, "%s %s  %s\n", c.paint(c.out, "2", at.Format("15:04")), c.paint(c.out, "1", names), text)
	return err
}

// logText returns the text of a message on one line, after its type if that is unusual.
func logText(e hub.Envelope, short mailroom.ShortIDs) string {
	return localTimes(cutHashes(watch.Text(e, short)))
}
