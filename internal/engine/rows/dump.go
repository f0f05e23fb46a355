package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A DumpTable is one part of a dump.
type DumpTable struct {
	Name  string
	Order string // of its rows
	Where string // which of them; all if empty
	Fresh bool   // a new database has rows of its own here, which give way
}

// DumpTables are the tables of a dump, each after those that it refers to. The
// index of words with its cursor and the sums are not among them: they follow
// from the messages and projects. Sessions of browsers and the names of the hub's page
// are not either: they are secrets of the machine.
var DumpTables = []DumpTable{
	{Name: "acp_meta", Order: "key", Where: "key NOT LIKE 'web.%'", Fresh: true},
	{Name: "agents", Order: "id"},
	{Name: "agent_keys", Order: "created_at, rowid"},
	{Name: "messages", Order: "id"},
	{Name: "message_meta", Order: "seq"},
	{Name: "message_party", Order: "agent, seq"},
	{Name: "delivery_log", Order: "id"},
	{Name: "processed", Order: "message_id, recipient"},
	{Name: "receipts", Order: "actor, key"},
	{Name: "session_marks", Order: "agent, session"},
	{Name: "handoffs", Order: "id"},
	{Name: "handoff_meta", Order: "handoff_id"},
	{Name: "handoff_history", Order: "handoff_id, n"},
	{Name: "short_ids", Order: "kind, n"},
	{Name: "artifact_readers", Order: "sha256, agent"},
	{Name: "runs", Order: "id"},
	{Name: "projects", Order: "id"},
	{Name: "contracts", Order: "project, id"},
	{Name: "contract_versions", Order: "project, contract, version, sha256"},
	{Name: "contract_verdicts", Order: "project, contract, pair"},
	{Name: "contract_results", Order: "n"},
	{Name: "deployments", Order: "n"},
	{Name: "packets", Order: "project, id"},
	{Name: "changes", Order: "seq"},
	{Name: "file_requests", Order: "project, id"},
	{Name: "peers", Order: "aid"},
	{Name: "outboxes", Order: "peer"},
	{Name: "dead_letters", Order: "id"},
	{Name: "invites", Order: "id"},
	{Name: "tokens", Order: "id"},
	{Name: "roots", Order: "path"},
	{Name: "wakes", Order: "agent, id"},
	{Name: "reservations", Order: "fence"},
	{Name: "file_waits", Order: "tree, path, agent"},
	{Name: "file_views", Order: "tree, path, agent"},
	{Name: "file_notes", Order: "agent, n"},
	{Name: "repository_checks", Order: "machine, repository, name"},
	{Name: "check_policies", Order: "machine, repository"},
	{Name: "check_results", Order: "n"},
	{Name: "check_tails", Order: "n"},
	{Name: "progress", Order: "subject"},
	{Name: "landing_policies", Order: "id"},
	{Name: "landings", Order: "n"},
	{Name: "reviews", Order: "n"},
	{Name: "usages", Order: "agent, id"},
	{Name: "budgets", Order: "n"},
	{Name: "continuations", Order: "n"},
	{Name: "rescues", Order: "n"},
	{Name: "kept_works", Order: "n"},
	{Name: "event_sources", Order: "name"},
	{Name: "event_deliveries", Order: "source, id"},
	{Name: "event_counts", Order: "source, outcome"},
	{Name: "schedules", Order: "n"},
	{Name: "subscriptions", Order: "agent, created_at, id"},
	{Name: "copies", Order: "agent, message_id"},
	{Name: "deliberations", Order: "id"},
	{Name: "decisions", Order: "id"},
	{Name: "teams", Order: "id"},
	{Name: "team_members", Order: "team, n"},
	{Name: "tasks", Order: "n"},
	{Name: "team_held", Order: "id"},
	{Name: "team_artifacts", Order: "team, name"},
	{Name: "team_versions", Order: "team, name, n"},
	{Name: "team_conflicts", Order: "team, name, n"},
	{Name: "journal_archives", Order: "seq"},
	{Name: "journal", Order: "seq"},
	{Name: "tree_tiles", Order: "level, n"},
	{Name: "tree_checkpoints", Order: "size"},
	{Name: "cursors", Order: "consumer", Where: "consumer <> 'sqlite.texts'"},
	{Name: "sqlite_sequence", Order: "name", Fresh: true},
}

// FormerTables are the tables that dumps of earlier versions have and DumpTables has not.
// A migration moves their rows.
var FormerTables = []string{"claims", "team_tasks"}

// Withheld returns the expression that stands for a column of restricted handoffs in a
// dump, "" if the column is dumped as it is. hash is the expression for the hash of the
// package. A handoff is restricted unless handoff_meta says that it is not.
func Withheld(table, column, hash string) string {
	return strings.ReplaceAll(withheld[table][column], "HASH", hash)
}

var withheld = map[string]map[string]string{
	"handoffs": {
		"title":            withholdFrom("id") + `'restricted' ELSE title END`,
		"reason":           withholdFrom("id") + `'restricted' ELSE reason END`,
		"package_json":     withholdFrom("id") + `'{"restricted":true,"package_hash":' || coalesce('"' || (HASH) || '"', 'null') || '}' ELSE package_json END`,
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

// EncodeRow writes a row of a dump: a JSON object with the columns in their order.
// value returns nil, an int64 or a string. It returns the name of a column whose value
// cannot be written, or "".
func EncodeRow(row *bytes.Buffer, columns []string, value func(i int) (v any, ok bool)) string {
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
		v, ok := value(i)
		switch v := v.(type) {
		case nil:
			row.WriteString("null")
		case int64:
			row.WriteString(strconv.FormatInt(v, 10))
		case string:
			ok = ok && utf8.ValidString(v)
			text(v)
		}
		if !ok {
			return column
		}
	}
	row.WriteByte('}')
	return ""
}

// DecodeRow reads a row of a dump: exactly these columns in this order, each
// nil, an int64 or a string.
func DecodeRow(columns []string, row []byte) ([]any, error) {
	if !utf8.Valid(row) {
		return nil, errors.New("it is not valid UTF-8")
	}

	dec := json.NewDecoder(bytes.NewReader(row))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}

	values := make([]any, len(columns))
	for i, column := range columns {
		if t, err := dec.Token(); err != nil || t != column {
			return nil, fmt.Errorf("its member %d is not %s", i+1, column)
		}
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", column, err)
		}

		switch t := t.(type) {
		case nil:
		case string:
			values[i] = t
		case json.Number:
			n, err := t.Int64()
			if err != nil {
				return nil, fmt.Errorf("%s: %s is not a whole number of 64 bits", column, t)
			}
			values[i] = n
		default:
			return nil, fmt.Errorf("%s: it is neither text nor a number nor null", column)
		}
	}

	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return nil, fmt.Errorf("it has more than %d members", len(columns))
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return values, nil
}
