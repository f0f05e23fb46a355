package event_test

import (
	"context"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A busyStore is a store in which something else happens after a snapshot was read, before its
// reader goes on.
type busyStore struct {
	hub.Store
	after func() // nil for nothing
}

func (s *busyStore) View(ctx context.Context, fn func(hub.Reader) error) error {
	err := s.Store.View(ctx, fn)
	if after := s.after; after != nil {
		s.after = nil
		after()
	}
	return err
}

// A plainVault keeps secrets as they are.
type plainVault struct{}

func (plainVault) Seal(secret, _ string) string          { return secret }
func (plainVault) Open(sealed, _ string) (string, error) { return sealed, nil }

// TestDoorOfChangedSource changes the secret of a source while a request reads it: the next request
// meets the new secret.
func TestDoorOfChangedSource(t *testing.T) {
	store := &busyStore{Store: storetest.Open(t, t.TempDir())}
	s := event.New(store, nil, plainVault{}, &event.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	add := func(secret string) {
		t.Helper()
		if _, err := s.Add(t.Context(), hub.Caller{ID: hub.Operator}, event.Setting{Name: "hooks", Vendor: hub.VendorGitHub, Secret: secret}); err != nil {
			t.Fatal(err)
		}
	}
	add("the first secret of hooks")
	store.after = func() { add("the second secret of hooks") }
	if _, err := s.Door(t.Context(), "hooks"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Door(t.Context(), "hooks"); err != nil || got.Secret != "the second secret of hooks" {
		t.Errorf("got %+v, %v", got, err)
	}
}
