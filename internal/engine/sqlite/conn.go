package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"github.com/parley-agents/parley/internal/engine/rows"
)

// A conn is one connection with its prepared statements. It serves one
// goroutine at a time.
type conn struct {
	db    *sqlite3.Conn
	stmts []*sqlite3.Stmt          // by their id; prepared at their first use
	made  map[string]*sqlite3.Stmt // by their text; see Made
}

// openConn opens the database file, which must exist, with the pragmas that
// every connection needs.
func openConn(path string, busy time.Duration, cacheKiB int) (*conn, error) {
	db, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		return nil, err
	}
	c := &conn{db: db, stmts: make([]*sqlite3.Stmt, len(rows.Statements(rows.SQLite))), made: map[string]*sqlite3.Stmt{}}
	if err := c.prepare(busy, cacheKiB); err != nil {
		db.Close()
		return nil, err
	}
	return c, nil
}

func (c *conn) prepare(busy time.Duration, cacheKiB int) error {
	// The timeout comes first: switching to WAL may have to wait.
	pragmas := fmt.Sprintf(`PRAGMA busy_timeout = %d;
		PRAGMA journal_mode = WAL;
		PRAGMA foreign_keys = ON;
		PRAGMA synchronous = NORMAL;
		PRAGMA temp_store = MEMORY;
		PRAGMA trusted_schema = OFF;
		PRAGMA cache_size = -%d;`, busy.Milliseconds(), cacheKiB)
	if err := c.db.Exec(pragmas); err != nil {
		return err
	}
	// Without this a statement is planned anew for every value bound to it.
	if _, err := c.db.Config(sqlite3.DBCONFIG_ENABLE_QPSG, true); err != nil {
		return err
	}
	return fts5.Register(c.db)
}

// close ends the statements and the connection.
func (c *conn) close() error {
	for i, s := range c.stmts {
		if s != nil {
			s.Close()
			c.stmts[i] = nil
		}
	}
	for _, s := range c.made {
		s.Close()
	}
	clear(c.made)
	return c.db.Close()
}

// reset ends every statement that is under way.
func (c *conn) reset() {
	for _, s := range c.stmts {
		if s != nil {
			s.Reset()
		}
	}
	for _, s := range c.made {
		s.Reset()
	}
}

// stmt returns a prepared statement, made at its first use.
func (c *conn) stmt(id rows.StmtID) (*sqlite3.Stmt, error) {
	if s := c.stmts[id]; s != nil {
		return s, nil
	}
	s, _, err := c.db.PrepareFlags(rows.Statements(rows.SQLite)[id], sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("prepare statement %d: %w", id, err)
	}
	c.stmts[id] = s
	return s, nil
}

// maxMade is how many statements of callers' choices a connection keeps.
const maxMade = 64

// Prepared implements rows.Conn.
func (c *conn) Prepared(id rows.StmtID) (rows.Stmt, error) {
	s, err := c.stmt(id)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Made implements rows.Conn.
func (c *conn) Made(sql string) (rows.Stmt, error) {
	if s := c.made[sql]; s != nil {
		return s, nil
	}
	if len(c.made) >= maxMade {
		for _, s := range c.made {
			s.Close()
		}
		clear(c.made)
	}
	s, _, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", sql, err)
	}
	c.made[sql] = s
	return s, nil
}

// Later implements rows.Conn.
func (c *conn) Later(s rows.Stmt) error { return s.Exec() }

// Changes implements rows.Conn.
func (c *conn) Changes() int64 { return c.db.Changes() }

// Dialect implements rows.Conn.
func (c *conn) Dialect() rows.Dialect { return rows.SQLite }

// Refine implements rows.Conn.
func (c *conn) Refine(err error) error { return engineError("", err) }

// Match implements rows.Conn. Words are quoted, so that nothing in them is syntax.
// The index leaps from each message that has the rarest word to the next, so that a
// search costs the messages of its viewer, however many others hold the same words.
func (c *conn) Match(words []string) string { return `"` + strings.Join(words, `" AND "`) + `"` }

// exec runs a statement without parameters.
func (c *conn) exec(id rows.StmtID) error {
	s, err := c.stmt(id)
	if err != nil {
		return err
	}
	return s.Exec()
}

// number returns the first column of the first row of a statement given as
// text, for questions that are asked once.
func (c *conn) number(sql string) (n int64, err error) {
	s, _, err := c.db.Prepare(sql)
	if err != nil {
		return 0, err
	}
	if s.Step() {
		n = s.ColumnInt64(0)
	}
	err = s.Err()
	s.Close()
	return n, err
}
