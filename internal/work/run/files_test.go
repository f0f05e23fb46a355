package run_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/work/run"
)

func TestSweep(t *testing.T) {
	now := hub.At(time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC))
	old := hub.NewIDs(func() time.Time { return now.Add(-48 * time.Hour).Time })
	young := hub.NewIDs(func() time.Time { return now.Add(-time.Hour).Time })
	for name, test := range map[string]struct {
		keep run.Retention
		want []string
	}{
		"by default what is young and not too much stays": {run.Retention{}, []string{"young", "younger", "old", "open", "untold"}},
		"old ones go":           {run.Retention{MaxAge: 24 * time.Hour}, []string{"young", "younger", "open", "untold"}},
		"all but the newest go": {run.Retention{Keep: 1}, []string{"younger", "open", "untold"}},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			files := run.NewFiles(home)
			ids := map[string]hub.RunID{}
			add := func(name string, from *hub.IDs, change func(*run.Record)) {
				t.Helper()
				id := hub.RunID(from.Next())
				r := run.Record{Run: hub.Run{ID: id, State: hub.RunDone, StartedAt: id.Time()}}
				if change != nil {
					change(&r)
				}
				if _, err := files.Create(r); err != nil {
					t.Fatal(err)
				}
				ids[name] = id
			}
			add("old", old, nil)
			add("open", old, func(r *run.Record) { r.State = hub.RunRunning })
			add("untold", old, func(r *run.Record) { r.Hub = true })
			add("young", young, nil)
			add("younger", young, func(r *run.Record) { r.Hub, r.Told = true, true })
			removed, err := files.Sweep(test.keep, now)
			if err != nil || removed != 5-len(test.want) {
				t.Errorf("removed %d, %v", removed, err)
			}
			for _, name := range test.want {
				if _, err := files.Record(ids[name]); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

func TestRecord(t *testing.T) {
	home := t.TempDir()
	files := run.NewFiles(home)
	if all, err := files.Records(); err != nil || len(all) != 0 {
		t.Fatalf("a home without runs: %v, %v", all, err)
	}
	id := hub.RunID(hub.NewIDs(time.Now).Next())
	a, err := files.Create(run.Record{Run: hub.Run{ID: id, State: hub.RunStarting, Task: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.Create(run.Record{Run: hub.Run{ID: id}}); err == nil {
		t.Error("a run was begun twice")
	}
	for name, test := range map[string]struct {
		id   hub.RunID
		code hub.Code
	}{
		"a path is no id":       {"../../etc/passwd", hub.CodeInvalid},
		"one that is not there": {hub.RunID(hub.NewIDs(time.Now).Next()), hub.CodeNotFound},
	} {
		if _, err := files.Record(test.id); hub.CodeOf(err) != test.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
	folder := filepath.Join(home, "runs", string(id))
	if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(folder, "run.json"), []byte(`{"run_id":"x`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Record(id); hub.CodeOf(err) != hub.CodeDegraded {
		t.Errorf("a broken record: got %v", err)
	}
	if all, err := files.Records(); err != nil || len(all) != 0 {
		t.Errorf("a broken record is listed: %v, %v", all, err)
	}
	if err := a.Update(func(r *run.Record) { r.Task = "y" }); err != nil {
		t.Fatal(err)
	}
	if got, err := files.Record(id); err != nil || got.Task != "y" {
		t.Errorf("got %+v, %v", got, err)
	}
}
