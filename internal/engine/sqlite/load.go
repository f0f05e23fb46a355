package sqlite

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// Load makes a hub's database in home out of the rows of a dump, which next
// returns one after the other and then io.EOF. The database appears when it is
// complete, or not at all. Load reports CodeConflict when there is a database
// already or when a newer version made the dump, and CodeInvalid when a row
// does not fit.
func Load(ctx context.Context, home string, schema int, next func() (table string, row []byte, err error)) error {
	const op = "sqlite.Load"
	switch {
	case schema < 1:
		return hub.Errorf(hub.CodeInvalid, op, "%d is not a schema version", schema)
	case schema > schemaVersion():
		return hub.Errorf(hub.CodeConflict, op, "the rows were written by a newer parley: schema %d, this parley supports %d", schema, schemaVersion()).
			WithHint("upgrade parley; nothing was changed")
	}

	// The lock keeps a hub from starting in the home during the load.
	home, err := filepath.Abs(home)
	if err != nil {
		return engineError(op, err)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return hub.Errorf(hub.CodeDegraded, op, "cannot make the hub's home: %v", err)
	}
	lock, err := lockHome(filepath.Join(home, LockFile))
	if err != nil {
		return err
	}
	defer lock.Close()

	path := filepath.Join(home, databaseName)
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Lstat(name); err == nil && (name == path || info.Size() > 0) {
			return hub.Errorf(hub.CodeConflict, op, "%s already has a hub", home).WithHint("use a home that does not exist yet")
		}
	}

	// The draft takes the name of the database when it is complete.
	draft := path + ".load"
	if err := removeDatabase(draft); err != nil { // left by a crash
		return engineError(op, err)
	}
	if err := fillDatabase(ctx, draft, schema, next); err != nil {
		return errors.Join(cmp.Or(ctx.Err(), err), removeDatabase(draft))
	}
	if err := moveDatabase(draft, path); err != nil {
		return errors.Join(engineError(op, err), removeDatabase(draft))
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

// moveDatabase writes a closed database to disk and gives it its name. Closing
// it has emptied its log.
func moveDatabase(from, to string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.Remove(from + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := durable.SyncFile(from); err != nil {
		return err
	}
	return durable.Rename(from, to)
}

// fillDatabase makes a database at path.
func fillDatabase(ctx context.Context, path string, schema int, next func() (string, []byte, error)) error {
	if err := protect(path); err != nil {
		return engineError("sqlite.Load", err)
	}
	c, err := openConn(path, 5*time.Second, writerCache)
	if err != nil {
		return engineError("sqlite.Load", err)
	}
	c.db.SetInterrupt(ctx)
	err = c.load(schema, next)
	c.db.SetInterrupt(context.Background())
	return errors.Join(err, engineError("sqlite.Load", c.close()))
}

// load makes the schema of the given version, fills its tables in one
// transaction, and brings the schema up to date. An error of next is passed on
// as it is.
func (c *conn) load(schema int, next func() (string, []byte, error)) (err error) {
	const op = "sqlite.Load"
	for version := range schema {
		if err := migrateOne(c, version); err != nil {
			return engineError(op, err)
		}
	}

	txn, err := c.db.BeginImmediate()
	if err != nil {
		return engineError(op, err)
	}

	tables := map[string]*loadTable{}
	for err == nil {
		var name string
		var row []byte
		if name, row, err = next(); err != nil {
			break
		}
		if tables[name] == nil {
			tables[name], err = c.loadTable(name)
		}
		if err == nil {
			err = tables[name].add(row)
		}
	}

	for _, t := range tables {
		if t != nil {
			t.insert.Close()
		}
	}

	// Any error other than the end of the rows discards all of them.
	if err != io.EOF {
		return errors.Join(err, txn.Rollback())
	}
	if err := txn.Commit(); err != nil {
		return engineError(op, err)
	}
	return engineError(op, migrate(c))
}

// A loadTable is a table that is being filled.
type loadTable struct {
	name    string
	columns []string
	insert  *sqlite3.Stmt
	rows    int
}

// loadTable prepares a table to be filled.
func (c *conn) loadTable(name string) (*loadTable, error) {
	const op = "sqlite.Load"
	var columns []string
	var err error
	i := slices.IndexFunc(rows.DumpTables, func(t rows.DumpTable) bool { return t.Name == name })
	if i >= 0 || slices.Contains(rows.FormerTables, name) {
		columns, err = c.columns(name)
	}
	if err == nil && len(columns) == 0 {
		return nil, hub.Errorf(hub.CodeInvalid, op, "no table named %q", name)
	}
	if err == nil && i >= 0 && rows.DumpTables[i].Fresh {
		err = c.db.Exec(`DELETE FROM ` + name)
	}
	if err != nil {
		return nil, engineError(op, err)
	}
	insert, _, err := c.db.Prepare(`INSERT INTO ` + name + ` (` + strings.Join(columns, ", ") + `) VALUES (?` + strings.Repeat(", ?", len(columns)-1) + `)`)
	return &loadTable{name: name, columns: columns, insert: insert}, engineError(op, err)
}

// add adds one row.
func (t *loadTable) add(row []byte) error {
	const op = "sqlite.Load"
	t.rows++
	values, err := rows.DecodeRow(t.columns, row)
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "row %d of %s: %v", t.rows, t.name, err)
	}
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			err = errors.Join(err, t.insert.BindNull(i+1))
		case int64:
			err = errors.Join(err, t.insert.BindInt64(i+1, v))
		case string:
			err = errors.Join(err, t.insert.BindText(i+1, v))
		}
	}
	if err == nil {
		err = t.insert.Exec()
	}
	switch err = engineError(op, err); hub.CodeOf(err) {
	case hub.CodeConflict, hub.CodeNotFound, hub.CodeInvalid:
		return hub.Errorf(hub.CodeInvalid, op, "row %d of %s does not fit: %v", t.rows, t.name, err)
	}
	return err
}
