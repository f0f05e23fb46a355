// Package storetest opens the store on which the tests of services run: SQLite, or
// PostgreSQL where PARLEY_TEST_STORE=postgres says so; PARLEY_TEST_POSTGRES names the
// server then. Only tests import it.
package storetest

import (
	"os"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
)

// Postgres reports whether the tests run on PostgreSQL.
func Postgres() bool { return os.Getenv("PARLEY_TEST_STORE") == "postgres" }

// Open returns an empty store, which is closed when the test ends. On SQLite it is in dir.
func Open(t testing.TB, dir string) (store hub.Store) {
	t.Helper()
	var err error
	if Postgres() {
		store, err = openPostgres(t)
	} else {
		store, err = sqlite.Open(dir, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
