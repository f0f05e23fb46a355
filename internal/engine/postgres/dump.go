package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

// sequenceTable is the part of a dump with the last number that each of its tables gave.
// SQLite keeps these in a table, PostgreSQL in sequences.
const sequenceTable = "sqlite_sequence"

// only lists the columns that this engine alone has.
var only = map[string]string{"agent_keys": "rowid", "roots": "machine"}

// integer is the type of the columns that hold whole numbers.
const integer = 20

// Dump calls begin with the version of the schema, and then emit with every row of the
// database as it is now, as Dump of package sqlite does. Of the folders it emits those of
// this machine.
func (s *Store) Dump(ctx context.Context, begin func(schema int) error, emit func(table string, row []byte) error, restricted bool) error {
	const op = "postgres.Dump"
	return s.read(ctx, op, func(r *reader) error {
		if err := begin(Schema()); err != nil {
			return err
		}
		for _, t := range rows.DumpTables {
			if err := r.dump(op, t, emit, restricted); err != nil {
				return err
			}
		}
		return nil
	})
}

// dump emits the rows of one table. An error of emit is returned unchanged.
func (r *reader) dump(op string, t rows.DumpTable, emit func(table string, row []byte) error, restricted bool) error {
	// The sequence of PostgreSQL is written as the row that SQLite keeps for it.
	var sql string
	var params [][]byte
	if t.Name == sequenceTable {
		sql = `SELECT 'delivery_log' AS name, last_value AS seq FROM delivery_log_id_seq WHERE is_called`
	} else {
		columns, err := columnsOf(r.c.ctx, r.c.pg, t.Name)
		if err != nil {
			return r.fail(err)
		}
		for i, column := range columns {
			if other := rows.Withheld(t.Name, column, `(verification_json::json ->> 'package_hash')`); other != "" && !restricted {
				columns[i] = other + " AS " + column
			}
		}

		sql = `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + t.Name
		switch {
		case t.Name == "roots":
			sql, params = sql+` WHERE machine = $1`, [][]byte{[]byte(r.machine)}
		case t.Where != "":
			sql += ` WHERE ` + t.Where
		}
		sql += ` ORDER BY ` + t.Order
	}

	got := r.c.pg.ExecParams(r.c.ctx, sql, params, nil, nil, nil)
	var names []string
	var row bytes.Buffer
	for got.NextRow() {
		fields, values := got.FieldDescriptions(), got.Values()
		if names == nil {
			for _, f := range fields {
				names = append(names, f.Name)
			}
		}

		row.Reset()
		rows.EncodeRow(&row, names, func(i int) (any, bool) {
			switch {
			case values[i] == nil:
				return nil, true
			case fields[i].DataTypeOID == integer:
				return number(values[i]), true
			}
			return string(values[i]), true
		})

		if err := emit(t.Name, row.Bytes()); err != nil {
			r.c.failed = err // ends the transaction with the connection
			return err
		}
	}

	_, err := got.Close()
	return r.fail(err)
}

// fail keeps an error of the connection, which ends the transaction.
func (r *reader) fail(err error) error {
	if err == nil {
		return nil
	}
	r.c.failed = r.c.Refine(err)
	return r.c.failed
}

// columnsOf returns the columns of a table that a dump has, in their order.
func columnsOf(ctx context.Context, pg *pgconn.PgConn, table string) (out []string, err error) {
	got := pg.ExecParams(ctx, `SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, [][]byte{[]byte(table)}, nil, nil, nil).Read()
	for _, row := range got.Rows {
		if name := string(row[0]); name != only[table] {
			out = append(out, name)
		}
	}
	return out, got.Err
}

// Load fills an empty database with the rows of a dump, which next returns one after the
// other and then io.EOF, in one transaction. It reports CodeConflict when the database has
// a hub already or when another version made the dump, and CodeInvalid when a row does not
// fit.
func Load(ctx context.Context, address string, opts *Options, schema int, next func() (table string, row []byte, err error)) error {
	const op = "postgres.Load"
	if schema != Schema() {
		return hub.Errorf(hub.CodeConflict, op, "the rows have schema %d, but this parley uses %d", schema, Schema()).
			WithHint("import them into a hub on SQLite, start that hub once, and copy it")
	}
	s, err := Open(ctx, address, opts) // brings the tables up to date
	if err != nil {
		return err
	}
	err = s.load(ctx, next)
	if err == nil {
		err = s.fillWords(ctx)
	}
	if err == nil {
		_, tx := s.conn.Tx()
		err = s.writer.Alone(tx.FillSums)
	}
	return named(op, errors.Join(err, s.Close()))
}

// load fills the tables.
func (s *Store) load(ctx context.Context, next func() (string, []byte, error)) error {
	return s.borrow(ctx, "postgres.Load", func(r *reader) error {
		pg := r.c.pg
		exec := func(sql string) error {
			_, err := pg.Exec(ctx, sql).ReadAll()
			return r.fail(err)
		}
		// No hub can begin to write before the commit.
		if err := exec(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE journal IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}

		used := pg.ExecParams(ctx, `SELECT 1 FROM agents UNION ALL SELECT 1 FROM journal LIMIT 1`, nil, nil, nil, nil).Read()
		if used.Err != nil {
			return r.fail(used.Err)
		}
		if len(used.Rows) > 0 {
			r.c.failed = errors.New("the database is in use")
			return hub.Errorf(hub.CodeConflict, "", "the database already has a hub").WithHint("use an empty database")
		}

		in := &copying{pg: pg, machine: r.machine, next: next}
		for in.advance(); in.err == nil; {
			if err := in.fill(ctx); err != nil {
				return r.fail(err)
			}
		}
		if in.err != io.EOF {
			r.c.failed = in.err
			return in.err
		}

		// The words of the messages are indexed after the load, from the beginning.
		if err := exec(`INSERT INTO cursors (consumer, seq) VALUES ('` + wordCursor + `', 0)`); err != nil {
			return err
		}
		return exec(`COMMIT`)
	})
}

// A copying reads the rows of one table after the other, as COPY takes them.
type copying struct {
	pg      *pgconn.PgConn
	machine string
	next    func() (table string, row []byte, err error)

	table   string // of the row at hand
	row     []byte // encoded for COPY
	at      int    // bytes of row that were read
	columns []string
	filling string // the table that is being filled
	err     error  // of next, or of a row that does not fit
	rows    int
}

// advance takes the next row.
func (c *copying) advance() {
	var raw []byte
	if c.table, raw, c.err = c.next(); c.err != nil {
		return
	}
	c.row, c.at = append(c.row[:0], raw...), 0
}

// fill copies the rows of the table at hand.
func (c *copying) fill(ctx context.Context) error {
	c.filling, c.rows = c.table, 0
	if c.filling == sequenceTable {
		return c.setSequences(ctx)
	}
	i := slices.IndexFunc(rows.DumpTables, func(t rows.DumpTable) bool { return t.Name == c.filling })
	if i < 0 {
		c.err = hub.Errorf(hub.CodeInvalid, "", "no table named %q", c.filling)
		return nil
	}

	var err error
	if c.columns, err = columnsOf(ctx, c.pg, c.filling); err != nil {
		return err
	}

	// The dump leaves the machine of a root out; it becomes this machine.
	names := c.columns
	if c.filling == "roots" {
		names = append(slices.Clone(names), only["roots"])
	}
	if rows.DumpTables[i].Fresh {
		if _, err := c.pg.Exec(ctx, `DELETE FROM `+c.filling).ReadAll(); err != nil {
			return err
		}
	}

	c.encode()
	_, err = c.pg.CopyFrom(ctx, c, `COPY `+c.filling+` (`+strings.Join(names, ", ")+`) FROM STDIN`)
	if err != nil && (c.err == nil || c.err == io.EOF) {
		c.err = hub.Errorf(hub.CodeInvalid, "", "the rows of %s do not fit: %v", c.filling, engineError(err))
	}
	return nil
}

// encode turns the row at hand into a line of COPY.
func (c *copying) encode() {
	c.rows++
	values, err := rows.DecodeRow(c.columns, c.row)
	if err != nil {
		c.err = hub.Errorf(hub.CodeInvalid, "", "row %d of %s: %v", c.rows, c.filling, err)
		return
	}
	if c.filling == "roots" {
		values = append(values, c.machine)
	}
	c.row, c.at = c.row[:0], 0
	for i, v := range values {
		if i > 0 {
			c.row = append(c.row, '\t')
		}
		switch v := v.(type) {
		case nil:
			c.row = append(c.row, '\\', 'N')
		case int64:
			c.row = append(c.row, digits(v)...)
		case string:
			c.row = append(c.row, copyText.Replace(v)...)
		}
	}
	c.row = append(c.row, '\n')
}

// copyText escapes text for COPY.
var copyText = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

// Read implements io.Reader over the rows of the table that is being filled.
func (c *copying) Read(p []byte) (int, error) {
	if c.err != nil && c.err != io.EOF {
		return 0, c.err
	}
	if c.err == io.EOF || c.table != c.filling {
		return 0, io.EOF
	}
	n := copy(p, c.row[c.at:])
	if c.at += n; c.at == len(c.row) {
		if c.advance(); c.err == nil && c.table == c.filling {
			c.encode()
		}
	}
	return n, nil
}

// setSequences sets the sequences as the rows at hand say.
func (c *copying) setSequences(ctx context.Context) error {
	for c.err == nil && c.table == sequenceTable {
		values, err := rows.DecodeRow([]string{"name", "seq"}, c.row)
		if err != nil {
			c.err = hub.Errorf(hub.CodeInvalid, "", "%s: %v", sequenceTable, err)
			return nil
		}
		name, ok := values[0].(string)
		last, isNumber := values[1].(int64)
		if !ok || !isNumber || name != "delivery_log" {
			c.err = hub.Errorf(hub.CodeInvalid, "", "%s: there is no sequence %v with the number %v", sequenceTable, values[0], values[1])
			return nil
		}
		if got := c.pg.ExecParams(ctx, `SELECT setval('delivery_log_id_seq', $1)`, [][]byte{digits(last)}, nil, nil, nil).Read(); got.Err != nil {
			return fmt.Errorf("set the sequence of %s: %w", name, got.Err)
		}
		c.advance()
	}
	return nil
}

// wordCursor is there while messages that were loaded are not all in the index of words:
// the number of the last one that is.
const wordCursor = "postgres.words"

// wordBatch is the number of messages that are indexed in one transaction.
const wordBatch = 500

var (
	unindexed = rows.Statement(`SELECT ` + rows.MessageColumns + ` FROM messages AS m JOIN message_meta AS d ON d.message_id = m.id WHERE d.seq > ?1 ORDER BY d.seq LIMIT ?2`)
	forget    = rows.Statement(`DELETE FROM cursors WHERE consumer = ?1`)
)

// fillWords indexes the words of messages that were loaded. It goes on where it was
// stopped.
func (s *Store) fillWords(ctx context.Context) error {
	for more := true; more; {
		err := s.Update(ctx, hub.SurvivesKill, func(t hub.Tx) (err error) {
			more, err = t.(*tx).indexLoaded()
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// indexLoaded indexes some messages and reports whether there are more.
func (t *tx) indexLoaded() (more bool, err error) {
	const op = "postgres.IndexText"
	last, err := t.Cursor(wordCursor)
	if err != nil {
		return false, err
	}

	type message struct {
		hub.Message
		seq int64
	}
	var batch []message
	q := t.Ask(unindexed, last, wordBatch)
	for q.Next() {
		m, seq, err := t.ScanMessage(q.Row())
		q.Note(err)
		batch = append(batch, message{m, seq})
	}
	if err := q.Done(); err != nil {
		return false, named(op, err)
	}

	// A message without parties is not indexed.
	for _, m := range batch {
		parties, err := t.Parties(m.ID)
		if err == nil {
			err = t.Filed(m.seq, &m.Message, parties)
		}
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return false, err
		}
	}

	if len(batch) < wordBatch {
		_, err := t.Change(op, forget, wordCursor)
		return false, err
	}
	return true, t.PutCursor(wordCursor, batch[len(batch)-1].seq)
}
