package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/shorten"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

// A conversation prints messages as a person reads a chat: one line each, oldest first.
type conversation struct {
	*app
	filter api.QueryParams
	follow bool

	width int                     // characters of a line; 0 for no bound
	day   string                  // of the last line
	last  hub.Time                // when the last printed message was sent
	shown map[hub.EnvelopeID]bool // messages of that time
}

func (a *app) logCommand() *cobra.Command {
	c := conversation{app: a, shown: map[hub.EnvelopeID]bool{}}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Print the conversation of the agents, one line a message, oldest first",
		Long: `Print the conversation as a person reads it: one line a message, oldest first, in
your time zone. You see the messages that you sent or received; those who audit see
all of them. parley query shows whole messages.`,
		Example: `  parley log --since 1h
  parley log --follow --from planner
  parley log --type status.blocked --json`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.BoolVarP(&c.follow, "follow", "f", false, "then print each new message, until Ctrl-C")
	f.StringVar((*string)(&c.filter.From), "from", "", "sender")
	f.StringVar((*string)(&c.filter.To), "to", "", "recipient")
	f.StringVar((*string)(&c.filter.Type), "type", "", "message type")
	f.StringVar(&c.filter.Topic, "topic", "", "topic")
	f.StringVar(&c.filter.Team, "team", "", "messages of this team that you may read")
	f.StringVar(&c.filter.Thread, "thread", "", "thread")
	f.IntVar(&c.filter.Limit, "limit", 0, "how many of the newest at most (default 50, or all since --since)")
	return prepared(cmd, c.run, momentFlag(cmd, &c.filter.Since, -1, "since", "not older than a span like 2h, or an ISO 8601 time"))
}

func (c *conversation) run(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if isTerminal(c.out) {
		if f, ok := c.out.(interface{ Fd() uintptr }); ok {
			c.width, _, _ = term.GetSize(int(f.Fd())) // 0 if the terminal does not say
		}
	}
	seq := int64(0)
	if c.follow { // the head is read first: a message between the two is printed once
		page, err := rpc.Call(ctx, client, api.Audit, api.AuditParams{Limit: 1})
		if err != nil {
			return err
		}
		seq = page.Head.Seq
	}
	if err := c.more(ctx, client); err != nil {
		return err
	}
	if !c.follow {
		if c.last.IsZero() && !c.json {
			fmt.Fprintln(c.err, "no messages")
		}
		return nil
	}
	for {
		seq, err = client.Follow(ctx, seq, func(e hub.Entry) error {
			if e.Action != hub.ActionMessageSent && e.Action != hub.ActionMessageApproved {
				return nil
			}
			return c.more(ctx, client)
		})
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how this ends
		case !errors.Is(err, rpc.ErrUnreachable):
			return err
		}
		fmt.Fprintln(c.err, "the hub is away, trying again")
		pause(ctx, watchRetry)
		if again, err := c.client(); err == nil { // it may have come back under another address
			client = again
		}
	}
}

// more prints the messages that were not printed yet: at first the newest ones, or all
// since a time; later those since the last one.
func (c *conversation) more(ctx context.Context, client *rpc.Client) error {
	p := c.filter
	if !c.last.IsZero() {
		p.Since, p.Limit = c.last, 0
	}
	whole := p.Limit == 0 && !p.Since.IsZero() // follow the pages
	var found []hub.Envelope
	for {
		got, err := rpc.Call(ctx, client, api.Query, p)
		if err != nil {
			return err
		}
		found = append(found, got.Messages...)
		if p.Cursor = got.Next; p.Cursor == "" || !whole {
			break
		}
	}
	for _, e := range slices.Backward(found) {
		if c.shown[e.ID] {
			continue
		}
		if e.CreatedAt != c.last {
			clear(c.shown)
		}
		c.last, c.shown[e.ID] = e.CreatedAt, true
		if err := c.show(e); err != nil {
			return err
		}
	}
	return nil
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
	to := make([]string, len(e.To))
	for i, id := range e.To {
		if to[i] = string(id); id == hub.Everyone {
			to[i] = "all"
		}
	}
	names := string(e.From) + " → " + strings.Join(to, ", ")
	kind := ""
	if e.Type != hub.TypeStatusUpdate {
		kind = string(e.Type) + ": "
	}
	text := kind + mailroom.Headline(e)
	if room := c.width - len("15:04 ") - len([]rune(names)) - 2; c.width > 0 && room > 20 {
		text = shorten.Characters(text, room)
	}
	_, err := fmt.Fprintf(c.out, "%s %s  %s\n", c.paint(c.out, "2", at.Format("15:04")), c.paint(c.out, "1", visible(names)), visible(text))
	return err
}
