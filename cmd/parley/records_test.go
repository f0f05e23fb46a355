package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

func TestRecords(t *testing.T) {
	h := newHouse(t)
	h.ok(h.as("planner", "send", "builder", "schema is frozen"), nil)
	h.ok(h.as("builder", "inbox", "--ack"), nil)
	var task handoffShape
	h.ok(h.as("planner", handoffFlags("T-1")...), &task)
	h.ok(h.as("builder", "handoff", "accept", task.ID), nil)
	var secret handoffShape
	h.ok(h.as("planner", handoffFlags("T-2", "--restricted", "--objective", "hush")...), &secret)

	t.Run("R3-120 the journal can be read", func(t *testing.T) {
		res := h.operator("hub", "journal", "--limit", "200")
		h.ok(res, nil)
		contains(t, res.out, "hub.started", "agent.added", "message.sent", "message.read", "handoff.proposed", "handoff.activated")
		res = h.operator("hub", "journal", "--actor", "builder", "--action", "handoff.accepted")
		if strings.Count(res.out, "\n") != 1 || !strings.Contains(res.out, task.ID) {
			t.Errorf("got %s, want one entry", res.out)
		}
	})
	t.Run("an agent reads what concerns it", func(t *testing.T) {
		res := h.as("builder", "hub", "journal", "--limit", "200")
		contains(t, res.out, "handoff.proposed", "message.sent")
		if strings.Contains(res.out, "agent.added") {
			t.Errorf("got %s, want nothing about other agents", res.out)
		}
		if res := h.as("mallory", "hub", "journal"); strings.Contains(res.out, "handoff") || strings.Contains(res.out, "message") {
			t.Errorf("a stranger got %s", res.out)
		}
	})
	t.Run("pages go on where they ended", func(t *testing.T) {
		var page struct {
			Entries []struct{ Seq int64 }
			Next    int64
		}
		h.ok(h.operator("hub", "journal", "--after", "0", "--limit", "2", "--json"), &page)
		if len(page.Entries) != 2 || page.Entries[0].Seq != 1 || page.Next != 2 {
			t.Errorf("got %+v, want the first two and what comes next", page)
		}
	})
	t.Run("--follow shows what happens, as it happens", func(t *testing.T) {
		p := spawn(t, parley(t, h.env(""), "hub", "journal", "--follow", "--action", "agent.paused", "--as-operator"))
		h.ok(h.operator("agent", "pause", "mallory"), nil)
		p.stdout.await(t, "agent.paused")
		p.signal(t, os.Interrupt)
	})
	t.Run("the records hold", func(t *testing.T) {
		var got struct {
			OK       bool
			Messages int
			Handoffs int
			Findings []any
		}
		h.ok(h.operator("hub", "verify", "--json"), &got)
		if !got.OK || got.Handoffs != 2 || got.Messages < 4 || got.Findings == nil {
			t.Errorf("got %+v, want all checked and nothing found", got)
		}
		if res := h.as("builder", "hub", "verify"); res.code != exitRefused {
			t.Errorf("an agent: got exit code %d, want %d", res.code, exitRefused)
		}
	})
	dir := filepath.Join(t.TempDir(), "export")
	t.Run("R3-005 an export is refused where there is something, and to agents", func(t *testing.T) {
		h.ok(h.operator("hub", "export", "--jsonl", dir), nil)
		for _, tt := range []struct {
			res  result
			code int
		}{
			{h.operator("hub", "export", "--jsonl", dir), exitMissing},
			{h.operator("hub", "export"), exitUsage},
			{h.as("planner", "hub", "export", "--jsonl", dir+"2"), exitRefused},
			{h.operator("hub", "import", dir, "--into", h.home), exitMissing},
			{h.operator("hub", "import", t.TempDir(), "--into", dir+"3"), exitMissing},
			{h.operator("hub", "import", dir), exitUsage},
			{h.operator("hub", "archive", "--keep", "1h"), exitUsage},
			{h.as("planner", "hub", "archive"), exitRefused},
			{h.as("planner", "hub", "backup", dir+"4"), exitRefused},
			{h.operator("hub", "backup", dir), exitMissing},
		} {
			if tt.res.code != tt.code {
				t.Errorf("got exit code %d, want %d: %s", tt.res.code, tt.code, tt.res.err)
			}
		}
	})
	t.Run("R3-065 an export leaves out what is restricted, unless asked", func(t *testing.T) {
		raw, err := os.ReadFile(filepath.Join(dir, "snapshot.jsonl"))
		if err != nil || strings.Contains(string(raw), "hush") || !strings.Contains(string(raw), secret.Hash) {
			t.Errorf("got %s (%v), want the hash alone", raw, err)
		}
		h.ok(h.operator("hub", "export", "--jsonl", dir+"-all", "--restricted"), nil)
		if raw, err = os.ReadFile(filepath.Join(dir+"-all", "snapshot.jsonl")); err != nil || !strings.Contains(string(raw), "hush") {
			t.Errorf("got %s (%v), want the package", raw, err)
		}
		trail, err := os.ReadFile(filepath.Join(h.home, "journal", "segment-000000000001.jsonl"))
		if err != nil || strings.Contains(string(trail), "hush") {
			t.Errorf("the trail holds the restricted package (%v)", err)
		}
	})
	t.Run("R3-117 nothing is old enough to be archived", func(t *testing.T) {
		contains(t, h.operator("hub", "archive", "--dry-run").out, "nothing is older than")
		contains(t, h.operator("hub", "archive").out, "nothing is older than")
	})
	backup := filepath.Join(t.TempDir(), "backup")
	stored := filepath.Join(t.TempDir(), "plan.txt")
	if err := os.WriteFile(stored, []byte("the plan"), 0o600); err != nil {
		t.Fatal(err)
	}
	var put struct{ Artifact struct{ SHA256 string } }
	h.ok(h.as("planner", "artifact", "put", stored, "--json"), &put)
	h.ok(h.operator("hub", "backup", backup), nil)
	h.stop()

	verify := func(t *testing.T, home string, code int, texts ...string) {
		t.Helper()
		res := do(t, parley(t, nil, "hub", "verify", "--as-operator", "--home", home))
		if res.code != code {
			t.Errorf("got exit code %d, want %d: %s%s", res.code, code, res.out, res.err)
		}
		contains(t, res.out, texts...)
	}
	t.Run("the records can be checked while no hub is running", func(t *testing.T) { verify(t, h.home, 0, "ok the journal holds") })
	t.Run("R3-005 what was exported is a hub again", func(t *testing.T) {
		home := filepath.Join(t.TempDir(), "home")
		h.ok(do(t, parley(t, nil, "hub", "import", dir+"-all", "--into", home)), nil)
		verify(t, home, 0, "ok the journal holds", "2 handoffs")
		other := &house{t: t, home: home, keys: h.keys}
		other.start()
		contains(t, other.as("planner", "log", "--whole", "--text", "frozen").out, "schema is frozen")
		contains(t, other.as("builder", "handoff", "list").out, "activated")
		other.ok(other.operator("hub", "verify"), nil)
		other.stop()
	})
	t.Run("a backup is a home", func(t *testing.T) {
		home := filepath.Join(t.TempDir(), "home") // it is restored by copying it
		if err := os.CopyFS(home, os.DirFS(backup)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"secrets.key", "operator.key"} {
			if err := os.Chmod(filepath.Join(home, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		verify(t, home, 0, "ok the journal holds")
		other := &house{t: t, home: home, keys: h.keys}
		other.start()
		contains(t, other.as("planner", "log", "--whole", "--text", "frozen").out, "schema is frozen")
		other.ok(other.operator("hub", "verify"), nil)
		contains(t, other.as("planner", "artifact", "get", put.Artifact.SHA256).out, "the plan")
		other.stop()
	})
	t.Run("an export that was changed is refused by name, and leaves no home", func(t *testing.T) {
		file := filepath.Join(dir, "snapshot.jsonl")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(raw), "frozen", "thawed", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		home := filepath.Join(t.TempDir(), "home")
		res := do(t, parley(t, nil, "hub", "import", dir, "--into", home))
		if res.code == 0 || !strings.Contains(res.err, "snapshot.jsonl") {
			t.Errorf("got %d %s, want a refusal that names the file", res.code, res.err)
		}
		if _, err := os.Stat(filepath.Join(home, "hub.db")); !os.IsNotExist(err) {
			t.Errorf("there is a database: %v", err)
		}
	})
	t.Run("what another program changed is found and named", func(t *testing.T) {
		db, err := sqlite3.Open(filepath.Join(h.home, "hub.db"))
		if err != nil {
			t.Fatal(err)
		}
		err = db.Exec(`UPDATE messages SET payload_json = replace(payload_json, 'frozen', 'thawed')`)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		verify(t, h.home, exitCheck, "FOUND message ", "its payload differs from journal row")
	})
}
