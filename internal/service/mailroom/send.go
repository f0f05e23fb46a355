package mailroom

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Send accepts a message. The package comment lists the rows that are stored when it returns
// nil.
func (m *Mailroom) Send(ctx context.Context, actor hub.Caller, d Draft) (Receipt, error) {
	x := sending{Mailroom: m, op: "mailroom.Send", actor: actor}
	if err := x.complete(ctx, d); err != nil {
		return Receipt{}, err
	}
	if err := x.keepLong(ctx); err != nil {
		return Receipt{}, err
	}

	// The facts of the journal entry take time, too. They are computed here for a
	// message without a cause, and in the transaction for the others.
	x.first = hub.Message{Envelope: x.envelope}
	x.first.ThreadID = cmp.Or(x.envelope.ThreadID, string(x.envelope.ID))
	var err error
	if x.facts, err = factsOf(x.first, len(x.to)); err != nil {
		return Receipt{}, fmt.Errorf("mailroom: send: %w", err)
	}
	if err := m.store.Update(ctx, durability(x.envelope), x.commit); err != nil {
		return Receipt{}, m.sendError(ctx, actor, err)
	}
	return x.answer(ctx), nil
}

// A sending is one call of Send: the draft, the message that it became, and what the
// transaction stored. The fields of the first part are set before it begins.
type sending struct {
	*Mailroom
	op       string
	actor    hub.Caller
	draft    Draft
	request  string // identifies the draft, if it has an idempotency key
	envelope hub.Envelope
	to       []recipient
	warnings []string
	long     string          // a text that does not fit into a payload
	text     hub.ArtifactRef // of the long text, once it is kept
	first    hub.Message     // the message, if it has no cause
	facts    json.RawMessage // of the journal entry of first

	out sendResult
}

// complete makes the message of a draft and finds its recipients. Agents are never removed,
// so recipients are looked up before the transaction.
func (x *sending) complete(ctx context.Context, d Draft) (err error) {
	if d.IdempotencyKey != "" {
		x.request = hashDraft(d)
	}
	if x.long, err = x.longText(x.op, &d.Text); err != nil {
		return err
	}

	// Short ids, teams and groups are written out before prepare checks the draft.
	if err := x.refer(ctx, x.op, x.actor, &d); err != nil {
		return err
	}
	if err := x.addressTeam(ctx, x.op, x.actor, &d); err != nil {
		return err
	}
	if err := x.addressGroups(ctx, x.op, x.actor, &d); err != nil {
		return err
	}
	x.draft = d
	x.long = cmp.Or(x.long, d.Long)
	if x.envelope, x.warnings, err = x.prepare(x.op, x.actor, d); err != nil {
		return err
	}

	to, closed, err := x.recipients(ctx, x.op, x.actor, x.envelope)
	if err != nil {
		return fmt.Errorf("mailroom: send: %w", err)
	}
	x.to = to
	if closed = append(d.closed, closed...); len(closed) > 0 {
		x.warnings = append(x.warnings, closedWarning(closed))
	}
	if err := x.survey(ctx, agentIDs(to)...); err != nil {
		return fmt.Errorf("mailroom: send: %w", err)
	}
	return nil
}

// keepLong keeps a long text as an artifact. A refused message leaves no file behind, so it is
// admitted first, without effect, and again when it is written.
func (x *sending) keepLong(ctx context.Context) error {
	if x.long == "" {
		return nil
	}
	err := x.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		o := x.outgoing()
		return cmp.Or(x.admit(tx, &o), errNoEffect)
	})
	if !errors.Is(err, errNoEffect) {
		return x.sendError(ctx, x.actor, err)
	}
	if x.out.again || x.out.admission.Claimed {
		return nil
	}
	x.text, err = x.spill(x.long, &x.envelope)
	return err
}

// errNoEffect ends a transaction that only checks.
var errNoEffect = errors.New("nothing is to be stored")

// outgoing returns the message at the beginning of a transaction.
func (x *sending) outgoing() outgoing {
	return outgoing{writer: bySend, op: x.op, actor: x.actor, msg: hub.Message{Envelope: x.envelope}, to: x.to, sharer: &x.actor}
}

// admit checks the message and decides whether it is saved. It is not if it repeats an earlier
// one, or if it accepts an offer that another agent has.
func (x *sending) admit(tx hub.Tx, o *outgoing) (err error) {
	x.out = sendResult{} // the store may run a transaction again
	if x.draft.IdempotencyKey != "" {
		x.out, err = x.repeated(tx, x.op, x.actor, x.draft.IdempotencyKey, x.request)
		if err != nil || x.out.again {
			return err
		}
	}
	if err := x.draft.retry.check(tx, x.op); err != nil {
		return err
	}
	err = x.check(tx, o)
	x.out.admission = o.admission
	return err
}

// commit checks the message and saves it with all that belongs to it, in one transaction.
func (x *sending) commit(tx hub.Tx) (err error) {
	o := x.outgoing()
	if err := x.admit(tx, &o); err != nil || x.out.again || o.dropped {
		return err
	}

	changed := o.msg.ThreadID != x.first.ThreadID || o.msg.Cause != "" || o.msg.Type.Negotiates()
	if !changed {
		o.facts = x.facts
	}
	if x.text.SHA256 != "" {
		if err := addArtifact(tx, o.msg.CreatedAt, x.actor, x.text); err != nil {
			return err
		}
	}
	admission := x.out.admission
	if x.out, err = x.save(tx, &o); err != nil {
		return err
	}
	x.out.admission = admission
	if x.out.short, err = tx.ShortID(string(o.msg.ID)); err != nil {
		return err
	}
	return x.writeEffects(tx, o.msg)
}

// writeEffects stores the effects of a message: an acknowledgement that it asks for, the retry
// that it is, the message that it answers, and the receipt of its idempotency key.
func (x *sending) writeEffects(tx hub.Tx, msg hub.Message) error {
	if err := x.awaitAck(tx, x.op, msg); err != nil {
		return err
	}
	if err := x.draft.retry.record(tx, msg); err != nil {
		return err
	}
	if x.draft.Claimed != nil {
		if err := record(tx, msg.CreatedAt, x.actor, actions.ClaimIgnored, string(msg.ID), nil); err != nil {
			return err
		}
	}
	if msg.ReplyTo != "" {
		if err := x.MarkRead(tx, x.actor, msg.ReplyTo); err != nil {
			return err
		}
	}
	if x.draft.IdempotencyKey == "" {
		return nil
	}
	return tx.AddReceipt(hub.Receipt{Actor: x.actor.ID, Key: x.draft.IdempotencyKey, Request: x.request, Message: msg.ID, At: msg.CreatedAt})
}

// answer announces the stored message and returns its receipt. An offer that another agent
// has is answered with that agent.
func (x *sending) answer(ctx context.Context) Receipt {
	if claim := x.out.admission; claim.Claimed {
		r := x.receipt(ctx, x.actor, x.out, x.warnings)
		r.Type = hub.TypeSystemAck
		r.Status = AlreadyClaimed
		r.ThreadID = claim.Deliberation.ID
		r.Deliveries = []Forecast{}
		r.ClaimedBy = claim.Deliberation.ClaimedBy
		r.ClaimedAt = claim.Deliberation.ClaimedAt
		return r
	}

	if !x.out.again {
		if x.out.message.ReplyTo != "" {
			x.recount(x.actor.ID) // the answered message left the inbox
		}
		x.announce(x.out)
		if x.out.message.Type.Negotiates() {
			x.Announce(x.out.admission.Notices...)
			x.moderator.Committed(ctx, x.out.admission.Deliberation)
		}
	}
	return x.receipt(ctx, x.actor, x.out, append(x.warnings, x.out.admission.Warnings...))
}
