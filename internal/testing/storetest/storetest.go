// Package storetest opens the store on which the tests of services run: SQLite, or
// PostgreSQL where PARLEY_TEST_STORE=postgres says so; PARLEY_TEST_POSTGRES names the
// server then. Only tests import it.
//
// It has no tests of its own: those of the packages under internal/service stand on it.
package storetest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

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
	store := NewHome(t, dir).Open()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// A Home is a place for one store, which can be opened again after it was closed. On
// SQLite the store is in Dir.
type Home struct {
	Dir string

	t       testing.TB
	address string // of the schema in PostgreSQL
}

// NewHome returns an empty home.
func NewHome(t testing.TB, dir string) *Home {
	t.Helper()
	h := &Home{Dir: dir, t: t}
	if Postgres() {
		h.address = newAddress(t)
		if err := os.MkdirAll(dir, 0o700); err != nil { // SQLite makes it, too
			t.Fatal(err)
		}
	}
	return h
}

// emptyDatabase returns the bytes of a database without rows. SQLite takes longer to make the tables
// than a test of a service takes for the rest.
var emptyDatabase = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "empty")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "hub.db"))
})

// Prepare makes a folder with an empty database of SQLite.
func Prepare(t testing.TB, dir string) {
	t.Helper()
	empty, err := emptyDatabase()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "hub.db"), empty, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Open opens the store as a start of a hub does. The caller closes it.
func (h *Home) Open() (store Store) {
	h.t.Helper()
	var err error
	if Postgres() {
		store, err = openPostgres(h.address)
	} else {
		if _, missing := os.Stat(filepath.Join(h.Dir, "hub.db")); missing != nil {
			Prepare(h.t, h.Dir)
		}
		store, err = sqlite.Open(h.Dir, nil)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return store
}

// Copy returns a home of its own with the same files and rows.
func (h *Home) Copy(t testing.TB, dir string) *Home {
	t.Helper()
	c := NewHome(t, dir)
	err := os.CopyFS(dir, os.DirFS(h.Dir))
	if Postgres() && err == nil {
		err = h.copyRows(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// copyRows copies the rows of a database into an empty one.
func (h *Home) copyRows(to *Home) error {
	type row struct {
		table string
		text  []byte
	}
	from := h.Open()
	defer from.Close()
	var version int
	var all []row
	err := from.Dump(context.Background(), func(schema int) error { version = schema; return nil }, func(table string, text []byte) error {
		all = append(all, row{table, append([]byte{}, text...)})
		return nil
	}, true)
	if err != nil {
		return err
	}
	return loadPostgres(to.address, version, func() (string, []byte, error) {
		if len(all) == 0 {
			return "", nil, io.EOF
		}
		r := all[0]
		all = all[1:]
		return r.table, r.text, nil
	})
}

// Exec runs statements as another program could, with nothing that stands against it.
func (h *Home) Exec(sql string) {
	h.t.Helper()
	if Postgres() {
		execPostgres(h.t, h.address, sql)
		return
	}

	must := func(err error) {
		h.t.Helper()
		if err != nil {
			h.t.Fatal(err)
		}
	}
	db, err := sqlite3.Open(filepath.Join(h.Dir, "hub.db"))
	must(err)
	defer db.Close()
	must(db.BusyTimeout(time.Minute)) // the store may write at that moment

	// The triggers of the schema refuse changes that the store never makes, so they are dropped.
	for {
		st, _, err := db.Prepare(`SELECT name FROM sqlite_schema WHERE type = 'trigger' LIMIT 1`)
		must(err)
		name := ""
		if st.Step() {
			name = st.ColumnText(0)
		}
		must(st.Close())
		if name == "" {
			break
		}
		must(db.Exec(`DROP TRIGGER ` + name))
	}

	must(db.Exec(sql))
	if db.TotalChanges() == 0 {
		h.t.Fatalf("nothing was changed by %s", sql)
	}
}
