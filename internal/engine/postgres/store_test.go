//go:build unix

package postgres_test

import (
	"context"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestStore(t *testing.T) {
	hubtest.TestStore(t, func(t *testing.T) (hub.Store, func() hub.Store) {
		address := pgtest.Address(t)
		var store hub.Store
		reopen := func() hub.Store {
			if store != nil {
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s, err := postgres.Open(context.Background(), address, nil)
			if err != nil {
				t.Fatal(err)
			}
			store = s
			return s
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return reopen(), reopen
	})
}
