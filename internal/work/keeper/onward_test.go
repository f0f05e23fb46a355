package keeper

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/reach/wake"
)

// noMail is a register in which no mail comes.
type noMail struct{ register }

func (*noMail) Wait(ctx context.Context, _ hub.Caller, _ wake.Waiter) (wake.Call, error) {
	<-ctx.Done()
	return wake.Call{}, ctx.Err()
}

// stoppedKeeper is a keeper of builder, which could not go on when the hub was killed.
func stoppedKeeper(t *testing.T, isGivenUp bool, tell func(context.Context, Ended)) *Keeper {
	t.Helper()
	store, err := sqlite.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r := record{Definition: Definition{Agent: "builder", Dir: t.TempDir()}, Stopped: isGivenUp, Cannot: &Ended{Agent: "builder", Reason: hub.ContinueLogin, Said: "half of it"}}
	err = store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		if err := hub.WriteMeta(tx, listKey, []hub.AgentID{"builder"}); err != nil {
			return err
		}
		return hub.WriteMeta(tx, recordKey("builder"), r)
	})
	if err != nil {
		t.Fatal(err)
	}
	return New(store, &noMail{}, nil, Options{Home: t.TempDir(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), CannotGoOn: tell})
}

// stored returns the stored state of builder.
func stored(t *testing.T, k *Keeper) record {
	t.Helper()
	r, err := k.find(context.Background(), "keeper.test", "builder")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTasksGoOnAfterAKill(t *testing.T) {
	for name, isGivenUp := range map[string]bool{"an agent that is served": false, "an agent that was given up": true} {
		t.Run(name+" is told of again, until the hub has answered", func(t *testing.T) {
			told := make(chan Ended, 1)
			k := stoppedKeeper(t, isGivenUp, func(ctx context.Context, e Ended) {
				told <- e
				<-ctx.Done() // the hub ends before it has answered
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				k.Run(ctx)
			}()
			if e := <-told; e.Agent != "builder" || e.Reason != hub.ContinueLogin || e.Said != "half of it" {
				t.Errorf("told of %+v", e)
			}
			cancel()
			<-done
			if stored(t, k).Cannot == nil {
				t.Fatal("the next start does not know of it")
			}

			answered := make(chan struct{})
			k.o.CannotGoOn = func(context.Context, Ended) { close(answered) }
			ctx, cancel = context.WithCancel(t.Context())
			done = make(chan struct{})
			go func() {
				defer close(done)
				k.Run(ctx)
			}()
			<-answered
			for stored(t, k).Cannot != nil && t.Context().Err() == nil { // it is stored right after the answer
			}
			cancel()
			<-done
			if r := stored(t, k); r.Cannot != nil || r.Stopped != isGivenUp {
				t.Errorf("stored %+v", r)
			}
		})
	}
}

// An agent that waits for the hub's answer must not be waited for by the same call.
func TestYieldingAgentIsNotHalted(t *testing.T) {
	var k *Keeper
	asked := make(chan error, 1)
	k = stoppedKeeper(t, false, func(ctx context.Context, e Ended) {
		unlock, err := lockFolder(stored(t, k).Dir) // a stand-in works there already
		if err == nil {
			defer unlock()
			_, err = k.vacate(ctx, "builder", stored(t, k).Dir)
		}
		asked <- err
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	if err := <-asked; err != nil {
		t.Error(err)
	}
	cancel()
	<-done
}
