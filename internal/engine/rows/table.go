package rows

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A codec binds the fields of a noun to the parameters of a statement, or reads
// them from the columns of a row: one list of fields serves both, so that they
// cannot disagree. A field is named by the kind of its column.
type codec struct {
	q   *query // bound to; nil to read
	s   Stmt
	n   int // columns read so far
	err error
	r   *reader
}

// text is a column that is never NULL.
func (c *codec) text(p *string) {
	if c.q != nil {
		c.q.text(*p)
		return
	}
	*p = c.s.ColumnText(c.n)
	c.n++
}

// optional is a text whose empty value is stored as NULL.
func (c *codec) optional(p *string) {
	if c.q != nil {
		c.q.some(*p)
		return
	}
	*p = c.s.ColumnText(c.n)
	c.n++
}

func (c *codec) int64(p *int64) {
	if c.q != nil {
		c.q.int(*p)
		return
	}
	*p = c.s.ColumnInt64(c.n)
	c.n++
}

func (c *codec) int(p *int) {
	n := int64(*p)
	c.int64(&n)
	*p = int(n)
}

func (c *codec) bool(p *bool) {
	n := boolInt(*p)
	c.int64(&n)
	*p = n != 0
}

// time is stored as text; the zero time as NULL.
func (c *codec) time(p *hub.Time) {
	if c.q != nil {
		c.q.time(*p)
		return
	}
	*p = columnTime(c.s, c.n)
	c.n++
}

// stamp is a time whose column is never NULL.
func (c *codec) stamp(p *hub.Time) {
	if c.q != nil {
		c.q.text(p.String())
		return
	}
	c.time(p)
}

// moment is an instant whose column is never NULL.
func (c *codec) moment(p *coord.Instant) {
	if c.q != nil {
		c.q.int(p.Micro())
		return
	}
	c.instant(p)
}

// instant is stored as microseconds; the zero instant as NULL.
func (c *codec) instant(p *coord.Instant) {
	if c.q != nil {
		c.q.instant(*p)
		return
	}
	*p = coord.InstantMicro(c.s.ColumnInt64(c.n))
	c.n++
}

// json is kept byte for byte; nil is stored as NULL.
func (c *codec) json(p *json.RawMessage) {
	if c.q != nil {
		c.q.some(string(*p))
		return
	}
	*p = columnJSON(c.s, c.n)
	c.n++
}

// encoded is a value that is stored as JSON, or as NULL if it is empty.
func (c *codec) encoded(p any, empty bool) {
	if c.q != nil {
		text := ""
		if !empty {
			var err error
			text, err = encodeJSON(p)
			c.q.note(err)
		}
		c.q.some(text)
		return
	}
	if b := c.s.ColumnRawText(c.n); len(b) > 0 && c.err == nil {
		c.err = json.Unmarshal(b, p)
	}
	c.n++
}

// A table stores a noun in rows of its own.
type table[T any] struct {
	name    string // of the table
	noun    string // in errors
	columns []string
	fields  func(*codec, *T) // in the order of columns
	insert  StmtID

	// computed has the expressions of columns that are computed when rows are read, by
	// their names in columns; nil if there are none.
	computed map[string]func(Dialect) string
}

// newTable returns a table with the given columns, separated by ", ".
func newTable[T any](name, noun, columns string, fields func(*codec, *T)) *table[T] {
	t := &table[T]{name: name, noun: noun, columns: strings.Split(columns, ", "), fields: fields}
	t.insert = statement(`INSERT INTO ` + name + ` (` + columns + `) VALUES (?` + strings.Repeat(`, ?`, len(t.columns)-1) + `) ON CONFLICT DO NOTHING`)
	return t
}

// query returns a statement that selects rows; rest follows the table's name.
func (t *table[T]) query(rest string) StmtID {
	return statementIn(func(d Dialect) string { return t.selection(d) + rest })
}

// selection is the beginning of a statement that selects rows, up to the table's name.
func (t *table[T]) selection(d Dialect) string {
	list := slices.Clone(t.columns)
	for i, name := range list {
		if computed := t.computed[name]; computed != nil {
			list[i] = computed(d)
		}
	}
	return `SELECT ` + strings.Join(list, ", ") + ` FROM ` + t.name + ` `
}

// update returns a statement that replaces the columns of a row from the given
// one on. The row is found by the first columns, as many as keys says. more
// follows in the condition; its parameters come after those of the columns.
func (t *table[T]) update(keys int, from, more string) StmtID {
	var set, where []string
	for i, name := range t.columns {
		term := name + ` = ?` + strconv.Itoa(i+1)
		if i < keys {
			where = append(where, term)
		}
		if name == from || len(set) > 0 {
			set = append(set, term)
		}
	}
	return statement(`UPDATE ` + t.name + ` SET ` + strings.Join(set, ", ") + ` WHERE ` + strings.Join(where, " AND ") + more)
}

func (t *table[T]) op() string { return "store." + t.name }

// all returns the rows of a query.
func (t *table[T]) all(r *reader, id StmtID, args ...any) ([]T, error) {
	q := r.query(id)
	q.bind(args...)
	return t.rows(r, q)
}

// filtered returns the rows that a filter lets pass; rest follows its
// conditions, and limit is the value of the last parameter.
func (t *table[T]) filtered(r *reader, f filter, rest string, limit int) ([]T, error) {
	q := r.dynamic(t.selection(r.c.Dialect()) + f.where() + ` ` + rest + ` LIMIT ?`)
	q.bind(f.args...)
	q.int(int64(max(limit, 0)))
	return t.rows(r, q)
}

// rows reads the rows of a query that is bound.
func (t *table[T]) rows(r *reader, q query) ([]T, error) {
	var all []T
	for q.next() {
		var v T
		c := codec{s: q.s, r: r}
		t.fields(&c, &v)
		if c.err != nil {
			q.note(hub.Errorf(hub.CodeDegraded, t.op(), "a %s is broken: %v", t.noun, c.err))
			break
		}
		all = append(all, v)
	}
	return all, engineError(t.op(), q.done())
}

// one returns the row of a query. name identifies it in the error.
func (t *table[T]) one(r *reader, name string, id StmtID, args ...any) (v T, err error) {
	all, err := t.all(r, id, args...)
	if err == nil && len(all) == 0 {
		err = notFound(t.op(), t.noun, name)
	}
	if err != nil {
		return v, err
	}
	return all[0], nil
}

// add inserts a row. It reports CodeConflict when a row with that name, or
// another unique value of v, exists.
func (t *table[T]) add(w *tx, name string, v *T) error {
	n, err := t.write(w, t.insert, v)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, t.op(), "%s %s already exists", t.noun, name)
	}
	return err
}

// put runs a statement of update and reports CodeConflict when it changes
// nothing: the row is not as the caller believes, or does not exist.
func (t *table[T]) put(w *tx, name string, id StmtID, v *T, args ...any) error {
	n, err := t.write(w, id, v, args...)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, t.op(), "%s %s has changed in the meantime or does not exist", t.noun, name)
	}
	return err
}

// write runs a statement with all columns of v as its first parameters.
func (t *table[T]) write(w *tx, id StmtID, v *T, args ...any) (int64, error) {
	q := w.query(id)
	c := codec{q: &q, r: &w.reader}
	t.fields(&c, v)
	q.bind(args...)
	return w.change(t.op(), &q)
}

// compareAndSet runs an update whose condition names the state that the caller
// believes in, and reports CodeConflict when it changes nothing.
func (t *tx) compareAndSet(noun, name string, id StmtID, args ...any) error {
	op := "store.Put " + noun
	n, err := t.run(op, id, args...)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "%s %s has changed in the meantime or does not exist", noun, name)
	}
	return err
}

// run runs a statement that writes and returns how many rows it changed.
func (t *tx) run(op string, id StmtID, args ...any) (int64, error) {
	q := t.query(id)
	q.bind(args...)
	return t.change(op, &q)
}

// A filter gathers the conditions of a query that is made of a caller's choices,
// with their values in the order of their parameters.
type filter struct {
	conditions []string
	args       []any
}

// add adds a condition with a parameter ? for each value.
func (f *filter) add(condition string, args ...any) {
	f.conditions = append(f.conditions, condition)
	f.args = append(f.args, args...)
}

// equal restricts a column unless the value is empty.
func (f *filter) equal(column, value string) {
	if value != "" {
		f.add(column+" = ?", value)
	}
}

// where returns the conditions, each in parentheses.
func (f *filter) where() string {
	if len(f.conditions) == 0 {
		return "WHERE 1 = 1"
	}
	return "WHERE (" + strings.Join(f.conditions, ") AND (") + ")"
}
