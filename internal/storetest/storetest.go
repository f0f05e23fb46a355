// Package storetest opens the store on which the tests of services run: SQLite, or
// PostgreSQL where PARLEY_TEST_STORE=postgres says so; PARLEY_TEST_POSTGRES names the
// server then. Only tests import it.
package storetest

import (
	"context"
	"os"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
)

// Postgres reports whether the tests run on PostgreSQL.
func Postgres() bool { return os.Getenv("PARLEY_TEST_STORE") == "postgres" }

// A Store is a store of either engine.
type Store interface {
	hub.Store
	Dump(ctx context.Context, begin func(schema int) error, emit func(table string, row []byte) error, restricted bool) error
}

// Open returns an empty store, which is closed when the test ends. On SQLite it is in dir.
func Open(t testing.TB, dir string) Store {
	t.Helper()
	store := Home(t, dir)()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// Home returns a function that opens a store, empty at first, as a start of a hub does.
// The caller closes it. On SQLite it is in dir.
func Home(t testing.TB, dir string) func() Store {
	t.Helper()
	open := func() (Store, error) { return sqlite.Open(dir, nil) }
	if Postgres() {
		open = inPostgres(t)
	}
	return func() Store {
		t.Helper()
		store, err := open()
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
}
