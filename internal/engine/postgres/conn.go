package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

// A conn is one connection with its prepared statements. It serves one goroutine at
// a time. Values travel as text: every column is text or a whole number.
//
// Statements that are run later are sent with the next one that is not, in one round
// trip. Their errors are those of that round trip, and end the transaction.
type conn struct {
	pg    *pgconn.PgConn
	ctx   context.Context // of the call at hand
	stmts []*stmt         // by their id
	made  map[string]*stmt
	named int  // statements prepared so far
	used  bool // by an earlier call, if it is one of the pool

	pending []use // to be run with the next statement
	changed int64 // rows that the last statement changed
	failed  error // ended the transaction
}

// A use is a statement with its parameters.
type use struct {
	name   string
	params [][]byte
}

// A result is what one use gave.
type result struct {
	rows [][][]byte
	tag  pgconn.CommandTag
}

// connect makes a connection. The settings keep each statement on the index that it
// is there for, and its plan.
func connect(ctx context.Context, config *pgconn.Config) (*conn, error) {
	pg, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return newConn(pg), nil
}

// newConn returns a connection without prepared statements.
func newConn(pg *pgconn.PgConn) *conn {
	return &conn{pg: pg, ctx: context.Background(), stmts: make([]*stmt, len(rows.Statements(rows.PostgreSQL))), made: map[string]*stmt{}}
}

func (c *conn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	c.pg.Close(ctx)
}

// lost reports whether the connection cannot be used any more.
func (c *conn) lost() bool { return c.pg.IsClosed() }

// reset forgets the transaction at hand.
func (c *conn) reset() { c.pending, c.failed = c.pending[:0], nil }

// run sends the pending statements and those given in one round trip and returns the
// results of the latter.
func (c *conn) run(uses ...use) ([]result, error) {
	if c.failed != nil {
		return nil, c.failed
	}
	if c.lost() {
		return nil, errors.New("the connection is closed")
	}
	results, err := c.send(append(c.pending, uses...))
	skip := len(c.pending)
	c.pending = c.pending[:0]
	if err != nil {
		c.failed = c.Refine(err)
		return nil, c.failed
	}
	return results[skip:], nil
}

func (c *conn) send(uses []use) (results []result, err error) {
	if len(uses) == 1 {
		r := c.pg.ExecPrepared(c.ctx, uses[0].name, uses[0].params, nil, nil).Read()
		return []result{{r.Rows, r.CommandTag}}, r.Err
	}

	// Several statements are sent together, so that they cost one round trip.
	p := c.pg.StartPipeline(c.ctx)
	for _, u := range uses {
		p.SendQueryPrepared(u.name, u.params, nil, nil)
	}
	if err := p.Sync(); err != nil {
		return nil, errors.Join(err, p.Close())
	}

	for err == nil {
		var got any
		if got, err = p.GetResults(); err != nil {
			break
		}
		if r, ok := got.(*pgconn.ResultReader); ok {
			read := r.Read()
			err = read.Err
			results = append(results, result{read.Rows, read.CommandTag})
			continue
		}
		break // the end of the pipeline
	}

	if closed := p.Close(); err == nil {
		err = closed
	}
	if err == nil && len(results) != len(uses) {
		err = fmt.Errorf("%d results of %d statements", len(results), len(uses))
	}
	return results, err
}

// prepare returns a prepared statement.
func (c *conn) prepare(sql string) (*stmt, error) {
	if c.failed != nil {
		return nil, c.failed
	}
	c.named++
	s := &stmt{c: c, name: "s" + strconv.Itoa(c.named)}
	text, oids := numbered(sql)
	if _, err := c.pg.Prepare(c.ctx, s.name, text, oids); err != nil {
		c.failed = c.Refine(fmt.Errorf("prepare %s: %w", text, err))
		return nil, c.failed
	}
	s.params = make([][]byte, len(oids))
	return s, nil
}

// Prepared implements rows.Conn.
func (c *conn) Prepared(id rows.StmtID) (rows.Stmt, error) {
	if s := c.stmts[id]; s != nil {
		return s, nil
	}
	s, err := c.prepare(rows.Statements(rows.PostgreSQL)[id])
	if err != nil {
		return nil, err
	}
	c.stmts[id] = s
	return s, nil
}

// maxMade is how many statements of callers' choices a connection keeps.
const maxMade = 256

// Made implements rows.Conn.
func (c *conn) Made(sql string) (rows.Stmt, error) {
	if s := c.made[sql]; s != nil {
		return s, nil
	}
	if len(c.made) >= maxMade {
		for _, s := range c.made {
			if err := c.pg.Deallocate(c.ctx, s.name); err != nil {
				return nil, err
			}
		}
		clear(c.made)
	}
	s, err := c.prepare(sql)
	if err != nil {
		return nil, err
	}
	c.made[sql] = s
	return s, nil
}

// Later implements rows.Conn.
func (c *conn) Later(s rows.Stmt) error {
	if c.failed != nil {
		return c.failed
	}
	st := s.(*stmt)
	c.pending = append(c.pending, use{st.name, slices.Clone(st.params)})
	return nil
}

// Changes implements rows.Conn.
func (c *conn) Changes() int64 { return c.changed }

// Match implements rows.Conn. Words hold no quote.
func (c *conn) Match(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = "'" + lexeme(w) + "'"
	}
	return strings.Join(all, " & ")
}

// Dialect implements rows.Conn.
func (c *conn) Dialect() rows.Dialect { return rows.PostgreSQL }

// Refine implements rows.Conn.
func (c *conn) Refine(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*hub.Error](err); ok {
		return err
	}
	if c.ctx.Err() != nil {
		return rows.ErrInterrupted
	}
	return engineError(err)
}

// A stmt is a prepared statement with the values bound to it.
type stmt struct {
	c      *conn
	name   string
	params [][]byte

	ran  bool
	rows [][][]byte
	at   int // the row that Step moved to
	err  error
}

func (s *stmt) bind(param int, v []byte) error {
	if param > len(s.params) {
		return fmt.Errorf("a statement has %d parameters, not %d", len(s.params), param)
	}
	s.params[param-1] = v
	return nil
}

// BindText implements rows.Stmt.
func (s *stmt) BindText(param int, v string) error { return s.bind(param, []byte(v)) }

// BindInt64 implements rows.Stmt.
func (s *stmt) BindInt64(param int, v int64) error {
	return s.bind(param, strconv.AppendInt(nil, v, 10))
}

// BindNull implements rows.Stmt.
func (s *stmt) BindNull(param int) error { return s.bind(param, nil) }

// Exec implements rows.Stmt.
func (s *stmt) Exec() error {
	got, err := s.c.run(use{s.name, s.params})
	if err != nil {
		return err
	}
	s.c.changed = got[0].tag.RowsAffected()
	return nil
}

// Step implements rows.Stmt. The first one reads all rows: every list is bounded.
func (s *stmt) Step() bool {
	if !s.ran {
		s.ran, s.at = true, -1
		got, err := s.c.run(use{s.name, s.params})
		if err != nil {
			s.err = err
			return false
		}
		s.rows = got[0].rows
		s.c.changed = got[0].tag.RowsAffected()
	}
	if s.err != nil || s.at+1 >= len(s.rows) {
		return false
	}
	s.at++
	return true
}

// Err implements rows.Stmt.
func (s *stmt) Err() error { return s.err }

// Reset implements rows.Stmt.
func (s *stmt) Reset() error {
	s.ran = false
	s.rows = nil
	s.err = nil
	return nil
}

// ColumnText implements rows.Stmt.
func (s *stmt) ColumnText(col int) string { return string(s.rows[s.at][col]) }

// ColumnRawText implements rows.Stmt.
func (s *stmt) ColumnRawText(col int) []byte { return s.rows[s.at][col] }

// ColumnInt64 implements rows.Stmt. NULL is 0, as on SQLite.
func (s *stmt) ColumnInt64(col int) int64 {
	n, _ := strconv.ParseInt(string(s.rows[s.at][col]), 10, 64)
	return n
}

// numbered returns a statement with its parameters written as PostgreSQL has them, $1 for
// ?1 and for the first ?, and a type for each parameter: 0 for those whose type follows from
// their use, text for those that the statement does not use. Quoted text stays as it is. It
// runs once for each statement that a connection prepares.
func numbered(sql string) (string, []uint32) {
	const textOID = 25
	var out strings.Builder
	var oids []uint32
	next, quoted := 0, false
	for i := 0; i < len(sql); i++ {
		switch c := sql[i]; {
		case c == '\'':
			quoted = !quoted
			fallthrough
		case quoted || c != '?':
			out.WriteByte(c)
			continue
		}

		// The number behind a question mark names its parameter; without a number it is the next
		// one.
		digits := i + 1
		for digits < len(sql) && sql[digits] >= '0' && sql[digits] <= '9' {
			digits++
		}
		n, err := strconv.Atoi(sql[i+1 : digits])
		if err != nil { // without a number: the next one
			next++
			n = next
		}
		i = digits - 1

		for len(oids) < n {
			oids = append(oids, textOID)
		}
		oids[n-1] = 0
		fmt.Fprintf(&out, "$%d", n)
	}
	return out.String(), oids
}
