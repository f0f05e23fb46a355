// Package bus carries hints inside one process. A hint says that something may
// have changed; its receiver reads the store. Hints that arrive while one waits
// are the same hint, so that no publisher ever waits for a subscriber.
package bus

import "sync"

// Local is a hub.Bus for one process. The zero value is ready.
type Local struct {
	mu   sync.Mutex // guards subs
	subs map[string]map[*subscription]struct{}
}

// A subscription's channel holds one hint; further ones are the same hint.
type subscription struct{ hints chan struct{} }

// Publish wakes the subscribers of topic.
func (b *Local) Publish(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs[topic] {
		select {
		case s.hints <- struct{}{}:
		default:
		}
	}
}

// PublishAll wakes every subscriber: something may have changed anywhere.
func (b *Local) PublishAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, subs := range b.subs {
		for s := range subs {
			select {
			case s.hints <- struct{}{}:
			default:
			}
		}
	}
}

// Subscribe returns a channel that receives after a Publish to any of topics.
func (b *Local) Subscribe(topics ...string) (<-chan struct{}, func()) {
	s := &subscription{hints: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = map[string]map[*subscription]struct{}{}
	}
	for _, t := range topics {
		if b.subs[t] == nil {
			b.subs[t] = map[*subscription]struct{}{}
		}
		b.subs[t][s] = struct{}{}
	}
	return s.hints, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, t := range topics {
			delete(b.subs[t], s)
			if len(b.subs[t]) == 0 {
				delete(b.subs, t)
			}
		}
	}
}
