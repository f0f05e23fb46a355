package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-agents/parley/hub"
)

// Fault reports why the store cannot be changed, or nil. It tries a change only if the
// newest one failed, so it costs nothing while all is well.
func (s *Store) Fault(ctx context.Context) error {
	if s.fault.Load() == nil {
		return nil
	}
	return s.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutMeta("fault.tried", hub.At(time.Now()).String()) })
}

// EmptyLog frees the room of rows that were replaced, so that the server writes over
// them. Its write-ahead log and the archives of that are the server's.
func (s *Store) EmptyLog(ctx context.Context) error {
	return s.borrow(ctx, "postgres.EmptyLog", func(r *reader) error {
		_, err := r.c.pg.Exec(ctx, `VACUUM messages, message_meta, message_text`).ReadAll()
		return r.c.Refine(err)
	})
}

// definitions lists everything of a schema with its definition, without the schema's
// name.
const definitions = `
	SELECT 'table ' || c.relname, string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END, ', ' ORDER BY a.attnum)
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace GROUP BY c.relname
	UNION ALL SELECT 'index ' || indexname, replace(indexdef, quote_ident(schemaname) || '.', '') FROM pg_indexes WHERE schemaname = current_schema()
	UNION ALL SELECT 'trigger ' || t.tgname, replace(pg_get_triggerdef(t.oid), quote_ident(current_schema()) || '.', '') || ' ' || t.tgenabled::text
		FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace
	UNION ALL SELECT 'constraint ' || c.relname || '.' || k.conname, replace(pg_get_constraintdef(k.oid), quote_ident(current_schema()) || '.', '')
		FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid WHERE c.relnamespace = current_schema()::regnamespace
	UNION ALL SELECT 'function ' || proname, prosrc FROM pg_proc WHERE pronamespace = current_schema()::regnamespace`

// SchemaDrift compares tables, indexes, triggers, constraints and functions with those
// that this version makes, and returns a sentence for each that is missing, was changed
// or was added. It makes them in a schema of its own, in a transaction that it discards.
func (s *Store) SchemaDrift(ctx context.Context) (drift []string, err error) {
	err = s.borrow(ctx, "postgres.SchemaDrift", func(r *reader) error {
		drift, err = compareSchema(ctx, r.px)
		_, end := r.c.pg.Exec(context.WithoutCancel(ctx), `ROLLBACK`).ReadAll()
		return r.c.Refine(errors.Join(err, end))
	})
	return drift, err
}

func compareSchema(ctx context.Context, px *pgx.Conn) ([]string, error) {
	pg := px.PgConn()
	read := func() (map[string]string, error) {
		got, err := px.Query(ctx, definitions)
		if err != nil {
			return nil, err
		}
		all := map[string]string{}
		var name, text string
		_, err = pgx.ForEachRow(got, []any{&name, &text}, func() error {
			all[name] = text
			return nil
		})
		return all, err
	}

	// The caller rolls this transaction back, and its schema with it.
	if _, err := pg.Exec(ctx, `BEGIN`).ReadAll(); err != nil {
		return nil, err
	}
	have, err := read()
	if err != nil {
		return nil, err
	}

	// The migrations of this version make the tables once more, in a schema of their own.
	var own strings.Builder
	own.WriteString(`CREATE SCHEMA parley_compare; SET LOCAL search_path = parley_compare; ` + versionTable)
	for _, m := range migrations() {
		own.WriteString(";" + m.sql)
	}
	own.WriteString(";" + unversioned())
	if _, err := pg.Exec(ctx, own.String()).ReadAll(); err != nil {
		return nil, err
	}

	want, err := read()
	if err != nil {
		return nil, err
	}

	var drift []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch text, ok := have[name]; {
		case !ok:
			drift = append(drift, fmt.Sprintf("the %s is missing", name))
		case text != want[name]:
			drift = append(drift, fmt.Sprintf("the %s was changed", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[name]; !ok {
			drift = append(drift, fmt.Sprintf("the %s was added", name))
		}
	}
	return drift, nil
}
