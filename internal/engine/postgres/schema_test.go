//go:build unix

package postgres_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/testing/pgtest"
)

// hereOnly has the tables and columns that SQLite does not have, each with the reason.
var hereOnly = map[string]string{
	"artifacts":       "content of artifacts: beside SQLite it lies in files",
	"artifact_chunks": "content of artifacts: beside SQLite it lies in files",
	"hubs":            "the hubs on one database: SQLite has one",
	"inquiries":       "questions of one hub to another on one database",
	"writers":         "the processes that write: SQLite has one",
	"parley_schema":   "the version of the schema: a pragma of SQLite",
	"message_text":    "the index of words: a virtual table of SQLite",

	"roots.machine":    "hubs on one database run on several machines",
	"leases.holder":    "a lease of several hubs has a holder",
	"leases.until":     "a lease of several hubs ends",
	"agent_keys.rowid": "SQLite numbers rows by itself",
}

// TestSchemaIsThatOfSQLite compares tables, columns and the words that columns allow with the whole
// schema of SQLite: a migration that one engine got and the other did not fails here by name.
func TestSchemaIsThatOfSQLite(t *testing.T) {
	address := pgtest.Address(t)
	open(t, address, nil)
	here := map[string]string{}
	for _, row := range pgtest.Column(t, address, `SELECT table_name || ' ' || string_agg(column_name, ' ' ORDER BY column_name)
		FROM information_schema.columns WHERE table_schema = current_schema() GROUP BY table_name`) {
		table, columns, _ := strings.Cut(row, " ")
		here[table] = columns
	}

	raw, err := os.ReadFile("../sqlite/schema/whole.sql")
	if err != nil {
		t.Fatal(err)
	}
	there, words := sqliteTables(string(raw))
	for table, columns := range there {
		got, isHere := here[table]
		shared := slices.DeleteFunc(strings.Fields(got), func(column string) bool { return hereOnly[table+"."+column] != "" })
		switch {
		case !isHere:
			t.Errorf("table %s is missing", table)
		case strings.Join(shared, " ") != columns:
			t.Errorf("table %s has the columns\n%s\nthose of SQLite are\n%s", table, got, columns)
		}
	}
	for table := range here {
		if _, isThere := there[table]; !isThere && hereOnly[table] == "" {
			t.Errorf("table %s is not in the schema of SQLite", table)
		}
	}

	allowed := map[string]string{}
	list := regexp.MustCompile(`'([a-z_]*)'::text`)
	for _, row := range pgtest.Column(t, address, `SELECT c.conrelid::regclass::text || '.' || a.attname || ' ' || pg_get_constraintdef(c.oid)
		FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
		WHERE c.contype = 'c' AND array_length(c.conkey, 1) = 1 AND pg_get_constraintdef(c.oid) LIKE '%ARRAY%'`) {
		column, def, _ := strings.Cut(row, " ")
		var found []string
		for _, m := range list.FindAllStringSubmatch(def, -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		allowed[column] = strings.Join(found, " ")
	}
	for _, column := range slices.Sorted(maps.Keys(words)) {
		if allowed[column] != words[column] {
			t.Errorf("%s allows %q, in SQLite %q", column, allowed[column], words[column])
		}
	}
}

// sqliteTables returns the columns of each table, and the words of each column that allows certain words.
func sqliteTables(schema string) (columns, words map[string]string) {
	columns, words = map[string]string{}, map[string]string{}
	name := regexp.MustCompile(`^CREATE TABLE "?(\w+)"? ?\(`)
	column := regexp.MustCompile(`(?m)^\s*([a-z][a-z0-9_]*) +(?:TEXT|INTEGER|BLOB|REAL)`)
	added := regexp.MustCompile(`, ([a-z][a-z0-9_]*) TEXT`) // by ALTER TABLE, at the end of the statement
	list := regexp.MustCompile(`(?:\(|OR )(\w+) IN ?\(('[^)]*)\)`)
	for statement := range strings.SplitSeq(schema, ";\n\n") {
		if at := strings.Index(statement, "CREATE TABLE"); at > 0 && strings.HasPrefix(statement, "--") {
			statement = statement[at:] // behind the comment at the head of the file
		}
		statement = strings.TrimSpace(statement)
		table := name.FindStringSubmatch(statement)
		if table == nil {
			continue
		}
		var all []string
		for _, m := range slices.Concat(column.FindAllStringSubmatch(statement, -1), added.FindAllStringSubmatch(statement, -1)) {
			if !slices.Contains(all, m[1]) {
				all = append(all, m[1])
			}
		}
		slices.Sort(all)
		columns[table[1]] = strings.Join(all, " ")
		for _, m := range list.FindAllStringSubmatch(statement, -1) {
			one := strings.Split(strings.Join(strings.Fields(strings.ReplaceAll(m[2], "'", "")), ""), ",")
			slices.Sort(one)
			words[table[1]+"."+m[1]] = strings.Join(one, " ")
		}
	}
	return columns, words
}
