package sqlite_test

import (
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

func TestStore(t *testing.T) {
	hubtest.TestStore(t, func(t *testing.T) (hub.Store, func() hub.Store) {
		dir := t.TempDir()
		storetest.Prepare(t, dir) // TestWholeSchema and the tests of migrations make the tables
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
