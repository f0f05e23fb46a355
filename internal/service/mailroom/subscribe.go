package mailroom

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// MaxSubscriptions is the most subscriptions of one agent.
const MaxSubscriptions = 20

// subscriptionKey has the number of the last subscription.
const subscriptionKey = "subscriptions.last"

// Subscribe adds a subscription of the actor.
func (m *Mailroom) Subscribe(ctx context.Context, actor hub.Caller, f hub.Filter) (out hub.Subscription, err error) {
	const op = "mailroom.Subscribe"
	f.From = unique(f.From)
	f.Topics = unique(f.Topics)
	f.Teams = unique(f.Teams)
	f.Types = unique(f.Types)
	if err := f.Validate(op); err != nil {
		return out, err
	}
	for _, id := range f.From {
		if _, err := m.Recipient(ctx, id); err != nil {
			return out, err
		}
	}

	err = m.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		for _, id := range f.Teams {
			if err := maySubscribe(tx, op, actor, id); err != nil {
				return err
			}
		}

		mine, err := tx.Subscriptions(actor.ID)
		if err != nil {
			return err
		}
		if len(mine) >= MaxSubscriptions {
			return hub.Errorf(hub.CodePolicy, op, "%s reached the limit of %d subscriptions", actor.ID, len(mine)).WithHint("remove one first; one filter can have several values")
		}

		// Ids are numbers that are never used again, also after a subscription is removed.
		last, err := hub.ReadMeta[int](tx, subscriptionKey)
		if err == nil {
			err = hub.WriteMeta(tx, subscriptionKey, last+1)
		}
		if err != nil {
			return err
		}

		out = hub.Subscription{ID: fmt.Sprintf("s%d", last+1), Agent: actor.ID, Filter: f, CreatedAt: m.clock.Now()}
		if err := tx.AddSubscription(out); err != nil {
			return err
		}
		return record(tx, out.CreatedAt, actor, actions.Subscribed, out.ID, f)
	})
	if err != nil {
		return hub.Subscription{}, fmt.Errorf("mailroom: subscribe: %w", err)
	}

	m.bus.Publish(hub.TopicJournal)
	return out, nil
}

// maySubscribe refuses a filter for the messages of a team that the actor may not read.
// Those who audit read the messages of every team.
func maySubscribe(r hub.Reader, op string, actor hub.Caller, id hub.TeamID) error {
	if !actor.Audits() {
		_, err := teamOf(r, op, actor, id)
		return err
	}
	_, err := r.Teamspaces().Team(id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Errorf(hub.CodeNotFound, op, "no team named %q on this hub", id).WithHint("{team.list} lists the teams")
	}
	return err
}

// Unsubscribe removes a subscription of the actor; the operator may remove any.
func (m *Mailroom) Unsubscribe(ctx context.Context, actor hub.Caller, id string) (out hub.Subscription, err error) {
	const op = "mailroom.Unsubscribe"
	err = m.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := tx.Subscriptions(ownerOf(actor, actor.IsOperator()))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(s hub.Subscription) bool { return s.ID == id })
		if i < 0 {
			return hub.Errorf(hub.CodeNotFound, op, "no subscription with id %.40q", id).WithHint("{subscriptions} lists your subscriptions")
		}
		out = all[i]
		if err := tx.RemoveSubscription(out.Agent, id); err != nil {
			return err
		}
		return record(tx, m.clock.Now(), actor, actions.Unsubscribed, id, map[string]any{"agent": out.Agent})
	})
	if err != nil {
		return hub.Subscription{}, fmt.Errorf("mailroom: unsubscribe: %w", err)
	}
	m.bus.Publish(hub.TopicJournal)
	return out, nil
}

// Subscriptions returns the subscriptions of the actor; all for auditors.
func (m *Mailroom) Subscriptions(ctx context.Context, actor hub.Caller) ([]hub.Subscription, error) {
	all, err := hub.Read(ctx, m.store, func(r hub.Reader) ([]hub.Subscription, error) {
		return r.Subscriptions(ownerOf(actor, actor.Audits()))
	})
	if all == nil {
		all = []hub.Subscription{}
	}
	return all, err
}

// ownerOf returns the actor, or "" if all are meant.
func ownerOf(actor hub.Caller, all bool) hub.AgentID {
	if all {
		return ""
	}
	return actor.ID
}
