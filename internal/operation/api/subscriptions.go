package api

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// SubscribeParams are the parameters of acp/subscribe.
type SubscribeParams struct {
	Action string      `json:"action"`           // add, list or remove
	Filter *hub.Filter `json:"filter,omitempty"` // of a subscription to add
	ID     string      `json:"id,omitempty"`     // of a subscription to remove
}

// Subscriptions are those of the caller, or the one that a call added or removed.
type Subscriptions struct {
	Subscriptions []hub.Subscription `json:"subscriptions"`
	Unread        int                `json:"unread"`
	Capabilities  hub.Capabilities   `json:"capabilities"`
	Warnings      []string           `json:"warnings,omitempty"`
}

func subscribe(ctx context.Context, s *Services, a hub.Caller, p SubscribeParams) (out Subscriptions, err error) {
	const op = "acp/subscribe"
	out.Subscriptions = make([]hub.Subscription, 1)
	one := &out.Subscriptions[0]
	switch {
	case p.Action == "list":
		out.Subscriptions, err = s.Mail.Subscriptions(ctx, a)
	case p.Action != "add" && p.Action != "remove":
		return out, hub.Errorf(hub.CodeInvalid, op, "unknown action %.40q: use add, list or remove", p.Action)
	case a.Kind == hub.CallerViewer:
		return out, hub.Errorf(hub.CodeDenied, op, "a viewer can read subscriptions, not change them")
	case p.Action == "remove" && p.ID == "":
		return out, hub.Errorf(hub.CodeInvalid, op, "id is required").WithHint("to list your subscriptions: {subscriptions}")
	case p.Action == "remove":
		*one, err = s.Mail.Unsubscribe(ctx, a, p.ID)
	case p.Filter == nil:
		return out, hub.Errorf(hub.CodeInvalid, op, "filter is required")
	default:
		*one, err = s.Mail.Subscribe(ctx, a, *p.Filter)
	}
	if err != nil {
		return out, err
	}
	out.Unread, out.Capabilities, out.Warnings = s.standing(ctx, a)
	return out, nil
}

// standing returns how much mail a caller has not read and the channels that work: every
// answer of a tool says both. A change that was stored is a success, so that mail that
// cannot be counted is a warning.
func (s *Services) standing(ctx context.Context, a hub.Caller) (unread int, c hub.Capabilities, warnings []string) {
	if a.Kind != hub.CallerViewer {
		var err error
		if unread, err = s.Mail.Unread(ctx, a.ID); err != nil {
			warnings = []string{"cannot count your unread messages"}
		}
	}
	return unread, s.Mail.Capabilities(), warnings
}

// BroadcastParams are the members of an envelope, without recipients.
type BroadcastParams struct {
	DryRun bool `json:"dry_run,omitempty"` // check, and change nothing
	SendParams
}

// A BroadcastAnswer is the receipt of a message to everyone, or the forecast of one.
type BroadcastAnswer struct {
	*mailroom.Receipt
	Trial *mailroom.Trial
}

// MarshalJSON writes whichever is there.
func (b BroadcastAnswer) MarshalJSON() ([]byte, error) {
	if b.Trial != nil {
		return json.Marshal(b.Trial)
	}
	return json.Marshal(b.Receipt)
}

// UnmarshalJSON reads either.
func (b *BroadcastAnswer) UnmarshalJSON(raw []byte) error {
	var trial struct {
		Recipients json.RawMessage `json:"recipients"`
	}
	if err := json.Unmarshal(raw, &trial); err != nil {
		return err
	}
	if trial.Recipients != nil {
		b.Trial = new(mailroom.Trial)
		return json.Unmarshal(raw, b.Trial)
	}
	b.Receipt = new(mailroom.Receipt)
	return json.Unmarshal(raw, b.Receipt)
}

func broadcast(ctx context.Context, s *Services, a hub.Caller, p BroadcastParams) (BroadcastAnswer, error) {
	const op = "acp/broadcast"
	d, err := p.draft(op)
	if err == nil {
		d, err = s.resolve(ctx, op, a, d)
	}
	if err != nil {
		return BroadcastAnswer{}, err
	}
	if p.DryRun {
		trial, err := s.Mail.TryBroadcast(ctx, a, d)
		return BroadcastAnswer{Trial: &trial}, err
	}
	receipt, err := s.Mail.Broadcast(ctx, a, d)
	return BroadcastAnswer{Receipt: &receipt}, err
}
