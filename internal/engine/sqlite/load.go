package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
)

// loadBatch is how many rows share a transaction while a database is filled
// that nobody else can see.
const loadBatch = 4096

// Load makes a hub's database in home out of the rows of a dump, which next
// returns one after the other and then io.EOF. The database appears when it is
// complete, or not at all. Load reports CodeConflict when there is a database
// already or when a newer version made the dump, and CodeInvalid when a row
// does not fit.
func Load(ctx context.Context, home string, schema int, next func() (table string, row []byte, err error)) error {
	const op = "sqlite.Load"
	switch {
	case schema < 1:
		return hub.Errorf(hub.CodeInvalid, op, "%d is not a version of the schema", schema)
	case schema > len(migrations):
		return hub.Errorf(hub.CodeConflict, op, "the rows were written by a newer parley: schema %d, this one knows %d", schema, len(migrations)).
			WithHint("upgrade parley; nothing was changed")
	}
	home, err := filepath.Abs(home)
	if err != nil {
		return engineError(op, err)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return hub.Errorf(hub.CodeDegraded, op, "cannot make the hub's home: %v", err)
	}
	lock, err := lockHome(filepath.Join(home, lockName))
	if err != nil {
		return err
	}
	defer lock.Close()
	defer lock.Truncate(0)

	path := filepath.Join(home, databaseName)
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Lstat(name); err == nil && (name == path || info.Size() > 0) {
			return hub.Errorf(hub.CodeConflict, op, "there is a hub in %s already", home).WithHint("name a home that does not exist yet")
		}
	}
	draft := path + ".load"
	if err := removeDatabase(draft); err != nil { // left by a crash
		return engineError(op, err)
	}
	var stopped error // what next reported, which is passed on as it is
	err = fillDatabase(ctx, draft, schema, func() (string, []byte, error) {
		table, row, err := next()
		if err != nil && err != io.EOF {
			stopped = err
		}
		return table, row, err
	})
	if err == nil {
		err = moveDatabase(draft, path)
	}
	if err != nil {
		return errors.Join(cmp.Or(stopped, ctx.Err(), engineError(op, err)), removeDatabase(draft))
	}
	return engineError(op, protect(path))
}

// removeDatabase removes a database and the files beside it.
func removeDatabase(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// moveDatabase gives a database that nobody has open its name, when it is
// safely on disk.
func moveDatabase(from, to string) error {
	if err := syncFile(from); err != nil {
		return err
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal"} { // empty by now
		if err := os.Remove(from + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

// fillDatabase makes a database at path.
func fillDatabase(ctx context.Context, path string, schema int, next func() (string, []byte, error)) error {
	if err := protect(path); err != nil {
		return err
	}
	c, err := openConn(path, 5*time.Second, writerCache)
	if err != nil {
		return err
	}
	c.db.SetInterrupt(ctx)
	err = c.load(schema, next)
	c.db.SetInterrupt(context.Background())
	return errors.Join(err, c.close())
}

// load makes the schema of the given version, fills its tables, and brings the
// schema up to date.
func (c *conn) load(schema int, next func() (string, []byte, error)) error {
	for version := range schema {
		if err := migrateOne(c, version); err != nil {
			return err
		}
	}
	l := &loader{c: c, tables: map[string]*loadTable{}}
	defer l.close()
	for more := true; more; {
		if err := c.transact(func() (err error) {
			for n := 0; n < loadBatch && more && err == nil; n++ {
				more, err = l.step(next)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return migrate(c)
}

// transact calls fn in a transaction.
func (c *conn) transact(fn func() error) (err error) {
	txn, err := c.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer txn.End(&err)
	return fn()
}

// A loader fills tables.
type loader struct {
	c      *conn
	tables map[string]*loadTable
}

// A loadTable is a table that is being filled.
type loadTable struct {
	columns []string
	insert  *sqlite3.Stmt
	rows    int
}

func (l *loader) close() {
	for _, t := range l.tables {
		t.insert.Close()
	}
}

// step adds one row and reports whether there may be more.
func (l *loader) step(next func() (string, []byte, error)) (bool, error) {
	const op = "sqlite.Load"
	name, row, err := next()
	if err == io.EOF {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	t, err := l.table(name)
	if err != nil {
		return false, err
	}
	t.rows++
	values, err := decodeRow(t.columns, row)
	if err != nil {
		return false, hub.Errorf(hub.CodeInvalid, op, "row %d of %s: %v", t.rows, name, err)
	}
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			err = t.insert.BindNull(i + 1)
		case int64:
			err = t.insert.BindInt64(i+1, v)
		case string:
			err = t.insert.BindText(i+1, v)
		}
		if err != nil {
			return false, err
		}
	}
	err = t.insert.Exec()
	switch err = engineError(op, err); hub.CodeOf(err) {
	case "":
		return true, nil
	case hub.CodeConflict, hub.CodeNotFound, hub.CodeInvalid:
		return false, hub.Errorf(hub.CodeInvalid, op, "row %d of %s does not fit: %v", t.rows, name, err)
	}
	return false, err
}

// table returns a table that can be filled.
func (l *loader) table(name string) (*loadTable, error) {
	if t := l.tables[name]; t != nil {
		return t, nil
	}
	i := slices.IndexFunc(dumpTables, func(t dumpTable) bool { return t.name == name })
	var columns []string
	if i >= 0 {
		var err error
		if columns, err = l.c.columns(name); err != nil {
			return nil, err
		}
	}
	if len(columns) == 0 {
		return nil, hub.Errorf(hub.CodeInvalid, "sqlite.Load", "there is no table %q", name)
	}
	if dumpTables[i].fresh {
		if err := l.c.db.Exec(`DELETE FROM ` + name); err != nil {
			return nil, err
		}
	}
	insert, _, err := l.c.db.Prepare(`INSERT INTO ` + name + ` (` + strings.Join(columns, ", ") + `) VALUES (?` + strings.Repeat(", ?", len(columns)-1) + `)`)
	if err != nil {
		return nil, err
	}
	t := &loadTable{columns: columns, insert: insert}
	l.tables[name] = t
	return t, nil
}

// decodeRow reads a row of a dump: exactly these columns in this order, each
// nil, an int64 or a string.
func decodeRow(columns []string, row []byte) ([]any, error) {
	if !utf8.Valid(row) {
		return nil, errors.New("it is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(row))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	values := make([]any, len(columns))
	for i, column := range columns {
		if t, err := dec.Token(); err != nil || t != column {
			return nil, fmt.Errorf("its member %d is not %s", i+1, column)
		}
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", column, err)
		}
		switch t := t.(type) {
		case nil:
		case string:
			values[i] = t
		case json.Number:
			n, err := t.Int64()
			if err != nil {
				return nil, fmt.Errorf("%s: %s is not a whole number of 64 bits", column, t)
			}
			values[i] = n
		default:
			return nil, fmt.Errorf("%s: it is neither text nor a number nor null", column)
		}
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return nil, fmt.Errorf("it has more than %d members", len(columns))
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return values, nil
}
