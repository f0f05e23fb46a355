package keeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// noStore is a store whose transactions do nothing.
type noStore struct{ hub.Store }

func (noStore) Update(context.Context, hub.Durability, func(hub.Tx) error) error { return nil }

// register is a register that remembers the events of its session.
type register struct {
	Sessions
	events []wake.Event
}

func (r *register) Report(_ context.Context, _ hub.Caller, p wake.Report) (wake.Advice, error) {
	r.events = append(r.events, p.Event)
	return wake.Advice{}, nil
}

// newTestAgent returns an agent that no goroutine serves.
func newTestAgent(d Definition) (*agent, *register) {
	known := &register{}
	k := New(noStore{}, known, nil, Options{Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
	a := newAgent(k, "builder", func() {})
	a.record.Definition = d
	return a, known
}

func TestStates(t *testing.T) {
	all := []State{Sleeping, Starting, Working, Asking, Idle, Failing}
	reached := []State{Sleeping}
	for i := 0; i < len(reached); i++ {
		for _, next := range stateNext[reached[i]] {
			if !slices.Contains(reached, next) {
				reached = append(reached, next)
			}
		}
	}
	for _, s := range all {
		if !slices.Contains(reached, s) {
			t.Errorf("no step leads to %s", s)
		}
		if !slices.Contains(stateNext[s], Sleeping) && s != Sleeping {
			t.Errorf("the process of an agent that is %s cannot end", s)
		}
	}
	for _, c := range []struct {
		from, to State
		want     bool
	}{{Sleeping, Starting, true}, {Sleeping, Working, false}, {Working, Idle, true}, {Idle, Asking, false}, {Asking, Working, true}, {Failing, Starting, true}, {Working, Working, true}} {
		if got := c.from.leads(c.to); got != c.want {
			t.Errorf("%s to %s: got %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestRests(t *testing.T) {
	for _, c := range []struct {
		failures, tries int
		want            time.Duration
	}{{0, 0, 200 * time.Millisecond}, {1, 0, 400 * time.Millisecond}, {0, 2, 800 * time.Millisecond}, {4, 1, 3200 * time.Millisecond}, {40, 0, 5 * time.Minute}, {63, 0, 5 * time.Minute}, {400, 0, 5 * time.Minute}} {
		if got := restTime(c.failures, c.tries); got != c.want {
			t.Errorf("after %d failures and %d tries: got %s, want %s", c.failures, c.tries, got, c.want)
		}
	}
}

func TestHang(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		w    watched
		want bool
	}{
		"an agent that works":           {watched{state: Working, alive: now.Add(-time.Second), looked: now.Add(-watchEvery)}, false},
		"one without a sign of life":    {watched{state: Working, alive: now.Add(-time.Minute), looked: now.Add(-watchEvery)}, true},
		"one that asks a person":        {watched{state: Working, asks: true, alive: now.Add(-time.Minute), looked: now.Add(-watchEvery)}, false},
		"one that is still started":     {watched{state: Starting, alive: now.Add(-time.Minute), looked: now.Add(-watchEvery)}, false},
		"one on a machine that slept":   {watched{state: Working, alive: now.Add(-time.Hour), looked: now.Add(-time.Hour)}, false},
		"one that hangs since it slept": {watched{state: Working, alive: now.Add(-time.Hour), looked: now.Add(-2 * watchEvery)}, true},
	} {
		if got := c.w.hangs(now, 30*time.Second); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	t.Run("a turn without a sign of life is cancelled", func(t *testing.T) {
		a, _ := newTestAgent(Definition{Hang: 1})
		a.state = Working
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := a.watch(ctx, turn{}, cancel)
		defer stop()
		select {
		case <-ctx.Done():
		case <-time.After(patience.For(time.Minute)):
		}
		if !errors.Is(context.Cause(ctx), errHang) {
			t.Errorf("got %v, want %v", context.Cause(ctx), errHang)
		}
	})
}

func TestQuestions(t *testing.T) {
	request := sandbox.Request{Title: "run make", Options: []sandbox.Option{{ID: "yes", Name: "Allow", Kind: sandbox.AllowOnce}}}
	t.Run("a question without an answer is denied after its time, and the turn goes on", func(t *testing.T) {
		a, known := newTestAgent(Definition{Question: 1})
		a.state = Working
		got, err := a.ask(t.Context(), request)
		if got != "" || err != nil {
			t.Errorf("got %q, %v, want a denial", got, err)
		}
		if a.desk.open("") != 0 || a.state != Working || !slices.Equal(known.events, []wake.Event{wake.EventWaiting, wake.EventTool}) {
			t.Errorf("got %d questions, %s, %v", a.desk.open(""), a.state, known.events)
		}
	})
	t.Run("a question of a turn that is cancelled ends", func(t *testing.T) {
		a, _ := newTestAgent(Definition{})
		a.state = Working
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := a.ask(ctx, request); got != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("too many questions are denied at once", func(t *testing.T) {
		a, _ := newTestAgent(Definition{})
		for range maxAsks {
			a.desk.add(&Question{})
		}
		if got, err := a.ask(t.Context(), request); got != "" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestBusy(t *testing.T) {
	a, _ := newTestAgent(Definition{})
	a.agents["builder"] = a
	for _, c := range []struct {
		state State
		pid   int
		want  bool
	}{{Sleeping, 0, false}, {Starting, 0, false}, {Working, 7, true}, {Asking, 7, true}, {Idle, 7, false}, {Failing, 0, false}} {
		a.state, a.pid = c.state, c.pid
		if got := a.Busy("builder"); got != c.want {
			t.Errorf("%s with process %d: got %v, want %v", c.state, c.pid, got, c.want)
		}
	}
	if a.Busy("nobody") {
		t.Error("an agent that is not kept: got true, want false")
	}
}
