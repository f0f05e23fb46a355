// Package rows stores the nouns of a hub in the tables of a relational database,
// for every engine. It has the statements, the fields of each noun, the queries
// and the writer that lets Updates share transactions. An engine has the
// connections, the schema, the index of words, and the other parts that only it can do.
//
// A statement is one text for all engines where that can be, and a text for each Dialect
// where they differ. Statements avoid SQL that the engines run differently: a row that is
// taken is seen by the number of rows changed, never by an error, because an error ends a
// transaction on PostgreSQL.
//
// dialect.go has the differences between the engines, table.go describes how rows are read and written, search.go the walks of a
// query, sum.go the sums of projects, writer.go the group commit.
package rows

import (
	"errors"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A Conn is a connection to a database, in a transaction. It serves one goroutine
// at a time.
type Conn interface {
	// Prepared returns a declared statement, and Made one whose text was made of a
	// caller's choices; no other use of the same statement may be under way.
	Prepared(id StmtID) (Stmt, error)
	Made(sql string) (Stmt, error)
	// Later runs a statement that writes, now or before the next one that is not run
	// later.
	Later(s Stmt) error
	// Changes returns how many rows the last Exec changed.
	Changes() int64
	// Refine turns an error of the driver into one of the hub's. The driver's own
	// error goes no further; only its text does.
	Refine(err error) error
	// Match returns the search expression for messages that hold all words.
	Match(words []string) string
	// Dialect returns the SQL that the connection takes.
	Dialect() Dialect
}

// A Stmt is a prepared statement: bind its parameters, counted from 1, then Exec, or
// Step until it is false. Columns are counted from 0.
type Stmt interface {
	BindText(param int, v string) error
	BindInt64(param int, v int64) error
	BindNull(param int) error
	Exec() error
	Step() bool
	Err() error   // that ended Step
	Reset() error // ends the use
	ColumnText(col int) string
	ColumnRawText(col int) []byte // good until the next Step
	ColumnInt64(col int) int64
}

// ErrInterrupted ends a read whose context has ended.
var ErrInterrupted = errors.New("interrupted")

// engineError gives an error the name of the operation that failed.
func engineError(op string, err error) error {
	if err == nil || errors.Is(err, ErrInterrupted) {
		return err
	}
	if known, ok := errors.AsType[*hub.Error](err); ok {
		if known.Op == "" {
			known.Op = op
		}
		return err
	}
	return hub.Errorf(hub.CodeInternal, op, "%v", err)
}

// notFound returns the error of a read whose row does not exist.
func notFound(op, noun, name string) error {
	return hub.Errorf(hub.CodeNotFound, op, "no %s %q", noun, name)
}

// A query is one use of a prepared statement: bind from the left, then exec,
// or next until it is false and then done.
type query struct {
	s   Stmt
	c   Conn
	n   int // parameters bound so far
	err error
}

// A Query is a query for the engines' own statements.
type Query = query

// Ask returns a query of an engine's own statement with its parameters bound.
func (r *reader) Ask(id StmtID, args ...any) Query {
	q := r.query(id)
	q.bind(args...)
	return q
}

// Next moves to the next row. Row has its columns.
func (q *query) Next() bool { return q.next() }

// Row returns the row that Next moved to.
func (q *query) Row() Stmt { return q.s }

// Note keeps the first error; Done returns it.
func (q *query) Note(err error) { q.note(err) }

// Done ends the query and returns the first thing that went wrong.
func (q *query) Done() error { return q.done() }

// Exec runs a statement that returns nothing.
func (q *query) Exec() error { return q.exec() }

func (r *reader) query(id StmtID) query {
	s, err := r.c.Prepared(id)
	return query{s: s, c: r.c, err: err}
}

// dynamic returns a query whose text was made of a caller's choices. No other
// such query of this connection may be under way.
func (r *reader) dynamic(sql string) query {
	s, err := r.c.Made(sql)
	return query{s: s, c: r.c, err: err}
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
func (q *query) instant(v coord.Instant) {
	if v.IsZero() {
		q.null()
		return
	}
	q.int(v.Micro())
}

// A null is a text whose empty value is bound as NULL.
type null string

// orNull returns a text that is NULL if it is empty.
func orNull[S ~string](s S) null { return null(s) }

// bind binds values to the next parameters: text, numbers, times (the zero time
// as NULL), and nil.
func (q *query) bind(args ...any) {
	for _, a := range args {
		switch v := a.(type) {
		case nil:
			q.null()
		case string:
			q.text(v)
		case null:
			q.some(string(v))
		case int:
			q.int(int64(v))
		case int64:
			q.int(v)
		case bool:
			q.int(boolInt(v))
		case hub.Time:
			q.time(v)
		case coord.Instant:
			q.instant(v)
		default:
			q.note(fmt.Errorf("a %T cannot be bound", a))
		}
	}
}

// exec runs a statement that returns nothing.
func (q *query) exec() error {
	if q.err == nil {
		q.note(q.s.Exec())
	}
	return q.refined()
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
	return q.refined()
}

func (q *query) refined() error {
	if q.err == nil {
		return nil
	}
	return q.c.Refine(q.err)
}
