// Package watch is the view of a hub in a terminal: agents, the conversation, handoffs
// with their proof, and the things that wait for a person; a key answers one.
//
// It reads and answers by the operations of the tables, over the client that every
// command has, and learns of changes from the stream of events. What it keeps is
// bounded: old rows are dropped, and a burst of events is one read.
package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// A Feed reads the messages that match a filter, oldest first, each once: at first the
// newest ones, or all since a time; later those since the last one.
type Feed struct {
	Filter api.QueryParams
	Most   int // messages that a call returns; older ones are left out. 0 for no bound

	Short mailroom.ShortIDs // of the messages that the last call returned

	last  hub.Time                // when the last message was sent
	shown map[hub.EnvelopeID]bool // messages of that time
}

// Empty reports whether no message was read yet.
func (f *Feed) Empty() bool { return f.last.IsZero() }

// Next returns the messages that were not read yet.
func (f *Feed) Next(ctx context.Context, client *rpc.Client) ([]hub.Envelope, error) {
	p := f.Filter
	if !f.last.IsZero() {
		p.Since, p.Limit = f.last, 0
	}
	whole := p.Limit == 0 && !p.Since.IsZero() // follow the pages

	var found []hub.Envelope
	f.Short = mailroom.ShortIDs{}
	for {
		got, err := rpc.Call(ctx, client, api.Query, p)
		if err != nil {
			return nil, err
		}
		found = append(found, got.Messages...)
		maps.Copy(f.Short, got.ShortIDs)
		p.Cursor = got.Next
		isEnough := f.Most > 0 && len(found) >= f.Most
		if p.Cursor == "" || !whole || isEnough {
			break
		}
	}

	// The hub returns the messages of the last time again: their ids tell which were shown.
	if f.shown == nil {
		f.shown = map[hub.EnvelopeID]bool{}
	}
	var out []hub.Envelope
	for _, e := range slices.Backward(found) {
		if f.shown[e.ID] {
			continue
		}
		if e.CreatedAt != f.last {
			clear(f.shown)
		}
		f.last, f.shown[e.ID] = e.CreatedAt, true
		out = append(out, e)
	}
	return out, nil
}

// Names returns the sender and the recipients of a message as a person reads them.
func Names(e hub.Envelope) string {
	to := make([]string, len(e.To))
	for i, id := range e.To {
		if to[i] = string(id); id == hub.Everyone {
			to[i] = "all"
		}
	}
	return plaintext.Line(string(e.From) + " → " + strings.Join(to, ", "))
}

// Text returns the text of a message on one line, after its type if that is unusual.
func Text(e hub.Envelope, short mailroom.ShortIDs) string {
	text := short.Headline(e)
	name := plaintext.Line(string(e.Type))
	if e.Type == hub.TypeStatusUpdate || text == name {
		return text
	}
	return name + ": " + text
}

// A Connection makes a client. It is called again when the hub was away: the hub may
// have come back under another address.
type Connection func() (*rpc.Client, error)

// Head returns the number of the newest journal entry that the caller may see. It is
// read before the state that is followed from it.
func Head(ctx context.Context, client *rpc.Client) (int64, error) {
	page, err := rpc.Call(ctx, client, api.Audit, api.AuditParams{Limit: 1})
	return page.Head.Seq, err
}

// Follow calls fn with each journal entry after seq until ctx ends or the hub refuses.
// When the hub cannot be reached it calls away, which waits, and connects again.
func Follow(ctx context.Context, connect Connection, seq int64, away func(), fn func(*rpc.Client, hub.Entry) error) error {
	client, err := connect()
	if err != nil {
		return err
	}
	for {
		seq, err = client.Follow(ctx, seq, func(e hub.Entry) error { return fn(client, e) })
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, rpc.ErrUnreachable):
			return err
		}
		away()
		if again, err := connect(); err == nil {
			client = again
		}
	}
}
