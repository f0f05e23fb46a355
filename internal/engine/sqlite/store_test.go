package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

// emptyDatabase returns the bytes of a database without rows, as storetest does. That package also
// brings the statements of PostgreSQL, which TestPlans must not see.
func emptyDatabase(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlite.Open(dir, nil)
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(filepath.Join(dir, "hub.db"))
	if err != nil {
		t.Fatal(err)
	}
	return empty
}

func TestStore(t *testing.T) {
	empty := emptyDatabase(t)
	hubtest.TestStore(t, func(t *testing.T) (hub.Store, func() hub.Store) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "hub.db"), empty, 0o600); err != nil { // TestWholeSchema and the tests of migrations make the tables
			t.Fatal(err)
		}
		var store hub.Store
		reopen := func() hub.Store {
			if store != nil {
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s, err := sqlite.Open(dir, nil)
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
