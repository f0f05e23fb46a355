package hub_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
)

// followed runs a consumer without a lease in a bubble while do runs, and returns the times
// of its steps since the beginning. do gets the bus and the channel of kicks.
func followed(t *testing.T, c hub.Consumer, step func(n int) (time.Duration, error), do func(hub.Bus, chan<- struct{})) []time.Duration {
	t.Helper()
	var steps []time.Duration
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		kick := make(chan struct{}, 1)
		c.Name = "test"
		c.Kick = kick
		c.Step = func(context.Context, hub.Store) (time.Duration, error) {
			steps = append(steps, time.Since(began))
			return step(len(steps))
		}
		if c.Failed == nil {
			c.Failed = func(err error) { t.Errorf("a step failed: %v", err) }
		}

		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		hints := new(bus.Local)
		go func() {
			hub.Follow(ctx, nil, hints, c)
			close(over)
		}()
		synctest.Wait()
		do(hints, kick)
		cancel()
		<-over
	})
	return steps
}

func TestFollow(t *testing.T) {
	const s = time.Second
	idle := func(int) (time.Duration, error) { return hub.FollowRest, nil }

	t.Run("a hint about the journal begins a step, and others do not", func(t *testing.T) {
		got := followed(t, hub.Consumer{}, idle, func(b hub.Bus, _ chan<- struct{}) {
			<-time.After(2 * s)
			b.Publish(hub.TopicJournal)
			<-time.After(s)
			b.Publish(hub.TopicChanges)
			synctest.Wait()
		})
		if want := []time.Duration{0, 2 * s}; !slices.Equal(got, want) {
			t.Errorf("steps at %v, want %v", got, want)
		}
	})
	t.Run("a lost hint costs the rest that the step asked for", func(t *testing.T) {
		got := followed(t, hub.Consumer{}, func(int) (time.Duration, error) { return 3 * s, nil }, func(hub.Bus, chan<- struct{}) { <-time.After(7 * s) })
		if want := []time.Duration{0, 3 * s, 6 * s}; !slices.Equal(got, want) {
			t.Errorf("steps at %v, want %v", got, want)
		}
	})
	t.Run("hints of a burst are one step after the gap", func(t *testing.T) {
		got := followed(t, hub.Consumer{Gap: s}, idle, func(b hub.Bus, _ chan<- struct{}) {
			for range 5 {
				b.Publish(hub.TopicJournal)
				<-time.After(100 * time.Millisecond)
			}
			<-time.After(3 * s)
		})
		if want := []time.Duration{0, s}; !slices.Equal(got, want) {
			t.Errorf("steps at %v, want %v", got, want)
		}
	})
	t.Run("a step with more to do is followed by another one", func(t *testing.T) {
		got := followed(t, hub.Consumer{}, func(n int) (time.Duration, error) { return hub.Rest(n < 3), nil }, func(hub.Bus, chan<- struct{}) { <-time.After(s) })
		if want := []time.Duration{0, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("steps at %v, want %v", got, want)
		}
	})
	t.Run("a kick begins a step", func(t *testing.T) {
		got := followed(t, hub.Consumer{}, idle, func(_ hub.Bus, kick chan<- struct{}) {
			<-time.After(s)
			kick <- struct{}{}
			synctest.Wait()
		})
		if want := []time.Duration{0, s}; !slices.Equal(got, want) {
			t.Errorf("steps at %v, want %v", got, want)
		}
	})
	t.Run("a step that fails or panics is reported and tried again", func(t *testing.T) {
		var failures []hub.Code
		c := hub.Consumer{Failed: func(err error) { failures = append(failures, hub.CodeOf(err)) }}
		got := followed(t, c, func(n int) (time.Duration, error) {
			switch n {
			case 1:
				return 0, errors.New("no")
			case 2:
				panic("no")
			}
			return time.Hour, nil
		}, func(hub.Bus, chan<- struct{}) { <-time.After(time.Minute) })
		if want := []time.Duration{0, hub.FollowRest, 2 * hub.FollowRest}; !slices.Equal(got, want) {
			t.Errorf("steps at %v, want %v", got, want)
		}
		if len(failures) != 2 || failures[1] != hub.CodeInternal {
			t.Errorf("got failures %v", failures)
		}
	})
}
