package rows

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
)

// holdConnection calls the store and keeps its connection until end is closed.
func holdConnection(call func(func() error) error, held chan<- struct{}, end <-chan struct{}) error {
	return call(func() error {
		close(held)
		<-end
		return nil
	})
}

// wantOverloaded checks the error of a call that got no connection, and that the log names
// it and the call that holds the connection.
func wantOverloaded(t *testing.T, err error, began time.Time, log *bytes.Buffer) {
	t.Helper()
	if hub.CodeOf(err) != hub.CodeOverloaded {
		t.Errorf("got %v, want overloaded", err)
	}
	if took := time.Since(began); took != ConnectionWait { // the clock of the bubble
		t.Errorf("it waited for %v, want %v", took, ConnectionWait)
	}
	if !strings.Contains(log.String(), "holding") || !strings.Contains(log.String(), "waiting") {
		t.Errorf("the log does not name the calls: %s", log)
	}
}

func TestReadsWithoutAConnectionAreOverloaded(t *testing.T) {
	for name, ctx := range map[string]context.Context{"a caller waits": context.Background(), "background": hub.InBackground(context.Background())} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				slots := NewSlots(1, slog.New(slog.NewTextHandler(&log, nil)))
				held, end := make(chan struct{}), make(chan struct{})
				do := func(fn func() error) error { return slots.Do(ctx, "store.View", fn) }
				go holdConnection(do, held, end)
				<-held

				began := time.Now()
				err := do(func() error { return errors.New("it got the connection of another call") })
				wantOverloaded(t, err, began, &log)
				close(end)
				synctest.Wait()
				if err := do(func() error { return nil }); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func TestChangesWithoutAConnectionAreOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := NewWriter(new(Gate), new(emptyEngine), time.Hour, slog.New(slog.NewTextHandler(&log, nil)))
		go w.Run()
		held, end := make(chan struct{}), make(chan struct{})
		update := func(fn func() error) error {
			return w.Update(context.Background(), hub.SurvivesKill, func(hub.Tx) error { return fn() })
		}
		go holdConnection(update, held, end)
		<-held

		began := time.Now()
		err := update(func() error { return errors.New("it ran inside of another change") })
		wantOverloaded(t, err, began, &log)
		close(end)
		if err := update(func() error { return nil }); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		w.gate.Close()
		w.Stop()
	})
}

// An emptyEngine runs the functions of a writer on no database.
type emptyEngine struct{ tx Tx }

func (e *emptyEngine) Tx() (hub.Tx, *Tx)        { return nil, &e.tx }
func (*emptyEngine) Begin(hub.Durability) error { return nil }
func (*emptyEngine) Commit() error              { return nil }
func (*emptyEngine) Rollback()                  {}
func (*emptyEngine) Ended() error               { return nil }
func (*emptyEngine) Reset()                     {}
func (*emptyEngine) Failed(err error) error     { return err }
func (*emptyEngine) Succeeded()                 {}
func (*emptyEngine) Idle() error                { return nil }
func (*emptyEngine) More() (some, urgent bool)  { return false, false }
