package mailroom

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

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
		names := []string{string(e.ID), string(e.ReplyTo), e.ThreadID, string(e.RetryOf())}
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

// HandoffOf returns the handoff that the payload of a message names; "" if it names none.
// The sender of the message chose it, except in messages of the handoff family.
func HandoffOf(e hub.Envelope) hub.HandoffID {
	var p struct {
		ID hub.HandoffID `json:"handoff_id"`
	}
	if !bytes.Contains(e.Payload, []byte(`"handoff_id"`)) || json.Unmarshal(e.Payload, &p) != nil {
		return ""
	}
	return p.ID
}

// acceptable returns the handoffs that an agent can accept now and that waited for an
// approval, as far as messages name them: the offer, and the news of the approval. It adds
// their short ids to short. The store decides, because any sender can write any id.
func acceptable(r hub.Reader, agent hub.AgentID, messages []hub.Message, short ShortIDs) (out []hub.HandoffID, err error) {
	for _, m := range messages {
		id := HandoffOf(m.Envelope)
		about := m.Type == hub.TypeStatusUpdate || (m.Type == hub.TypeHandoffInitiate && bytes.Contains(m.Payload, []byte(`"waits_for"`)))
		if !about || !id.Valid() || slices.Contains(out, id) {
			continue
		}
		h, err := r.Handoff(id)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound:
			continue
		case err != nil:
			return nil, err
		case h.To != agent || h.Status != hub.HandoffProposed || h.WaitsForOperator() || h.WaitsForTeam():
			continue
		}
		if short[string(id)], err = r.ShortID(string(id)); err != nil {
			return nil, err
		}
		out = append(out, id)
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
