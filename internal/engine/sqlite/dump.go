package sqlite

import (
	"bytes"
	"context"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

// Dump calls begin with the version of the schema, and then emit with every row
// of the database as it is now. A row is a JSON object with the columns in the
// order of the table; it is good until emit returns. Unless restricted is given, the content
// of restricted handoffs is left out. The same database gives the
// same rows in the same order, also when rows are written meanwhile.
func (s *Store) Dump(ctx context.Context, begin func(schema int) error, emit func(table string, row []byte) error, restricted bool) error {
	const op = "sqlite.Dump"
	return s.read(ctx, op, func(r *reader) error {
		version, err := r.c.number(`PRAGMA user_version`)
		if err != nil {
			return engineError(op, err)
		}
		if err := begin(int(version)); err != nil {
			return err
		}
		for _, t := range rows.DumpTables {
			if err := r.c.dump(op, t, emit, restricted); err != nil {
				return err
			}
		}
		return nil
	})
}

// dump emits the rows of one table. An error of emit is returned unchanged.
func (c *conn) dump(op string, t rows.DumpTable, emit func(table string, row []byte) error, restricted bool) error {
	columns, err := c.columns(t.Name)
	if err != nil {
		return engineError(op, err)
	}

	// Unless restricted is set, the contents of restricted handoffs are withheld.
	values := make([]string, len(columns))
	for i, column := range columns {
		values[i] = column
		if other := rows.Withheld(t.Name, column, `verification_json ->> 'package_hash'`); other != "" && !restricted {
			values[i] = other
		}
	}

	sql := `SELECT ` + strings.Join(values, ", ") + ` FROM ` + t.Name
	if t.Where != "" {
		sql += ` WHERE ` + t.Where
	}
	st, _, err := c.db.Prepare(sql + ` ORDER BY ` + t.Order)
	if err != nil {
		return engineError(op, err)
	}
	defer st.Close()

	var row bytes.Buffer
	for n := 1; st.Step(); n++ {
		row.Reset()
		if column := encodeRow(&row, st, columns); column != "" {
			return hub.Errorf(hub.CodeDegraded, op, "row %d of %s has a value in %s that is neither text nor a whole number", n, t.Name, column).
				WithHint("the hub never writes this; run \"parley hub verify\" to check its records")
		}
		if err := emit(t.Name, row.Bytes()); err != nil {
			return err
		}
	}
	return engineError(op, st.Err())
}

// columns returns the names of a table's columns in their order, none if there
// is no such table.
func (c *conn) columns(table string) ([]string, error) {
	st, _, err := c.db.Prepare(`SELECT name FROM pragma_table_info(?1) ORDER BY cid`)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.BindText(1, table); err != nil {
		return nil, err
	}
	var names []string
	for st.Step() {
		names = append(names, st.ColumnText(0))
	}
	return names, st.Err()
}

// encodeRow writes the row that st stands on. It returns the name of a column
// whose value cannot be written, or "".
func encodeRow(row *bytes.Buffer, st *sqlite3.Stmt, columns []string) string {
	return rows.EncodeRow(row, columns, func(i int) (any, bool) {
		switch st.ColumnType(i) {
		case sqlite3.NULL:
			return nil, true
		case sqlite3.INTEGER:
			return st.ColumnInt64(i), true
		case sqlite3.TEXT:
			return st.ColumnText(i), true
		}
		return nil, false
	})
}
