package acpguard_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// openStore returns an empty store that has the tables of reservations.
func openStore(t *testing.T) hub.Store {
	dir := t.TempDir()
	h := storetest.NewHome(t, dir)
	h.Open().Close()
	db, err := sqlite3.Open(filepath.Join(dir, "hub.db"))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile("../engine/sqlite/schema/0021_reservations.sql")
	if err := db.Exec(string(raw)); err != nil {
		t.Fatal(err)
	}
	db.Close()
	s := h.Open()
	t.Cleanup(func() { s.Close() })
	return s
}
