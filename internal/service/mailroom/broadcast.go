package mailroom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Trial is the forecast of a message to everyone that is not sent.
type Trial struct {
	Recipients []hub.AgentID `json:"recipients"`
	Allowed    bool          `json:"allowed"`
	Reason     string        `json:"reason,omitempty"`   // of a message that is not allowed
	Remaining  int           `json:"remaining"`          // messages to everyone that the actor may send now
	ResetsAt   hub.Time      `json:"resets_at,omitzero"` // when the oldest of the last hour counts no more; without one, when a message sent now would

	Unread       int              `json:"unread"`
	Capabilities hub.Capabilities `json:"capabilities"`
}

// Broadcast sends a message to everyone.
func (m *Mailroom) Broadcast(ctx context.Context, actor hub.Caller, d Draft) (Receipt, error) {
	if err := everyone("mailroom.Broadcast", &d); err != nil {
		return Receipt{}, err
	}
	return m.Send(ctx, actor, d)
}

// TryBroadcast runs every check of Broadcast and changes nothing. A message that could
// not be sent by any agent at any time is an error; one that the actor may not send now
// is not allowed.
func (m *Mailroom) TryBroadcast(ctx context.Context, actor hub.Caller, d Draft) (Trial, error) {
	const op = "mailroom.Broadcast"
	if err := everyone(op, &d); err != nil {
		return Trial{}, err
	}
	if _, err := m.longText(op, &d.Text); err != nil {
		return Trial{}, err
	}

	all, err := m.agents(ctx)
	if err != nil {
		return Trial{}, err
	}
	out := Trial{Recipients: []hub.AgentID{}, Capabilities: m.Capabilities()}
	if out.Unread, err = m.unread(ctx, actor.ID); err != nil {
		return Trial{}, err
	}

	// Agents whose rule for contact excludes the actor are no recipients.
	for _, a := range all {
		if a.ID != actor.ID {
			out.Recipients = append(out.Recipients, a.ID)
		}
	}
	if open, _, err := m.dropClosed(ctx, op, actor.ID, out.Recipients); err == nil {
		out.Recipients = open
	} else if hub.CodeOf(err) != hub.CodeDenied { // the refusal below says that nobody takes it
		return Trial{}, err
	}

	e, _, refusal := m.prepare(op, actor, d)
	var to []recipient
	if refusal == nil {
		to, _, refusal = m.recipients(ctx, op, actor, e)
	}

	// The transaction only checks: errNoEffect rolls it back.
	var verdict error
	err = m.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		now := m.clock.Now()
		sent, err := sentWide(tx, actor, now)
		if err != nil {
			return err
		}
		out.Remaining = max(m.limits.BroadcastPerHour-len(sent), 0)
		out.ResetsAt = now.Add(time.Hour)
		if len(sent) > 0 {
			out.ResetsAt = sent[len(sent)-1].At.Add(time.Hour)
		}
		if verdict = refusal; verdict == nil {
			verdict = m.check(tx, &outgoing{writer: bySend, op: op, actor: actor, msg: hub.Message{Envelope: e}, to: to})
		}
		return errNoEffect
	})

	// A refusal of this sender at this time is the result of the trial; other refusals are
	// errors.
	switch code := hub.CodeOf(verdict); {
	case !errors.Is(err, errNoEffect):
		return Trial{}, fmt.Errorf("mailroom: broadcast: %w", err)
	case verdict == nil:
		out.Allowed = true
	case slices.Contains([]hub.Code{hub.CodeDenied, hub.CodeRateLimited, hub.CodeCircuitOpen, hub.CodePolicy, hub.CodeLoop, hub.CodeUnknownRecipient}, code):
		var why *hub.Error
		errors.As(verdict, &why)
		out.Reason = fmt.Sprintf("%s: %v", code, why.Err)
	default:
		return Trial{}, verdict
	}
	return out, nil
}

// everyone sets the recipient of a broadcast.
func everyone(op string, d *Draft) error {
	if len(d.To) > 0 && !slices.Equal(d.To, []hub.AgentID{hub.Everyone}) {
		return hub.Errorf(hub.CodeInvalid, op, "to cannot be set: a broadcast goes to everyone").WithHint("leave to out, or use {send} to write to some agents")
	}
	d.To = []hub.AgentID{hub.Everyone}
	return nil
}
