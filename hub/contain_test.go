package hub_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

func TestContain(t *testing.T) {
	t.Run("a panic becomes an error that names the line", func(t *testing.T) {
		var nothing *hub.Entry
		for name, fn := range map[string]func() error{
			"boom":                   func() error { panic("boom") },
			"nil pointer":            func() error { return errors.New(nothing.Subject) },
			"panic at a second time": func() error { defer func() { panic("panic at a second time") }(); panic("first") },
		} {
			err := hub.Contain("test", fn)
			if hub.CodeOf(err) != hub.CodeInternal || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), " at contain_test.go:") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("an error is returned as it is", func(t *testing.T) {
		boom := errors.New("boom")
		if err := hub.Contain("test", func() error { return boom }); err != boom {
			t.Errorf("got %v, want %v", err, boom)
		}
	})
	t.Run("work under a lease that panics is an error of the work", func(t *testing.T) {
		err := hub.Alone(t.Context(), leaser{}, "work", time.Minute, func(hub.Store) error { panic("boom") })
		if hub.CodeOf(err) != hub.CodeInternal {
			t.Errorf("got %v, want %s", err, hub.CodeInternal)
		}
	})
}

// A leaser is a store that grants every lease.
type leaser struct{ hub.Store }

func (leaser) Lease(context.Context, string, time.Duration) (hub.Lease, error) {
	return hub.Lease{}, nil
}
