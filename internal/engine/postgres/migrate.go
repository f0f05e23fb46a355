package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-agents/parley/hub"
)

// The tables. A file is named after the version of the schema that it leads to; the
// versions are those of the SQLite schema with the same tables and columns. TEXT is
// compared byte by byte there, so that it is here: migrate adds the collation.
//
//go:embed schema/*.sql
var schemas embed.FS

// The tables of the hubs that run.
//
//go:embed hubs.sql
var hubTables string

// The triggers against emptying tables.
//
//go:embed guards.sql
var guards string

// unversioned makes everything that belongs to no version of the schema.
func unversioned() string { return collated(hubTables) + ";" + guards }

// versionTable makes the table with the version of the schema.
const versionTable = `CREATE TABLE IF NOT EXISTS parley_schema (version BIGINT NOT NULL)`

// A migration leads from an earlier version of the schema to a later one.
type migration struct {
	version int
	sql     string
}

// migrations returns the migrations in order.
func migrations() (all []migration) {
	names, err := fs.Glob(schemas, "schema/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		text, err := schemas.ReadFile(name)
		version, err2 := strconv.Atoi(strings.SplitN(path.Base(name), "_", 2)[0])
		if err != nil || err2 != nil {
			panic(fmt.Sprint(err, err2))
		}
		all = append(all, migration{version, collated(string(text))})
	}
	return all
}

func collated(sql string) string { return strings.ReplaceAll(sql, " TEXT", ` TEXT COLLATE "C"`) }

// Schema is the version of the schema that this version makes.
func Schema() int {
	all := migrations()
	return all[len(all)-1].version
}

// migrate brings the tables up to date, in one transaction, and returns the name of
// the schema that they are in. The hubs that start together do so one after the other.
func (s *Store) migrate(ctx context.Context) (string, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	defer c.close()
	version, err := migrateOn(ctx, c.pg)
	if err != nil {
		return "", engineError(err)
	}
	if newest := Schema(); version > newest {
		return "", hub.Errorf(hub.CodeConflict, "", "the database was made by a newer parley: schema %d, this parley supports %d", version, newest).
			WithHint("upgrade parley; nothing was changed")
	}
	got := c.pg.ExecParams(ctx, `SELECT current_schema()`, nil, nil, nil, nil).Read()
	if got.Err != nil {
		return "", engineError(got.Err)
	}
	return string(got.Rows[0][0]), nil
}

// migrateOn returns the version of the schema that it leaves behind.
func migrateOn(ctx context.Context, pg *pgconn.PgConn) (version int, err error) {
	if server := pg.ParameterStatus("server_version"); serverMajor(server) < 15 {
		return 0, hub.Errorf(hub.CodeInvalid, "", "PostgreSQL %s is too old: a hub needs 15 or later", server)
	}
	if _, err := pg.Exec(ctx, `BEGIN; SELECT pg_advisory_xact_lock(1886546029, hashtext(current_schema()));
		`+versionTable).ReadAll(); err != nil {
		return 0, err
	}
	got := pg.ExecParams(ctx, `SELECT coalesce(max(version), 0) FROM parley_schema`, nil, nil, nil, nil).Read()
	if got.Err != nil {
		return 0, got.Err
	}
	version = int(number(got.Rows[0][0]))
	for _, m := range migrations() {
		if m.version <= version {
			continue
		}
		if _, err := pg.Exec(ctx, m.sql+fmt.Sprintf(`; DELETE FROM parley_schema; INSERT INTO parley_schema VALUES (%d)`, m.version)).ReadAll(); err != nil {
			return 0, fmt.Errorf("schema %d: %w", m.version, err)
		}
		version = m.version
	}
	_, err = pg.Exec(ctx, unversioned()+`; COMMIT`).ReadAll()
	return version, err
}

// serverMajor returns the first number of a version such as 15.4 (Debian).
func serverMajor(version string) int {
	digits := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(version)
	}
	n, _ := strconv.Atoi(version[:digits])
	return n
}
