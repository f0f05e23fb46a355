package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
)

// A dumpTable is one part of a dump.
type dumpTable struct {
	name  string
	order string // of its rows
	where string // which of them; all if empty
	fresh bool   // a new database has rows of its own here, which give way
}

// dumpTables are the tables of a dump, each after those that it refers to. The
// index of words with its cursor and the sums are not among them: they follow
// from the messages and projects.
var dumpTables = []dumpTable{
	{name: "acp_meta", order: "key", fresh: true},
	{name: "agents", order: "id"},
	{name: "agent_keys", order: "created_at, rowid"},
	{name: "messages", order: "id"},
	{name: "message_meta", order: "seq"},
	{name: "message_party", order: "agent, seq"},
	{name: "delivery_log", order: "id"},
	{name: "processed", order: "message_id, recipient"},
	{name: "receipts", order: "actor, key"},
	{name: "session_marks", order: "agent, session"},
	{name: "handoffs", order: "id"},
	{name: "handoff_meta", order: "handoff_id"},
	{name: "handoff_history", order: "handoff_id, n"},
	{name: "short_ids", order: "kind, n"},
	{name: "artifact_readers", order: "sha256, agent"},
	{name: "runs", order: "id"},
	{name: "projects", order: "id"},
	{name: "contracts", order: "project, id"},
	{name: "contract_versions", order: "project, contract, version, sha256"},
	{name: "packets", order: "project, id"},
	{name: "changes", order: "seq"},
	{name: "file_requests", order: "project, id"},
	{name: "peers", order: "aid"},
	{name: "outboxes", order: "peer"},
	{name: "dead_letters", order: "id"},
	{name: "invites", order: "id"},
	{name: "tokens", order: "id"},
	{name: "roots", order: "path"},
	{name: "claims", order: "item"},
	{name: "deliberations", order: "id"},
	{name: "decisions", order: "id"},
	{name: "teams", order: "id"},
	{name: "team_members", order: "team, n"},
	{name: "team_tasks", order: "n"},
	{name: "team_held", order: "id"},
	{name: "team_artifacts", order: "team, name"},
	{name: "team_versions", order: "team, name, n"},
	{name: "team_conflicts", order: "team, name, n"},
	{name: "journal_archives", order: "seq"},
	{name: "journal", order: "seq"},
	{name: "cursors", order: "consumer", where: "consumer <> '" + wordCursor + "'"},
	{name: "sqlite_sequence", order: "name", fresh: true},
}

// withheld replaces columns of restricted handoffs in a dump, by table and
// column. A handoff is restricted unless handoff_meta says that it is not.
var withheld = map[string]map[string]string{
	"handoffs": {
		"title":  withholdFrom("id") + `'restricted' ELSE title END`,
		"reason": withholdFrom("id") + `'restricted' ELSE reason END`,
		"package_json": withholdFrom("id") + `json_object('restricted', json('true'), 'package_hash', verification_json ->> 'package_hash')
			ELSE package_json END`,
		"provenance_json":  withholdFrom("id") + `'{}' ELSE provenance_json END`,
		"resolution_notes": withholdFrom("id") + `NULL ELSE resolution_notes END`,
	},
	"handoff_history": {
		"note":        withholdFrom("handoff_id") + `NULL ELSE note END`,
		"checks_json": withholdFrom("handoff_id") + `NULL ELSE checks_json END`,
	},
	"runs": {
		"task":                withholdFrom("handoff_id") + `'restricted' ELSE task END`,
		"report_json":         withholdFrom("handoff_id") + `NULL ELSE report_json END`,
		"contradictions_json": withholdFrom("handoff_id") + `NULL ELSE contradictions_json END`,
		"evidence_json":       withholdFrom("handoff_id") + `NULL ELSE evidence_json END`,
	},
}

func withholdFrom(id string) string {
	return `CASE WHEN ` + id + ` NOT IN (SELECT handoff_id FROM handoff_meta WHERE restricted = 0) THEN `
}

// DumpOptions are the options of Dump. The zero value works.
type DumpOptions struct {
	Restricted bool // include the content of restricted handoffs
}

// Dump calls begin with the version of the schema, and then emit with every row
// of the database as it is now. A row is a JSON object with the columns in the
// order of the table; it is good until emit returns. The same database gives the
// same rows in the same order, whatever is written meanwhile.
func (s *Store) Dump(ctx context.Context, begin func(schema int) error, emit func(table string, row []byte) error, opts DumpOptions) error {
	const op = "sqlite.Dump"
	return s.read(ctx, op, func(r *reader) error {
		version, err := r.c.number(`PRAGMA user_version`)
		if err != nil {
			return engineError(op, err)
		}
		if err := begin(int(version)); err != nil {
			return err
		}
		for _, t := range dumpTables {
			if err := r.c.dump(op, t, emit, opts); err != nil {
				return err
			}
		}
		return nil
	})
}

// dump emits the rows of one table. An error of emit is returned unchanged.
func (c *conn) dump(op string, t dumpTable, emit func(table string, row []byte) error, opts DumpOptions) error {
	columns, err := c.columns(t.name)
	if err != nil {
		return engineError(op, err)
	}
	values := make([]string, len(columns))
	for i, column := range columns {
		values[i] = column
		if other := withheld[t.name][column]; other != "" && !opts.Restricted {
			values[i] = other
		}
	}
	sql := `SELECT ` + strings.Join(values, ", ") + ` FROM ` + t.name
	if t.where != "" {
		sql += ` WHERE ` + t.where
	}
	st, _, err := c.db.Prepare(sql + ` ORDER BY ` + t.order)
	if err != nil {
		return engineError(op, err)
	}
	defer st.Close()
	var row bytes.Buffer
	for n := 1; st.Step(); n++ {
		row.Reset()
		if column := encodeRow(&row, st, columns); column != "" {
			return hub.Errorf(hub.CodeDegraded, op, "row %d of %s has a value in %s that is neither text nor a whole number", n, t.name, column).
				WithHint("the hub writes no such value; parley audit verify may tell more")
		}
		if err := emit(t.name, row.Bytes()); err != nil {
			return err
		}
	}
	return engineError(op, st.Err())
}

// columns returns the names of a table's columns in their order, none if there
// is no such table.
func (c *conn) columns(table string) ([]string, error) {
	st, _, err := c.db.Prepare(`SELECT name FROM pragma_table_info(?1) ORDER BY cid`)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.BindText(1, table); err != nil {
		return nil, err
	}
	var names []string
	for st.Step() {
		names = append(names, st.ColumnText(0))
	}
	return names, st.Err()
}

// encodeRow writes the row that st stands on. It returns the name of a column
// whose value cannot be written, or "".
func encodeRow(row *bytes.Buffer, st *sqlite3.Stmt, columns []string) string {
	enc := json.NewEncoder(row)
	enc.SetEscapeHTML(false)
	text := func(s string) {
		enc.Encode(s)               // cannot fail: a string into memory
		row.Truncate(row.Len() - 1) // the encoder ends every value with a newline
	}
	for i, column := range columns {
		row.WriteByte("{,"[min(i, 1)])
		text(column)
		row.WriteByte(':')
		switch st.ColumnType(i) {
		case sqlite3.NULL:
			row.WriteString("null")
		case sqlite3.INTEGER:
			row.WriteString(strconv.FormatInt(st.ColumnInt64(i), 10))
		case sqlite3.TEXT:
			s := st.ColumnText(i)
			if !utf8.ValidString(s) {
				return column
			}
			text(s)
		default:
			return column
		}
	}
	row.WriteByte('}')
	return ""
}
