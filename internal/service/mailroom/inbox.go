package mailroom

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// An InboxRequest selects messages of an inbox. The zero value fetches the first
// page and marks it as delivered.
type InboxRequest struct {
	Limit   int           // 1 to 200; 0 means 50
	Cursor  string        // Next of the page before
	NewOnly bool          // leave out messages that were fetched before
	Wait    time.Duration // the time to wait for a message, at most MaxWait
	AckAll  bool          // mark the returned messages as read
	Ack     []hub.EnvelopeID
	Peek    bool // mark no returned message as delivered

	// Agent is the owner of the inbox, the actor by default. The operator reads
	// every inbox, and changes none but its own.
	Agent hub.AgentID
}

// pageBytes ends a page of messages before its count does, so that no answer is
// much larger. A page has one message at least.
const pageBytes = 256 << 10

// MaxWait is the longest wait of one call.
const MaxWait = 5 * time.Minute

// An Inbox is a page of the inbox of an agent.
type Inbox struct {
	You          hub.AgentID      `json:"you"`
	Contacts     []Contact        `json:"agents"` // the other agents of the hub, at most 50
	Messages     []hub.Envelope   `json:"messages"`
	ShortIDs     ShortIDs         `json:"short_ids"`
	Acceptable   []hub.HandoffID  `json:"acceptable,omitempty"` // the handoffs in messages about approvals that you can accept now
	Part         *Part            `json:"part,omitempty"`
	Next         string           `json:"next"`   // cursor for the page after this one, or ""
	Unread       int              `json:"unread"` // the unread messages after this call, counted up to 25
	Acked        []Ack            `json:"acked,omitempty"`
	Capabilities hub.Capabilities `json:"capabilities"`
	Warnings     []string         `json:"warnings"`
}

// An Ack is the answer for one message that the caller acknowledged.
type Ack struct {
	ID    hub.EnvelopeID `json:"id"`
	First bool           `json:"first"` // false if it was acknowledged before
}

// Inbox returns the messages in the inbox of the actor, by priority and then oldest
// first. Returned messages become delivered; acknowledged ones become read and leave
// the inbox.
func (m *Mailroom) Inbox(ctx context.Context, actor hub.Caller, req InboxRequest) (Inbox, error) {
	const op = "mailroom.Inbox"
	if err := req.complete(op); err != nil {
		return Inbox{}, err
	}
	owner, err := m.ownerOf(ctx, op, actor, &req)
	if err != nil {
		return Inbox{}, err
	}
	acked, err := m.ack(ctx, op, actor, req.Ack)
	if err != nil {
		return Inbox{}, fmt.Errorf("mailroom: ack: %w", err)
	}

	// A long poll subscribes before it reads, so that it misses no message that
	// arrives in between.
	var poll longPoll
	if req.Wait > 0 {
		var end func()
		poll, end = m.poll(actor, owner, req.Wait)
		defer end()
	}
	for last := req.Wait == 0; ; {
		out, err := m.fetch(ctx, owner, req)
		if err != nil {
			return Inbox{}, fmt.Errorf("mailroom: inbox: %w", err)
		}
		out.Acked = acked
		done := len(out.Messages) > 0 || last
		if !done {
			if last, done, err = m.await(ctx, op, actor, poll); err != nil {
				return Inbox{}, err
			}
		}
		if done {
			m.roster(ctx, actor, &out)
			return out, nil
		}
	}
}

// complete fills in the default of a request and refuses one that is out of bounds.
func (req *InboxRequest) complete(op string) error {
	if req.Limit == 0 {
		req.Limit = 50
	}
	switch {
	case req.Limit < 1 || req.Limit > maxPage:
		return hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, got %d", maxPage, req.Limit)
	case req.Wait < 0 || req.Wait > MaxWait:
		return hub.Errorf(hub.CodeInvalid, op, "wait_s must be between 0 and %d", int(MaxWait.Seconds())).WithHint("call again if no message arrives")
	case len(req.Ack) > maxPage:
		return hub.Errorf(hub.CodeTooLarge, op, "too many ids in ack: %d, at most %d are allowed", len(req.Ack), maxPage)
	case req.Peek && req.AckAll:
		return hub.Errorf(hub.CodeInvalid, op, "peek cannot be combined with ack: true")
	}
	return nil
}

// ownerOf returns the owner of the inbox that a request is for. The operator peeks into the
// inboxes of others.
func (m *Mailroom) ownerOf(ctx context.Context, op string, actor hub.Caller, req *InboxRequest) (hub.Caller, error) {
	if req.Agent == "" || req.Agent == actor.ID {
		return actor, nil
	}
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Caller{}, err
	}
	if req.AckAll || len(req.Ack) > 0 {
		return hub.Caller{}, hub.Errorf(hub.CodeDenied, op, "only %s can acknowledge messages in its inbox", req.Agent)
	}
	if _, _, err := m.directory.Lookup(ctx, req.Agent); err != nil {
		return hub.Caller{}, err
	}
	req.Peek = true
	owner := actor
	owner.ID = req.Agent
	return owner, nil
}

// A longPoll waits for messages in an inbox.
type longPoll struct {
	hints   <-chan struct{}
	timeout <-chan time.Time
}

// poll begins to wait for messages in the inbox of owner, for a time. The caller ends it.
func (m *Mailroom) poll(actor, owner hub.Caller, wait time.Duration) (_ longPoll, end func()) {
	hints, cancel := m.bus.Subscribe(hub.TopicInbox(owner.ID))
	leave := func() {}
	if owner.ID == actor.ID {
		leave = m.addWaiter(actor.ID)
	}
	timer := time.NewTimer(wait)
	return longPoll{hints, timer.C}, func() {
		timer.Stop()
		leave()
		cancel()
	}
}

// await waits until a message may have come. last says that the time is over: the inbox is read once more,
// because a message may have come at that moment. over says that the hub stops.
func (m *Mailroom) await(ctx context.Context, op string, actor hub.Caller, poll longPoll) (last, over bool, err error) {
	select {
	case <-poll.hints:
		return false, false, m.stillAdmitted(ctx, op, actor)
	case <-poll.timeout:
		return true, false, m.stillAdmitted(ctx, op, actor)
	case <-m.stopping:
		return false, true, nil
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
}

// stillAdmitted checks that the key of a caller that has waited is still valid.
func (m *Mailroom) stillAdmitted(ctx context.Context, op string, actor hub.Caller) error {
	if actor.Key == "" {
		return nil
	}
	var keys []hub.Key
	err := m.store.View(ctx, func(r hub.Reader) (err error) {
		keys, err = r.Keys(actor.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("mailroom: inbox: %w", err)
	}
	now := m.clock.Now()
	if !slices.ContainsFunc(keys, func(k hub.Key) bool { return k.ID == actor.Key && k.Live(now) }) {
		return hub.Errorf(hub.CodeUnauthenticated, op, "the key of %s is no longer valid", actor.ID)
	}
	return nil
}

// fetch reads a page and marks its messages as delivered or read.
func (m *Mailroom) fetch(ctx context.Context, actor hub.Caller, req InboxRequest) (Inbox, error) {
	out := Inbox{Messages: []hub.Envelope{}, Capabilities: m.Capabilities(), Warnings: m.warn(nil)}
	now := m.clock.Now()
	var page hub.Page
	var mark hub.SessionMark

	// The page is read without a transaction, so that an empty inbox and a peek write nothing.
	read := func(r hub.Reader) (err error) {
		page, err = r.Inbox(actor.ID, hub.InboxFilter{NewOnly: req.NewOnly, Cursor: req.Cursor, Limit: req.Limit, Bytes: pageBytes, Now: now})
		if err != nil {
			return err
		}
		mark = deepest(actor, page.Messages, now)
		if out.ShortIDs, err = shortIDs(r, envelopes(page.Messages)); err != nil {
			return err
		}
		if out.Acceptable, err = acceptable(r, actor.ID, page.Messages, out.ShortIDs); err != nil {
			return err
		}
		out.Unread, err = r.CountMessages(hub.CountFilter{Inbox: actor.ID, Limit: maxUnread})
		return err
	}
	if err := m.store.View(ctx, read); err != nil {
		return Inbox{}, err
	}
	out.Next = page.Next

	// Fetching a page delivers its messages, and reads them if the request acknowledges all.
	if len(page.Messages) > 0 && !req.Peek {
		err := m.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
			next := hub.PartyDelivered
			if req.AckAll {
				next = hub.PartyRead
			}
			for i, msg := range page.Messages {
				if _, err := m.advance(tx, actor, msg.ID, next, now); err != nil {
					return err
				}
				fresh, err := tx.Message(msg.ID)
				if err != nil {
					return err
				}
				page.Messages[i] = fresh
			}
			var err error
			if out.Unread, err = tx.CountMessages(hub.CountFilter{Inbox: actor.ID, Limit: maxUnread}); err != nil {
				return err
			}
			return putMarks(tx, mark)
		})
		if err != nil {
			return Inbox{}, err
		}
		m.recount(actor.ID)
		m.bus.Publish(hub.TopicJournal)
	}

	out.Messages = append(out.Messages, envelopes(page.Messages)...)
	if req.Agent == "" { // else the operator reads the inbox of another
		m.seen(ctx, actor, out.Messages)
	}
	return out, nil // nothing may fail here: the messages are marked, and are not returned again
}

// seen tells the moderator that messages are returned to an agent. A failure is logged:
// the agent has to give the sequence of its next message then.
func (m *Mailroom) seen(ctx context.Context, actor hub.Caller, messages []hub.Envelope) {
	messages = slices.DeleteFunc(slices.Clone(messages), func(e hub.Envelope) bool { return !e.Type.Negotiates() || e.CopyOf() != nil })
	if m.moderator == nil || len(messages) == 0 {
		return
	}
	if err := m.moderator.Seen(ctx, actor, messages); err != nil {
		m.log.Warn("read messages could not be noted", "op", "mailroom.seen", "err", err)
	}
}

func envelopes(messages []hub.Message) (all []hub.Envelope) {
	for _, m := range messages {
		all = append(all, m.Envelope)
	}
	return all
}

// deepest returns the session mark for these messages: that of the message with the
// longest chain of causes.
func deepest(actor hub.Caller, messages []hub.Message, now hub.Time) hub.SessionMark {
	mark := hub.SessionMark{Agent: actor.ID, Session: actor.Session, At: now}
	for _, msg := range messages {
		if mark.Message == "" || msg.Hop >= mark.Hop {
			mark.Message, mark.Hop = msg.ID, msg.Hop
		}
	}
	return mark
}

// putMarks stores the mark of a session. Commands have no session: an agent may read with a
// tool and send with a command. So the newest mark of its sessions is that of its commands, too.
func putMarks(tx hub.Tx, mark hub.SessionMark) error {
	if err := tx.PutSessionMark(mark); err != nil || mark.Session == "" {
		return err
	}
	mark.Session = ""
	return tx.PutSessionMark(mark)
}

// ack marks messages as read by the actor. A message that was read before stays
// unchanged.
func (m *Mailroom) ack(ctx context.Context, op string, actor hub.Caller, ids []hub.EnvelopeID) ([]Ack, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	var out []Ack
	err := m.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		out = out[:0]
		now := m.clock.Now()
		for _, id := range ids {
			p, err := party(tx, id, actor.ID)
			switch {
			case hub.CodeOf(err) == hub.CodeNotFound || (err == nil && (p.State == hub.PartySender || p.Hidden)):
				return hub.Errorf(hub.CodeNotFound, op, "no message %q in your inbox", id)
			case err != nil:
				return err
			}

			moved, err := m.advance(tx, actor, id, hub.PartyRead, now)
			if err != nil {
				return err
			}
			out = append(out, Ack{ID: id, First: moved})
		}
		return nil
	})
	if err == nil {
		m.recount(actor.ID)
		m.bus.Publish(hub.TopicJournal)
	}
	return out, err
}
