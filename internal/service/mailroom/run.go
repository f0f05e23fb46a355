package mailroom

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	sweepEvery  = time.Second // the time between two searches for expired messages
	forgetEvery = time.Hour   // the time between two removals of old idempotency keys
	filesEvery  = time.Second // the shortest time between two versions of an inbox file
	leaseTime   = time.Minute // the time until another process takes over from one that died
)

// Run works until ctx ends: it tells coordinators about suspensions, copies messages to
// subscribers, renders inbox files, and ends expired messages. It returns when all of its goroutines have. A failure is
// logged and tried again.
func (m *Mailroom) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { m.follow(ctx, "delivery", m.work) })
	if m.inboxDir != "" {
		r := newRenderer(m)
		wg.Go(func() { m.follow(ctx, "inbox files", r.work) })
	}
	wg.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			if err := m.Sweep(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("sweep failed", "op", "mailroom.Sweep", "err", err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	wg.Wait()
}

// follow runs a consumer of the journal until ctx ends.
func (m *Mailroom) follow(ctx context.Context, name string, work func(context.Context, hub.Store) (more bool, err error)) {
	hub.Follow(ctx, m.store, m.bus, hub.Consumer{
		Name: "mailroom." + name, Lease: leaseTime, Gap: filesEvery,
		Step: func(ctx context.Context, store hub.Store) (time.Duration, error) {
			more, err := work(ctx, store)
			return hub.Rest(more), err
		},
		Failed: func(err error) {
			m.log.Warn("journal consumer failed, it continues at its cursor", "op", name, "err", err)
		},
	})
}

// sweepBatch is the most messages that one sweep ends.
const sweepBatch = 200

// Sweep lets messages expire whose time has passed, tells their senders and those of
// messages that were not acknowledged in time, makes the copies that are due, and forgets idempotency keys and session marks that are too old to matter.
func (m *Mailroom) Sweep(ctx context.Context) error {
	return hub.Alone(ctx, m.store, "mailroom.Sweep", leaseTime, func(store hub.Store) error {
		now := m.clock.Now()
		if err := m.expireDue(ctx, store, now); err != nil {
			return err
		}
		if err := m.tellOverdue(ctx, store, now); err != nil {
			return err
		}
		if err := m.listLate(ctx, store, now); err != nil {
			return err
		}
		if err := m.makeCopies(ctx, store, now); err != nil {
			return err
		}
		return m.forget(ctx, store, now)
	})
}

// expireDue ends messages whose time has passed and tells their senders.
func (m *Mailroom) expireDue(ctx context.Context, store hub.Store, now hub.Time) error {
	var due []hub.EnvelopeID
	err := store.View(ctx, func(r hub.Reader) (err error) {
		due, err = r.Expired(now, sweepBatch)
		return err
	})
	if err != nil {
		return fmt.Errorf("mailroom: look for expired messages: %w", err)
	}
	if len(due) == 0 {
		return nil
	}

	var told []sendResult
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		told = told[:0]
		for _, id := range due {
			s, err := m.expire(tx, id, now)
			if err != nil {
				return err
			}
			told = append(told, s)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mailroom: expire: %w", err)
	}

	m.announce(told...)
	return nil
}

// CodeExpired is the code in the hub's message about a message that expired.
const CodeExpired = "expired"

// expire ends a message for the recipients that have not read it.
func (m *Mailroom) expire(tx hub.Tx, id hub.EnvelopeID, now hub.Time) (sendResult, error) {
	parties, err := tx.Parties(id)
	if err != nil {
		return sendResult{}, err
	}

	missed := []hub.AgentID{}
	for _, p := range parties {
		if !p.State.CanBecome(hub.PartyExpired) {
			continue
		}
		if err := tx.PutParty(id, p.Agent, hub.PartyExpired, p.State); err != nil {
			return sendResult{}, err
		}
		missed = append(missed, p.Agent)
		err := updateLedger(tx, id, p.Agent, hub.ChannelInbox, func(d *hub.Delivery) { d.Status, d.Error = hub.DeliveryFailed, "expired" })
		if err != nil {
			return sendResult{}, err
		}
	}

	if err := updateStatus(tx, id, now); err != nil {
		return sendResult{}, err
	}
	if err := record(tx, now, hub.Caller{ID: hub.Self}, actions.MessageExpired, string(id), map[string]any{"missed_by": len(missed)}); err != nil {
		return sendResult{}, err
	}

	// The sender hears which recipients missed the message; the hub itself needs no notice.
	msg, err := tx.Message(id)
	if err != nil || msg.From == hub.Self {
		return sendResult{}, err
	}
	return m.system(tx, hub.Envelope{To: []hub.AgentID{msg.From}, Type: hub.TypeSystemError, ReplyTo: id, ThreadID: msg.ThreadID}, map[string]any{
		"code": CodeExpired, "message": fmt.Sprintf("message %s expired before all recipients had read it", id), "missed_by": missed[:min(len(missed), 20)],
	})
}

// forget removes old idempotency keys and session marks.
func (m *Mailroom) forget(ctx context.Context, store hub.Store, now hub.Time) error {
	const batch = 1000
	m.mu.Lock()
	due := now.Sub(m.forgot.Time) >= forgetEvery
	m.mu.Unlock()
	if !due {
		return nil
	}
	for {
		n := 0
		err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
			n, err = tx.Forget(now.Add(-idempotencyFor), batch)
			return err
		})
		if err != nil {
			return fmt.Errorf("mailroom: forget: %w", err)
		}
		if n == 0 {
			break
		}
	}
	m.mu.Lock()
	m.forgot = now
	m.mu.Unlock()
	return nil
}

// Consumers returns the names of the cursors with which Run follows the journal:
// entries after them are still needed.
func (m *Mailroom) Consumers() []string {
	names := []string{deliveryCursor}
	if m.inboxDir != "" {
		names = append(names, renderCursor)
	}
	return names
}
