package mailroom

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// ShortIDs has the short ids of messages, threads and handoffs that an answer names,
// by their ids.
type ShortIDs map[string]hub.ShortID

// Of returns the short id for an id, or the id itself if there is none.
func (s ShortIDs) Of(id string) string {
	if short, ok := s[id]; ok {
		return string(short)
	}
	return id
}

// ShortIDs returns the short ids for messages and everything that they name, and for
// further ids.
func (m *Mailroom) ShortIDs(ctx context.Context, messages []hub.Envelope, more ...string) (ShortIDs, error) {
	out, err := hub.Read(ctx, m.store, func(r hub.Reader) (ShortIDs, error) { return shortIDs(r, messages, more...) })
	if err != nil {
		return nil, fmt.Errorf("mailroom: short ids: %w", err)
	}
	return out, nil
}

// shortIDs returns the short ids for messages, the messages that they answer, the
// first messages of their threads, the messages and handoffs that their payloads name,
// and for further ids.
func shortIDs(r hub.Reader, messages []hub.Envelope, more ...string) (ShortIDs, error) {
	out := ShortIDs{}
	add := func(id string) error {
		if _, known := out[id]; known || id == "" {
			return nil
		}
		short, err := r.ShortID(id)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound: // a thread with a name of its own, or a message in an archive
			return nil
		case err != nil:
			return err
		}
		out[id] = short
		return nil
	}
	for _, id := range more {
		if err := add(id); err != nil {
			return nil, err
		}
	}
	for _, e := range messages {
		names := []string{string(e.ID), string(e.ReplyTo), e.ThreadID}
		if c := e.CopyOf(); c != nil {
			names = append(names, string(c.Message))
		}
		for _, id := range append(names, namedIn(e.Payload)...) {
			if err := add(id); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Resolve returns the id of the message that a short id names. Any other id is
// returned as it is. To an actor that may not see the message it reports the same
// error as for a short id that was never given.
func (m *Mailroom) Resolve(ctx context.Context, op string, actor hub.Caller, id hub.EnvelopeID) (hub.EnvelopeID, error) {
	if !hub.ShortID(id).Is(hub.ShortMessage) {
		return id, nil
	}
	msg, err := m.named(ctx, op, actor, hub.ShortID(id))
	return msg.ID, err
}

// ResolveThread returns the thread of the message that a short id names, if the actor
// may see that message, else the thread of that very name.
func (m *Mailroom) ResolveThread(ctx context.Context, op string, actor hub.Caller, thread string) (string, error) {
	if !hub.ShortID(thread).Is(hub.ShortMessage) {
		return thread, nil
	}
	msg, err := m.named(ctx, op, actor, hub.ShortID(thread))
	if hub.CodeOf(err) == hub.CodeNotFound {
		return thread, nil
	}
	return msg.ThreadID, err
}

// named returns the message that a short id names.
func (m *Mailroom) named(ctx context.Context, op string, actor hub.Caller, id hub.ShortID) (msg hub.Message, err error) {
	err = m.store.View(ctx, func(r hub.Reader) error {
		long, err := r.LongID(id)
		if err == nil {
			msg, err = m.visible(r, op, actor, hub.EnvelopeID(long))
		}
		if hub.CodeOf(err) == hub.CodeNotFound {
			return notVisible(op, hub.EnvelopeID(id))
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("mailroom: resolve: %w", err)
	}
	return msg, err
}
