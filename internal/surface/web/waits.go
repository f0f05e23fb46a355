package web

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/attention"
)

// withoutCard are the kinds of items that the page shows as sentences.
var withoutCard = []attention.Kind{attention.KindStuck, attention.KindSuspended, attention.KindBlocked, attention.KindLanding, attention.KindReview, attention.KindOverdue, attention.KindDisk}

// waits is everything that waits for a person, as the page shows it.
type waits struct {
	api.Waiting
	Held   []message
	Inbox  []message
	Others []attention.Item // that have no card of their own
	Count  int
}

// now returns the overview of the hub. A rendering asks for it twice, so it is kept.
func (v *visit) now(ctx context.Context) (api.Overview, error) {
	if v.overview == nil {
		got, err := perform(ctx, v, api.Now, api.None{})
		if err != nil {
			return got, err
		}
		v.overview = &got
	}
	return *v.overview, nil
}

// waiting returns the things that wait for a person.
func (v *visit) waiting(ctx context.Context) (*waits, error) {
	now, err := v.now(ctx)
	if err != nil {
		return nil, err
	}
	if !v.operator() {
		for i, t := range now.Waiting.Talks {
			if t.Policy.Sensitivity == hub.SensitivityHigh {
				now.Waiting.Talks[i].Title = hiddenWords
			}
		}
	}
	items := now.Waiting.Items()
	w := &waits{Waiting: now.Waiting, Count: len(items) + now.Waiting.More}
	for _, e := range now.Waiting.Messages {
		w.Held = append(w.Held, v.message(e, now.Waiting.ShortIDs))
	}
	for _, e := range now.Waiting.Inbox {
		w.Inbox = append(w.Inbox, v.message(e, now.Waiting.ShortIDs))
	}
	for _, i := range items {
		if slices.Contains(withoutCard, i.Kind) {
			w.Others = append(w.Others, i)
		}
	}
	return w, nil
}

// acknowledge marks the hub's notices about something as read.
func (v *visit) acknowledge(ctx context.Context, kind attention.Kind, id string) error {
	w, err := v.waiting(ctx)
	if err != nil {
		return err
	}
	for _, i := range w.Items() {
		ids := w.About(i)
		if i.Kind != kind || i.ID != id || len(ids) == 0 {
			continue
		}
		_, err = perform(ctx, v, api.Inbox, api.InboxParams{Peek: true, Limit: 1, Ack: api.AckSet{IDs: ids}})
		return err
	}
	return nil
}
