package intake

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/forge"
	"github.com/parley-agents/parley/internal/service/event"
)

// NewPoller returns a Poller for the events of a hub.
func NewPoller(store hub.Store, events *event.Service, clock hub.Clock, log *slog.Logger) *Poller {
	return &Poller{store: store, events: events, clock: clock, log: log, again: make(chan struct{}, 1), next: map[string]time.Time{}}
}

// A Poller asks vendors for the events of repositories that cannot send them.
type Poller struct {
	store  hub.Store
	events *event.Service
	clock  hub.Clock
	log    *slog.Logger
	client forge.Client
	again  chan struct{} // receives after sources were changed

	mu   sync.Mutex           // guards next, and is held while vendors are asked
	next map[string]time.Time // when each repository is asked about again, by source and repository
}

// Kick makes Run read the sources again.
func (p *Poller) Kick() {
	select {
	case p.again <- struct{}{}:
	default: // it does already
	}
}

const (
	pollRest    = 10 * time.Second // between two looks at the repositories that are due
	pollLease   = 2 * time.Minute
	pollFailure = 5 * time.Minute // until a repository is asked about again after an error
)

// Run asks vendors for the events of repositories until ctx ends. Of several hubs on one
// database one does.
func (p *Poller) Run(ctx context.Context) {
	for {
		err := hub.Alone(ctx, p.store, "events.polls", pollLease, func(hub.Store) error { return p.Poll(ctx) })
		if err != nil && ctx.Err() == nil {
			p.log.Warn("event sources were not polled, it is tried again", "err", err)
		}
		select {
		case <-time.After(pollRest):
		case <-p.again:
		case <-ctx.Done():
			return
		}
	}
}

// Poll asks about every repository that is due.
func (p *Poller) Poll(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := p.events.Polls(ctx)
	if err != nil {
		return err
	}
	for _, q := range all {
		key := q.Source + " " + q.Repository
		if q.Position == nil {
			delete(p.next, key) // it begins anew
		}
		now := p.clock()
		if p.next[key].After(now) {
			continue
		}
		wait, err := p.poll(ctx, q)
		if err != nil && ctx.Err() == nil {
			p.log.Warn("a repository cannot be polled", "source", q.Source, "repository", q.Repository, "err", err)
			wait = max(wait, pollFailure)
		}
		p.next[key] = now.Add(max(wait, q.Every, forge.MinPoll))
	}
	return ctx.Err()
}

// poll asks about one repository and stores its new events, also if one of several lists cannot be
// read. It returns the time that the vendor wants before the next question.
func (p *Poller) poll(ctx context.Context, q event.Poll) (time.Duration, error) {
	var from forge.Position
	if q.Position != nil {
		if err := json.Unmarshal(q.Position, &from); err != nil {
			return 0, err
		}
	}
	from.Since = q.Since
	got, asked := p.client.Poll(ctx, forge.Question{Vendor: q.Vendor, API: q.API, Repository: q.Repository, Token: q.Token}, from)

	// A list has old events, too. Those that were stored before a failure are known the next time.
	fresh, err := p.events.Unknown(ctx, q.Source, got.Events)
	if err != nil {
		return got.Wait, err
	}
	for _, e := range fresh {
		if _, err := p.events.Receive(ctx, q.Source, e); err != nil {
			return got.Wait, err
		}
	}
	raw, err := json.Marshal(got.Position)
	if err != nil {
		return got.Wait, err
	}
	if err := p.events.Polled(ctx, q, raw); err != nil {
		return got.Wait, err
	}
	return got.Wait, asked
}
