//go:build unix

package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestStore(t *testing.T) {
	used := &databases{t: t}
	hubtest.TestStore(t, func(t *testing.T) (hub.Store, func() hub.Store) {
		address := used.take(t)
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

// databases are those whose tests have ended: the server needs less than a tenth of the time to
// empty tables than to make them.
type databases struct {
	t     *testing.T
	free  []string
	seeds []string // the statements that insert what a new database has
}

// take returns the address of a database that is as a new one, until the test ends.
func (d *databases) take(t *testing.T) string {
	t.Helper()
	address := d.empty()
	if address == "" {
		address = pgtest.Address(d.t)
		s, err := postgres.Open(context.Background(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		d.seeds = pgtest.Column(t, address, `SELECT format('INSERT INTO acp_meta (key, value) VALUES (%L, %L)', key, value) FROM acp_meta`)
	}
	t.Cleanup(func() { d.free = append(d.free, address) })
	return address
}

// empty returns "" if there is none, or if the user of the server may not switch triggers off.
func (d *databases) empty() string {
	if len(d.free) == 0 {
		return ""
	}
	address := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	if err := pgtest.Try(address, emptyTables+strings.Join(d.seeds, ";")); err != nil {
		return ""
	}
	return address
}

// emptyTables deletes every row but the version of the schema, also of tables with triggers that
// refuse it.
const emptyTables = `SET session_replication_role = replica;
DO $$
DECLARE
  of record;
BEGIN
  FOR of IN SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'parley_schema' LOOP
    EXECUTE format('DELETE FROM %I', of.name);
  END LOOP;
  FOR of IN SELECT sequencename AS name FROM pg_sequences WHERE schemaname = current_schema() LOOP
    EXECUTE format('ALTER SEQUENCE %I RESTART', of.name);
  END LOOP;
END $$;
`
