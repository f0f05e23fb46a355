package durable_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/parley-agents/parley/internal/ground/durable"
)

// onlyFile fails unless the folder holds exactly one file, with that content.
func onlyFile(t *testing.T, path, want string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("the folder holds %v, want only %s", entries, filepath.Base(path))
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("the file holds %q (%v), want %q", got, err, want)
	}
}

func TestWriteFileReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for _, content := range []string{"one", "", "three"} {
		if err := durable.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		onlyFile(t, path, content)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v (%v), want 0640", info.Mode(), err)
	}
}

func TestCreateFileKeepsTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := durable.CreateFile(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.CreateFile(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	onlyFile(t, path, "first")
}

func TestOnlyOneOfSeveralCreates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = durable.CreateFile(path, bytes.Repeat([]byte{byte('a' + i)}, 4096), 0o600) })
	}
	wg.Wait()
	created := 0
	for _, err := range errs {
		if err == nil {
			created++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if created != 1 || len(got) != 4096 || len(bytes.Trim(got, string(got[0]))) != 0 {
		t.Errorf("%d of them created the file, which has %d bytes", created, len(got))
	}
}

func TestDiscardKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	if err := durable.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := durable.NewDraft(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	d.Discard()
	onlyFile(t, path, "old")
	if err := d.Commit(); err == nil {
		t.Error("a discarded draft was committed")
	}
}

func TestDiscardAfterCommitDoesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	d, err := durable.NewDraft(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	if _, err := d.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	d.Discard()
	onlyFile(t, path, "new")
}

func TestRename(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for path, content := range map[string]string{from: "new", to: "old"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(durable.SyncFile(from), durable.Rename(from, to)); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, to, "new")
	if err := durable.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	onlyFile(t, to, "new")
}
