package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unpackHome writes a stored home into a new folder and returns the folder.
func unpackHome(t *testing.T, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return home
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(home, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(name, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoredHomes opens the homes of earlier versions. first.tar.gz was written by
// commit 7e2a2d4: 40 messages of an agent that are in an archive, agents with live and
// revoked keys, one paused and one suspended, messages (held, expired, attached,
// idempotent), handoffs in three states, a project with a contract of two versions and
// a peer, a run, and four messages that were acknowledged just before the process was
// killed.
func TestStoredHomes(t *testing.T) {
	h := &house{t: t, home: unpackHome(t, filepath.Join("testdata", "homes", "first.tar.gz")), keys: map[string]string{
		"builder": "cacp_sk_live_jJx73cM0qs70q-B0Fp1OXUiePZyp9Heknr1PgLHXkzU",
	}}
	verify := func() result {
		return do(t, parley(t, []string{"PARLEY_HOME=" + h.home}, "hub", "verify", "--as-operator"))
	}
	database := func(home string) (all []byte) {
		for _, name := range []string{"hub.db", "hub.db-wal"} {
			raw, err := os.ReadFile(filepath.Join(home, name))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			all = append(all, raw...)
		}
		return all
	}
	upgrades := filepath.Join(h.home, "upgrades")
	t.Run("without a copy of the home the database is not changed", func(t *testing.T) {
		before := database(h.home)
		if err := os.WriteFile(upgrades, nil, 0o600); err != nil { // where the copy goes
			t.Fatal(err)
		}
		if r := verify(); r.code != exitDegraded || !strings.Contains(r.err, "before the upgrade") || !strings.Contains(r.err, "nothing was changed") {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		if !bytes.Equal(before, database(h.home)) {
			t.Error("the database was changed")
		}
		if err := os.Remove(upgrades); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.MkdirAll(filepath.Join(upgrades, "schema-1"), 0o700); err != nil { // of an earlier upgrade
		t.Fatal(err)
	}
	if r := verify(); r.code != 0 {
		t.Fatalf("audit verify before the first start: exit %d: %s%s", r.code, r.out, r.err)
	}
	t.Run("the home from before the upgrade is kept, and is a home", func(t *testing.T) {
		copies, err := filepath.Glob(filepath.Join(upgrades, "*"))
		if err != nil || len(copies) != 1 || copies[0] == filepath.Join(upgrades, "schema-1") {
			t.Fatalf("copies %v (%v), want that of this upgrade alone", copies, err)
		}
		if r := do(t, parley(t, []string{"PARLEY_HOME=" + copies[0]}, "hub", "verify", "--as-operator")); r.code != 0 {
			t.Errorf("audit verify of the copy: exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	h.start()

	t.Run("every record fits the journal", func(t *testing.T) {
		h.contains(h.operator("hub", "verify"), "ok the journal holds")
	})
	t.Run("agents, states and keys are there", func(t *testing.T) {
		h.contains(h.operator("agent", "list"), "builder", "(revoked)", "planner", "paused")
		h.contains(h.as("builder", "status", "update", "still here"), "sent ")
		h.contains(h.operator("hub", "journal", "--action", "breaker.open"), "noisy") // its time is over by now
	})
	t.Run("messages acknowledged before the kill are found by word and topic", func(t *testing.T) {
		for _, filter := range [][]string{{"--text", "last words"}, {"--topic", "end"}} {
			var got struct{ Messages []struct{ ID string } }
			h.ok(h.operator(append([]string{"log", "--whole", "--json"}, filter...)...), &got)
			if len(got.Messages) != 4 {
				t.Errorf("query %v found %d messages, want 4", filter, len(got.Messages))
			}
		}
	})
	t.Run("a held message still waits", func(t *testing.T) {
		h.contains(h.operator("approve"), "wait for a person")
	})
	t.Run("handoffs keep their states", func(t *testing.T) {
		h.contains(h.operator("handoff", "list"), "h4  proposed ", "h3  proposed ", "h2  activated ", "h1  closed     there  verified, by the rules of then  -       T-1")
	})
	t.Run("the project, its contract and the peer are there", func(t *testing.T) {
		h.contains(h.operator("project", "list"), "User Auth")
		h.contains(h.operator("contract", "list"), "Get User")
		h.contains(h.operator("peer", "list"), "aid://front.example/hub@1.0.0")
	})
	t.Run("the run and its recording are there", func(t *testing.T) {
		var got struct {
			Runs []struct {
				ID string `json:"run_id"`
			}
		}
		h.ok(h.operator("run", "list", "--json"), &got)
		if len(got.Runs) != 1 {
			t.Fatalf("%d runs, want 1", len(got.Runs))
		}
		h.contains(h.operator("show", got.Runs[0].ID), "contradicted", "file_missing")
		h.ok(h.operator("run", "replay", got.Runs[0].ID), nil)
	})
	t.Run("an export of it can be imported", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "export")
		h.ok(h.operator("hub", "export", "--jsonl", folder), nil)
		home := filepath.Join(t.TempDir(), "home")
		if r := do(t, parley(t, nil, "hub", "import", folder, "--into", home)); r.code != 0 {
			t.Fatalf("import: exit %d: %s%s", r.code, r.out, r.err)
		}
		if r := do(t, parley(t, []string{"PARLEY_HOME=" + home}, "hub", "verify", "--as-operator")); r.code != 0 {
			t.Fatalf("audit verify of the import: exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	h.stop()
}

// contains checks that a command succeeded and printed every part.
func (h *house) contains(r result, parts ...string) {
	h.t.Helper()
	h.ok(r, nil)
	for _, p := range parts {
		if !strings.Contains(r.out, p) {
			h.t.Errorf("%q is not in the output:\n%s", p, r.out)
		}
	}
}
