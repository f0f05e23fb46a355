package sqlite

import (
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"github.com/parley-agents/parley/hub"
)

// A conn is one connection with its prepared statements. It serves one
// goroutine at a time.
type conn struct {
	db       *sqlite3.Conn
	stmts    []*sqlite3.Stmt          // by stmtID; prepared at their first use
	made     map[string]*sqlite3.Stmt // by their text; see dynamic
	policies map[string]hub.Policy    // as read, by their text; see policy

	repoLists map[string][]hub.Repo // likewise; see repos
}

// openConn opens the database file, which must exist, with the pragmas that
// every connection needs.
func openConn(path string, busy time.Duration, cacheKiB int) (*conn, error) {
	db, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		return nil, err
	}
	c := &conn{db: db, stmts: make([]*sqlite3.Stmt, len(statements)), made: map[string]*sqlite3.Stmt{}, policies: map[string]hub.Policy{}, repoLists: map[string][]hub.Repo{}}
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
func (c *conn) stmt(id stmtID) (*sqlite3.Stmt, error) {
	if s := c.stmts[id]; s != nil {
		return s, nil
	}
	s, _, err := c.db.PrepareFlags(statements[id], sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("prepare statement %d: %w", id, err)
	}
	c.stmts[id] = s
	return s, nil
}

// A query is one use of a prepared statement: bind from the left, then exec,
// or next until it is false and then done.
type query struct {
	s   *sqlite3.Stmt
	n   int // parameters bound so far
	err error
}

func (c *conn) query(id stmtID) query {
	s, err := c.stmt(id)
	return query{s: s, err: err}
}

// maxMade is how many statements of callers' choices a connection keeps.
const maxMade = 64

// dynamic returns a query whose text was made of a caller's choices. No other
// such query of this connection may be under way.
func (c *conn) dynamic(sql string) query {
	if s := c.made[sql]; s != nil {
		return query{s: s}
	}
	if len(c.made) >= maxMade {
		for _, s := range c.made {
			s.Close()
		}
		clear(c.made)
	}
	s, _, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return query{err: fmt.Errorf("prepare %s: %w", sql, err)}
	}
	c.made[sql] = s
	return query{s: s}
}

func (q *query) note(err error) {
	if q.err == nil {
		q.err = err
	}
}

func (q *query) text(v string) {
	if q.n++; q.err == nil {
		q.note(q.s.BindText(q.n, v))
	}
}

func (q *query) int(v int64) {
	if q.n++; q.err == nil {
		q.note(q.s.BindInt64(q.n, v))
	}
}

func (q *query) null() {
	if q.n++; q.err == nil {
		q.note(q.s.BindNull(q.n))
	}
}

// some binds a text, or NULL if it is empty.
func (q *query) some(v string) {
	if v == "" {
		q.null()
		return
	}
	q.text(v)
}

// time binds a time, or NULL if it is zero.
func (q *query) time(v hub.Time) {
	if v.IsZero() {
		q.null()
		return
	}
	q.text(v.String())
}

// instant binds a time of coordination, or NULL if it is zero.
func (q *query) instant(v hub.Instant) {
	if v.IsZero() {
		q.null()
		return
	}
	q.int(v.Micro())
}

// exec runs a statement that returns nothing.
func (q *query) exec() error {
	if q.err != nil {
		return q.err
	}
	return q.s.Exec()
}

// next moves to the next row.
func (q *query) next() bool { return q.err == nil && q.s.Step() }

// done ends the query and returns the first thing that went wrong. It may be
// called again.
func (q *query) done() error {
	if q.s != nil {
		q.note(q.s.Err()) // an interrupted Step is known to Err alone
		q.note(q.s.Reset())
	}
	return q.err
}

// exec runs a statement without parameters.
func (c *conn) exec(id stmtID) error {
	q := c.query(id)
	return q.exec()
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
