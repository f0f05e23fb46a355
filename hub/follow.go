package hub

import (
	"context"
	"time"
)

// A Consumer is work that follows the journal, such as delivery, inbox files or figures. It
// keeps the number of the last entry that it handled as a cursor in the store, so that it
// goes on there after a crash.
type Consumer struct {
	Name string // of its lease

	// Lease is the time after which another process takes over from one that died. A
	// consumer without it runs in every process, each with a cursor of its own.
	Lease time.Duration

	// Step handles entries after the cursor and moves the cursor, with the store that it
	// gets. It returns how long the consumer may rest if no hint comes; 0 if it has more to
	// do.
	Step func(ctx context.Context, store Store) (rest time.Duration, err error)

	Gap    time.Duration   // between two steps, so that one step handles the entries of a burst
	Kick   <-chan struct{} // wakes the consumer as a hint of the bus does; may be nil
	Failed func(error)     // is called with the error of a step, which is tried again
}

// FollowRest is the rest of a consumer that has nothing to do. It is short, because a hint
// may be lost.
const FollowRest = 5 * time.Second

// Rest returns the rest of a consumer after a step: none if it has more to do.
func Rest(more bool) time.Duration {
	if more {
		return 0
	}
	return FollowRest
}

// Follow calls the steps of a consumer until ctx ends: at once, and then after each hint of
// the bus about the journal, each kick and each rest. With a nil bus only the rest counts. A
// panic of a step becomes its error, and a failed step is tried again after FollowRest or
// with the next hint.
func Follow(ctx context.Context, store Store, bus Bus, c Consumer) {
	var hints <-chan struct{}
	if bus != nil {
		var cancel func()
		hints, cancel = bus.Subscribe(TopicJournal)
		defer cancel()
	}

	for ctx.Err() == nil {
		rest, err := c.step(ctx, store)
		if err != nil && ctx.Err() == nil {
			c.Failed(err)
		}
		if c.Gap > 0 {
			wait(ctx, c.Gap, nil, nil)
		}
		if rest > 0 {
			wait(ctx, rest, hints, c.Kick)
		}
	}
}

// step calls Step once, under the lease if the consumer has one.
func (c Consumer) step(ctx context.Context, store Store) (time.Duration, error) {
	rest := FollowRest // while another process has the lease
	work := func(s Store) (err error) {
		rest, err = c.Step(ctx, s)
		return err
	}

	var err error
	if c.Lease > 0 {
		err = Alone(ctx, store, c.Name, c.Lease, work)
	} else {
		err = Contain(c.Name, func() error { return work(store) })
	}
	if err != nil {
		return FollowRest, err
	}
	return rest, nil
}

// wait returns after a time, with the first hint or kick, or when ctx ends.
func wait(ctx context.Context, d time.Duration, hints, kick <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hints:
	case <-kick:
	case <-ctx.Done():
	}
}
