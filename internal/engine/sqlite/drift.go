package sqlite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
)

// SchemaDrift compares tables, indexes and triggers with those that this
// version makes, and returns a sentence for each that is missing, was changed
// or was added. A removed trigger would let a program change the rows that it
// protects.
func (s *Store) SchemaDrift(ctx context.Context) ([]string, error) {
	const op = "sqlite.SchemaDrift"
	want, err := ownSchema()
	if err != nil {
		return nil, engineError(op, err)
	}

	var got map[string]string
	err = s.read(ctx, op, func(r *reader) (err error) {
		got, err = r.c.schema()
		return engineError(op, err)
	})
	if err != nil {
		return nil, err
	}

	var drift []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch sql, ok := got[name]; {
		case !ok:
			drift = append(drift, fmt.Sprintf("the %s is missing", name))
		case sql != want[name]:
			drift = append(drift, fmt.Sprintf("the %s was changed", name))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			drift = append(drift, fmt.Sprintf("the %s was added", name))
		}
	}
	return drift, nil
}

// ownSchema returns the schema of a database that was just made. It depends on the program alone, and
// is made once.
var ownSchema = sync.OnceValues(func() (map[string]string, error) {
	db, err := sqlite3.Open(":memory:")
	if err != nil {
		return nil, err
	}
	c := &conn{db: db}
	defer c.close()
	if err := fts5.Register(db); err != nil {
		return nil, err
	}
	if err := migrate(c); err != nil {
		return nil, err
	}
	return c.schema()
})

// schema returns the text of everything in the schema by kind and name.
func (c *conn) schema() (map[string]string, error) {
	st, _, err := c.db.Prepare(`SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema`)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	all := map[string]string{}
	for st.Step() {
		all[st.ColumnText(0)] = st.ColumnText(1)
	}
	return all, st.Err()
}
