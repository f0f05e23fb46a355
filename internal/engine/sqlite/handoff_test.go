package sqlite

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// TestHandoffsAgainstOthers checks what the database itself refuses, whoever
// opens it.
func TestHandoffsAgainstOthers(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := hub.Handoff{
		ID: "0199f000-0000-7000-8000-000000000001", ThreadID: "t", TaskID: "T-1", From: "ada", To: "bob", Title: "x", Reason: "requested",
		Package: json.RawMessage(`{"provenance":{},"verification":{"package_hash":"h"}}`), Hash: "h", Status: hub.HandoffProposed,
	}
	step := hub.HandoffStep{State: hub.HandoffProposed, Actor: "ada"}
	if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutHandoff(h, "", &step) }); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	const insert = `INSERT INTO handoffs (id, thread_id, task_id, from_agent, to_agent, title, reason, package_json, provenance_json, verification_json, status)
		VALUES ('other', 't', 'T-1', 'cleo', 'bob', 'x', 'x', '{}', '{}', '{}', `
	for _, tt := range []struct{ name, sql, want string }{
		{"R3-057 a second active handoff of a task", insert + `'proposed')`, "UNIQUE"},
		{"R3-057 one that is activated", insert + `'activated')`, "UNIQUE"},
		{"R3-061 a change of the history", `UPDATE handoff_history SET actor = 'eve'`, "append-only"},
		{"R3-061 a gap in the history", `DELETE FROM handoff_history`, "append-only"},
		{"R3-061 a step that is put in place of another", `REPLACE INTO handoff_history (handoff_id, n, state, at, actor) SELECT handoff_id, n, state, at, 'eve' FROM handoff_history`, "append-only"},
		{"R3-061 a handoff that is put in place of another", `REPLACE INTO handoffs SELECT * FROM handoffs`, "kept for ever"},
		{"R3-061 a handoff that disappears", `DELETE FROM handoffs`, "kept for ever"},
		{"another receiver", `UPDATE handoffs SET to_agent = 'eve'`, "does not change"},
		{"another package", `UPDATE handoffs SET package_json = '{}'`, "does not change"},
		{"R3-053 a step that is skipped", `UPDATE handoffs SET status = 'accepted'`, "no such move"},
		{"R3-053 a state that is none", `UPDATE handoffs SET status = 'lost'`, "no such move"},
		{"a list of archives that is changed", `INSERT INTO journal_archives VALUES (1, 'h', 'c', 'f', 's', 1, 1, 'a'); DELETE FROM journal_archives`, "append-only"},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			if err := db.db.Exec(tt.sql); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("R3-057 one that is over is allowed", func(t *testing.T) {
		if err := db.db.Exec(insert + `'closed')`); err != nil {
			t.Error(err)
		}
	})
}

func TestSchemaDrift(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	drift := func() string {
		t.Helper()
		got, err := s.SchemaDrift(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, "; ")
	}
	if got := drift(); got != "" {
		t.Errorf("a new database: got %q, want no drift", got)
	}
	err = raw(t, dir).db.Exec(`DROP TRIGGER handoffs_moves; DROP INDEX idx_handoffs_task_active;
		DROP TRIGGER handoffs_no_delete; CREATE TRIGGER handoffs_no_delete BEFORE DELETE ON handoffs BEGIN SELECT 1; END;
		CREATE TRIGGER spy AFTER INSERT ON messages BEGIN SELECT 1; END;`)
	if err != nil {
		t.Fatal(err)
	}
	const want = "the index idx_handoffs_task_active is missing; the trigger handoffs_moves is missing; the trigger handoffs_no_delete was changed; the trigger spy was added"
	if got := drift(); !strings.Contains(got, "handoffs_moves is missing") || len(got) != len(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
