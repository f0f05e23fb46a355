package sqlite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var updateSchema = flag.Bool("update-schema", false, "write schema/whole.sql anew")

// TestWholeSchema compares the tables of a new store, which whole.sql makes, with those that the
// migrations make, one after the other.
func TestWholeSchema(t *testing.T) {
	migrated := openEmpty(t)
	if err := migrate(migrated); err != nil {
		t.Fatal(err)
	}
	want := schemaOf(t, migrated)
	if *updateSchema {
		head := "-- The tables after all migrations, for a new store.\n-- Written by go test ./internal/engine/sqlite -run TestWholeSchema -update-schema; do not edit.\n\n"
		if err := os.WriteFile("schema/whole.sql", []byte(head+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}

	whole := openEmpty(t)
	if err := createWhole(whole); err != nil {
		t.Fatal(err)
	}
	if got := schemaOf(t, whole); got != want {
		t.Errorf("schema/whole.sql does not make what the migrations make; write it anew with go test ./internal/engine/sqlite -run TestWholeSchema -update-schema\ngot:\n%s\nwant:\n%s", got, want)
	}
	for _, c := range []*conn{whole, migrated} {
		if version, err := c.number(`PRAGMA user_version`); err != nil || version != int64(schemaVersion()) {
			t.Errorf("the version of the schema is %d, %v, want %d", version, err, schemaVersion())
		}
	}
}

// TestMigrationsAreFiles holds that every file of the schema is a migration, or the whole of them: a file
// with another name would never run.
func TestMigrationsAreFiles(t *testing.T) {
	files, err := os.ReadDir("schema")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != schemaVersion()+1 {
		t.Errorf("there are %d files for %d versions: a migration is named 0NNN_noun.sql, and whole.sql has all of them", len(files), schemaVersion())
	}
}

// openEmpty opens a database without tables.
func openEmpty(t *testing.T) *conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hub.db")
	if err := protect(path); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, time.Second, readerCache)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close() })
	return c
}

// schemaOf returns the statements that make the tables of a database, with their rows.
func schemaOf(t *testing.T, c *conn) string {
	t.Helper()
	var out strings.Builder
	for _, sql := range query(t, c, `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
		AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow') ORDER BY rowid`) {
		out.WriteString(sql + ";\n\n")
	}
	// A table of words has settings, which are set by inserting into it.
	for _, setting := range query(t, c, `SELECT quote(k) || ', ' || quote(v) FROM message_text_config WHERE k != 'version' ORDER BY k`) {
		fmt.Fprintf(&out, "INSERT INTO message_text (message_text, rank) VALUES (%s);\n", setting)
	}
	for _, table := range query(t, c, `SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`) {
		columns := strings.Join(query(t, c, `SELECT name FROM pragma_table_info('`+table+`')`), ", ")
		values := "quote(" + strings.ReplaceAll(columns, ", ", ") || ', ' || quote(") + ")"
		for _, row := range query(t, c, `SELECT `+values+` FROM `+table+` ORDER BY 1`) {
			fmt.Fprintf(&out, "INSERT INTO %s (%s) VALUES (%s);\n", table, columns, row)
		}
	}
	return out.String()
}

// query returns the first column of a query.
func query(t *testing.T, c *conn, sql string) []string {
	t.Helper()
	all, err := texts(c, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

// TestConstraintsSpeakPlainly makes each kind of constraint fail: the text has no words of the driver.
func TestConstraintsSpeakPlainly(t *testing.T) {
	c := openEmpty(t)
	if err := createWhole(c); err != nil {
		t.Fatal(err)
	}
	const agent = `INSERT INTO agents (id, role, auditor, state, created_at) VALUES `
	if err := c.db.Exec(agent + `('ada', 'executor', 0, 'active', 'now')`); err != nil {
		t.Fatal(err)
	}
	if err := c.db.Exec(`INSERT INTO messages (id, from_agent, to_agents_json, type, status, payload_json, policy_json, payload_bytes, created_at, updated_at)
		VALUES ('m', 'ada', '["bo"]', 'x', 'pending', '{}', '{}', 2, 'now', 'now')`); err != nil {
		t.Fatal(err)
	}
	for kind, sql := range map[string]string{
		"a value twice":              agent + `('ada', 'executor', 0, 'active', 'now')`,
		"a word that is not allowed": agent + `('bo', 'executor', 0, 'asleep', 'now')`,
		"nothing":                    agent + `('bo', NULL, 0, 'active', 'now')`,
		"a trigger":                  `UPDATE messages SET status = 'eaten'`,
	} {
		err := engineError("test", c.db.Exec(sql))
		if err == nil {
			t.Errorf("%s: nothing failed", kind)
			continue
		}
		t.Logf("%s: %v", kind, err)
		for _, word := range []string{"sqlite", "constraint", "CHECK", "UNIQUE", "NULL", "agents."} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%s: the text has the driver's word %q: %v", kind, word, err)
			}
		}
	}
}
