package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func TestBackup(t *testing.T) {
	s := openTest(t, nil)
	t.Run("the log is emptied before the copy, so that its old content is not copied", func(t *testing.T) {
		for range 50 {
			put(t, s)
		}
		logged := func() int64 {
			info, err := os.Stat(s.path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		before := logged()
		if err := s.Backup(t.Context(), filepath.Join(t.TempDir(), databaseName)); err != nil {
			t.Fatal(err)
		}
		if after := logged(); before == 0 || after != 0 {
			t.Errorf("the log had %d bytes before the backup and %d after it, want 0", before, after)
		}
	})
	t.Run("a backup made during writes is a hub's database as it was at one moment", func(t *testing.T) {
		for range 300 {
			put(t, s)
		}
		sure := put(t, s) // before the backup begins
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for ctx.Err() == nil {
					if _, err := tryPut(s); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		home := t.TempDir()
		path := filepath.Join(home, databaseName)
		err := s.Backup(t.Context(), path)
		stop()
		writers.Wait()
		if err != nil {
			t.Fatal(err)
		}
		restored := openAt(t, home, nil)
		if err := restored.Check(t.Context()); err != nil {
			t.Error(err)
		}
		wantMessage(t, restored, sure)
		err = restored.View(t.Context(), func(r hub.Reader) error {
			entries, err := r.Journal(hub.JournalQuery{After: 0, Limit: 1_000_000})
			prev := ""
			for i, e := range entries {
				if e.Seq != int64(i+1) || e.Hash != e.Chain(prev) {
					t.Fatalf("entry %d does not follow from the one before", e.Seq)
				}
				prev = e.Hash
				if _, err := r.Message(hub.EnvelopeID(e.Subject)); err != nil {
					t.Errorf("entry %d: %v", e.Seq, err)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, restored, put(t, restored))
	})
	t.Run("only its owner can read a backup", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "b.db")
		if err := s.Backup(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode: got %v (%v), want 0600", info.Mode(), err)
		}
		if names, err := filepath.Glob(path + "*"); err != nil || len(names) != 1 {
			t.Errorf("files: got %v (%v), want the backup alone", names, err)
		}
	})
	t.Run("what is there already is not overwritten", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "b.db")
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.Backup(t.Context(), path), hub.CodeConflict)
		if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
			t.Errorf("the file: got %q (%v), want it as it was", b, err)
		}
	})
	t.Run("a folder that does not exist is reported", func(t *testing.T) {
		wantCode(t, s.Backup(t.Context(), filepath.Join(t.TempDir(), "no", "b.db")), hub.CodeDegraded)
	})
	t.Run("a backup that is given up leaves nothing behind", func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Backup(ctx, filepath.Join(dir, "c.db")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
	})
	t.Run("what a killed backup left is not in the way", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "b.db")
		if err := os.WriteFile(path+".partial", []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Backup(t.Context(), path); err != nil {
			t.Error(err)
		}
	})
	t.Run("a closed store has no backup", func(t *testing.T) {
		closed := openTest(t, nil)
		closed.Close()
		wantCode(t, closed.Backup(t.Context(), filepath.Join(t.TempDir(), "b.db")), hub.CodeDegraded)
	})
}
