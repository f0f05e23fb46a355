package records_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// importInto makes a home out of an export, as parley hub import does.
func importInto(ctx context.Context, dir, home string) error {
	_, err := records.Import(dir, filepath.Join(home, "archives"), func(schema int, next func() (string, []byte, error)) error {
		return sqlite.Load(ctx, home, schema, next)
	})
	return err
}

// tables returns the rows of every table of a closed hub, but of what follows
// from others.
func tables(t *testing.T, home string) map[string][]string {
	t.Helper()
	db, err := sqlite3.OpenFlags(filepath.Join(home, "hub.db"), sqlite3.OPEN_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	query := func(sql string) (rows []string) {
		st, _, err := db.Prepare(sql)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		for st.Step() {
			row := ""
			for i := range st.ColumnCount() {
				row += fmt.Sprintf("%s=%q ", st.ColumnName(i), st.ColumnText(i))
			}
			rows = append(rows, row)
		}
		if err := st.Err(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(rows)
		return rows
	}
	content := map[string][]string{}
	for _, name := range query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'message_text%' AND name <> 'leases'`) { // a lease is that of a process
		name = strings.TrimSuffix(strings.TrimPrefix(name, `name="`), `" `)
		where := ""
		if name == "cursors" {
			where = ` WHERE consumer <> 'sqlite.texts'`
		}
		content[name] = query(`SELECT * FROM ` + name + where)
	}
	return content
}

func TestExport(t *testing.T) {
	w, ids := oldWorld(t, 20)
	w.archive(records.ArchiveOptions{})
	w.copy()
	dir := filepath.Join(t.TempDir(), "a", "export")
	dump := func(ctx context.Context, begin func(int) error, emit func(string, []byte) error) error {
		return w.store.Dump(ctx, begin, emit, true)
	}
	m, err := w.records.Export(t.Context(), dir, dump)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the manifest says what there is", func(t *testing.T) {
		head, err := w.journal.Head(t.Context())
		if err != nil || m.Head != head || m.Schema == 0 || len(m.Archives) != 1 {
			t.Errorf("manifest: got %+v, want head %+v (%v)", m, head, err)
		}
		lines := strings.Join(w.lines(filepath.Join(dir, "snapshot.jsonl")), "")
		for _, f := range m.Tables {
			if got := strings.Count(lines, fmt.Sprintf("{\"table\":%q,", f.Name)); got != f.Rows {
				t.Errorf("%s: got %d rows, want %d", f.Name, got, f.Rows)
			}
		}
		again, err := records.Import(dir, t.TempDir(), func(int, func() (string, []byte, error)) error { return nil })
		if err != nil || fmt.Sprint(again) != fmt.Sprint(m) {
			t.Errorf("read again: got %+v, %v, want %+v", again, err, m)
		}
	})
	if storetest.Postgres() {
		t.Skip("an import makes a hub on SQLite")
	}
	c := w.duplicate(t) // for its clock
	c.home = filepath.Join(t.TempDir(), "copy")
	c.place = storetest.NewHome(t, c.home)
	if err := importInto(t.Context(), dir, c.home); err != nil {
		t.Fatal(err)
	}
	t.Run("R3-005 an imported hub equals the exported one, table by table", func(t *testing.T) {
		w.close()
		want, got := tables(t, w.home), tables(t, c.home)
		w.open()
		for name, rows := range want {
			if !slices.Equal(got[name], rows) {
				t.Errorf("%s:\ngot  %q\nwant %q", name, got[name], rows)
			}
		}
	})
	c.open()
	t.Run("an imported hub is clean, and has every message", func(t *testing.T) {
		c.copy() // the trail is the home's own
		if a := c.wantClean(); len(a.Unchecked) > 0 {
			t.Errorf("unchecked: %q", a.Unchecked)
		}
		c.wantNothingLost(ids)
	})
	t.Run("words are found in an imported hub", func(t *testing.T) {
		if err := c.store.IndexText(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.view(func(r hub.Reader) error {
			page, err := r.Query(hub.Query{Viewer: "bob", Text: "message", Limit: 10})
			if len(page.Messages) != 3 {
				t.Errorf("found %d, want 3", len(page.Messages))
			}
			return err
		})
	})
	t.Run("R3-130 the same hub gives the same export", func(t *testing.T) {
		again := filepath.Join(t.TempDir(), "export")
		if _, err := w.records.Export(t.Context(), again, dump); err != nil {
			t.Fatal(err)
		}
		want, got := os.DirFS(dir), again
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			a, err := os.ReadFile(filepath.Join(got, e.Name()))
			f, err2 := want.Open(e.Name())
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			b, err := io.ReadAll(f)
			f.Close()
			if err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s differs (%v)", e.Name(), err)
			}
		}
	})
	t.Run("R3-065 a restricted package that was left out is said to be missing, not changed", func(t *testing.T) {
		open := filepath.Join(t.TempDir(), "export")
		w.export(open)
		if raw, err := os.ReadFile(filepath.Join(open, "snapshot.jsonl")); err != nil || bytes.Contains(raw, []byte(`{\"title\":\"vault\"}`)) || !bytes.Contains(raw, []byte(`{\"title\":\"parser\"}`)) {
			t.Errorf("handoffs: got %s (%v), want them without the vault", raw, err)
		}
		c := w.duplicate(t)
		c.home = filepath.Join(t.TempDir(), "copy")
		c.place = storetest.NewHome(t, c.home)
		if err := importInto(t.Context(), open, c.home); err != nil {
			t.Fatal(err)
		}
		c.open()
		c.copy()
		if a := c.wantClean(); len(a.Unchecked) != 1 || !strings.Contains(a.Unchecked[0], "1 restricted packages") {
			t.Errorf("unchecked: got %q, want one restricted package", a.Unchecked)
		}
	})
	t.Run("what is there is not overwritten", func(t *testing.T) {
		if _, err := w.records.Export(t.Context(), dir, dump); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("got %v, want a conflict", err)
		}
		file := filepath.Join(t.TempDir(), "file")
		w.must(nil, os.WriteFile(file, nil, 0o600))
		if _, err := w.records.Export(t.Context(), file, dump); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("got %v, want a conflict", err)
		}
	})
	t.Run("an empty folder is filled", func(t *testing.T) {
		if _, err := w.records.Export(t.Context(), t.TempDir(), dump); err != nil {
			t.Error(err)
		}
	})
	t.Run("an export that fails leaves nothing behind", func(t *testing.T) {
		parent := t.TempDir()
		broken := errors.New("no more rows")
		for name, dump := range map[string]records.Dump{
			"at once": func(context.Context, func(int) error, func(string, []byte) error) error { return broken },
			"midway": func(_ context.Context, begin func(int) error, emit func(string, []byte) error) error {
				return errors.Join(begin(1), emit("agents", []byte(`{}`)), broken)
			},
			"a row that is no JSON": func(_ context.Context, begin func(int) error, emit func(string, []byte) error) error {
				return errors.Join(begin(1), emit("agents", []byte(`{`)))
			},
		} {
			if _, err := w.records.Export(t.Context(), filepath.Join(parent, "e"), dump); hub.CodeOf(err) != hub.CodeDegraded {
				t.Errorf("%s: got %v, want degraded", name, err)
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("%s: left %v (%v)", name, left, err)
			}
		}
		if _, err := records.New(w.store, records.Folders{Archives: t.TempDir()}, nil).Export(t.Context(), filepath.Join(parent, "e"), dump); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("without its archive: got %v, want not found", err)
		}
	})
}

func TestImportRefuses(t *testing.T) {
	w, _ := oldWorld(t, 20)
	w.archive(records.ArchiveOptions{})
	dir := filepath.Join(t.TempDir(), "export")
	m := w.export(dir)
	archive := filepath.Join("archive", m.Archives[0].File)
	snapshot := func(from, to string) func(string) {
		return func(dir string) {
			w.edit(filepath.Join(dir, "snapshot.jsonl"), func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) })
		}
	}
	const changed = "snapshot.jsonl was changed or cut off"
	for _, tt := range []struct {
		name  string
		spoil func(dir string)
		code  hub.Code
		text  string
	}{
		{"a folder without a snapshot", func(dir string) { w.must(nil, os.Remove(filepath.Join(dir, "snapshot.jsonl"))) }, hub.CodeNotFound, "has no snapshot.jsonl"},
		{"a file that is no segment", snapshot(`"parley-segment"`, `"other"`), hub.CodeHashMismatch, changed},
		{"a header that is no JSON", snapshot(`{`, `[`), hub.CodeHashMismatch, changed},
		{"a newer segment", snapshot(`"version":1`, `"version":2`), hub.CodeConflict, "not of version 1"},
		{"another schema", snapshot(fmt.Sprintf(`"schema":%d`, m.Schema), `"schema":99`), hub.CodeHashMismatch, changed},
		{"a table that is missing", func(dir string) {
			w.edit(filepath.Join(dir, "snapshot.jsonl"), func(b []byte) []byte {
				return []byte(strings.Join(slices.DeleteFunc(strings.SplitAfter(string(b), "\n"), func(l string) bool { return strings.HasPrefix(l, `{"table":"agents"`) }), ""))
			})
		}, hub.CodeHashMismatch, changed},
		{"a snapshot that is cut off", func(dir string) {
			w.edit(filepath.Join(dir, "snapshot.jsonl"), func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] })
		}, hub.CodeHashMismatch, "it ends without a seal"},
		{"a snapshot that is longer", func(dir string) {
			w.edit(filepath.Join(dir, "snapshot.jsonl"), func(b []byte) []byte { return append(b, "{}\n"...) })
		}, hub.CodeHashMismatch, changed},
		{"a snapshot with half a line behind it", func(dir string) {
			w.edit(filepath.Join(dir, "snapshot.jsonl"), func(b []byte) []byte { return append(b, '{') })
		}, hub.CodeHashMismatch, "there is data after the seal"},
		{"a row that was changed", snapshot(`"auditor":0`, `"auditor":1`), hub.CodeHashMismatch, "the seal does not match"},
		{"an archive that is missing", func(dir string) { w.must(nil, os.Remove(filepath.Join(dir, archive))) }, hub.CodeNotFound, m.Archives[0].File},
		{"an archive that was changed", func(dir string) {
			w.edit(filepath.Join(dir, archive), func(b []byte) []byte { return bytes.ToUpper(b) })
		}, hub.CodeHashMismatch, m.Archives[0].File},
	} {
		t.Run(tt.name+" is refused, and no hub is made", func(t *testing.T) {
			c := filepath.Join(t.TempDir(), "export")
			if err := os.CopyFS(c, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			tt.spoil(c)
			home := filepath.Join(t.TempDir(), "home")
			err := importInto(t.Context(), c, home)
			if hub.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %q (%v), want %q and %q", hub.CodeOf(err), err, tt.code, tt.text)
			}
			if _, err := os.Stat(filepath.Join(home, "hub.db")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a database is there (%v)", err)
			}
		})
	}
}
