package records

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// The parts of an export.
const (
	snapshotName   = "snapshot.jsonl" // a segment with the rows of every table
	exportArchives = "archive"        // the folder of the archives
)

// A Manifest describes the content of an export.
type Manifest struct {
	Schema   int             `json:"schema"` // version of the tables
	Head     hub.Head        `json:"head"`   // of the journal
	Tables   []ExportedTable `json:"tables"` // in the order in which they are written
	Archives []hub.Archive   `json:"archives"`
}

// An ExportedTable is a table that has rows.
type ExportedTable struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
}

// add counts a row.
func (m *Manifest) add(table string, row []byte) error {
	if n := len(m.Tables); n == 0 || m.Tables[n-1].Name != table {
		m.Tables = append(m.Tables, ExportedTable{Name: table})
	}
	m.Tables[len(m.Tables)-1].Rows++
	var err error
	switch table {
	case "journal": // in order, so that the last one is the head
		err = json.Unmarshal(row, &m.Head)
	case "journal_archives":
		var a hub.Archive
		err = json.Unmarshal(row, &a)
		a.File = filepath.Base(a.File)
		m.Archives = append(m.Archives, a)
	}
	if err != nil {
		return fmt.Errorf("a row of %s: %w", table, err)
	}
	return nil
}

// A Dump gives out everything that a store holds at one moment: it calls begin
// with the version of the schema, then emit with each row as a JSON object, all
// rows of a table together.
type Dump func(ctx context.Context, begin func(schema int) error, emit func(table string, row []byte) error) error

// Export writes the store into the folder dir: a segment with the rows of every
// table, and the archives that the store lists. The same store gives the same
// bytes. dir appears when everything in it is complete and on disk; one that
// exists and is not empty is refused.
func (r *Records) Export(ctx context.Context, dir string, dump Dump) (Manifest, error) {
	const op = "records.Export"
	if entries, err := os.ReadDir(dir); len(entries) > 0 || (err != nil && !errors.Is(err, fs.ErrNotExist)) {
		return Manifest{}, hub.Errorf(hub.CodeConflict, op, "%s already exists and is not an empty folder", dir).
			WithHint("name a folder that does not exist yet")
	}
	m, err := r.export(ctx, filepath.Clean(dir), dump)
	if err != nil {
		return Manifest{}, fmt.Errorf("records: export: %w", diskError(op, err))
	}
	return m, nil
}

func (r *Records) export(ctx context.Context, dir string, dump Dump) (Manifest, error) {
	work := dir + ".partial"
	if err := os.RemoveAll(work); err != nil { // left by a crash
		return Manifest{}, err
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return Manifest{}, err
	}
	defer os.RemoveAll(work) // which does not exist any more after a success
	m, err := writeSnapshot(ctx, filepath.Join(work, snapshotName), dump)
	if err != nil {
		return Manifest{}, err
	}
	if err := copyArchives(m, r.folders.Archives, filepath.Join(work, exportArchives)); err != nil {
		return Manifest{}, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty folder
		return Manifest{}, err
	}
	return m, durable.Rename(work, dir)
}

// writeSnapshot writes the segment with the rows.
func writeSnapshot(ctx context.Context, path string, dump Dump) (Manifest, error) {
	m := Manifest{Tables: []ExportedTable{}, Archives: []hub.Archive{}}
	f, err := durable.NewDraft(path, 0o600)
	if err != nil {
		return m, err
	}
	defer f.Discard()
	w := newSegmentWriter(f)
	begin := func(schema int) error {
		m.Schema = schema
		return w.put(line{Format: segmentFormat, Version: segmentVersion, Schema: schema})
	}
	err = dump(ctx, begin, func(table string, row []byte) error {
		if err := m.add(table, row); err != nil {
			return err
		}
		return w.put(line{Table: table, Row: row})
	})
	if err == nil {
		_, err = w.close()
	}
	if err != nil {
		return m, err
	}
	return m, f.Commit()
}

// copyArchives copies the archives of an export between folders.
func copyArchives(m Manifest, from, to string) error {
	for _, a := range m.Archives {
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		if err := copyArchive(filepath.Join(from, a.File), filepath.Join(to, a.File), a.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// copyArchive copies a file whose SHA-256 is known.
func copyArchive(from, to, sum string) error {
	const op = "records.copyArchive"
	name := filepath.Base(from)
	src, err := openRegular(from)
	if errors.Is(err, fs.ErrNotExist) {
		return hub.Errorf(hub.CodeNotFound, op, "archive %s is missing", name).WithHint("put it back into the archive folder")
	}
	if err != nil {
		return err
	}
	defer src.Close()
	d, err := durable.NewDraft(to, 0o600)
	if err != nil {
		return err
	}
	defer d.Discard()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(d, h), src); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != sum {
		return hub.Errorf(hub.CodeHashMismatch, op, "archive %s differs from the recorded one", name).
			WithHint("parley hub verify shows what is wrong")
	}
	return d.Commit()
}

// Import reads the export in dir. It reads all of it once, puts the archives into a
// folder, and then calls load with the version of the schema and a function that returns
// the next row with its table, good until the next call, and io.EOF at the end. It
// reports CodeNotFound when dir holds no export, CodeConflict when it is of another
// version, and CodeHashMismatch when a line was changed or is missing.
func Import(dir, archives string, load func(schema int, next func() (table string, row []byte, err error)) error) (Manifest, error) {
	const op = "records.Import"
	path := filepath.Join(dir, snapshotName)
	m := Manifest{Tables: []ExportedTable{}, Archives: []hub.Archive{}}
	s, err := readSegment(path, func(l line) error {
		if l.Table == "" {
			return errors.New("a line is not a row")
		}
		return m.add(l.Table, l.Row)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, hub.Errorf(hub.CodeNotFound, op, "%s is not a complete export: it has no %s", dir, snapshotName)
	case errors.Is(err, errVersion):
		return m, hub.Errorf(hub.CodeConflict, op, "%s: %v", snapshotName, err).WithHint("upgrade parley")
	case err != nil:
		return m, hub.Errorf(hub.CodeHashMismatch, op, "%s was changed or cut off: %v", snapshotName, err).WithHint("export again; nothing was changed here")
	}

	// Nothing is written before the whole export was read once.
	m.Schema = s.header.Schema
	err = copyArchives(m, filepath.Join(dir, exportArchives), archives)
	if err == nil {
		s, err = openSegment(path)
	}
	if err != nil {
		return m, fmt.Errorf("records: import: %w", diskError(op, err))
	}
	defer s.close()

	return m, load(m.Schema, func() (string, []byte, error) {
		l, err := s.next()
		return l.Table, l.Row, err
	})
}

// diskError reports a failure that is not the hub's own as one of the disk.
func diskError(op string, err error) error {
	var known *hub.Error
	isInterrupted := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err == nil || isInterrupted || errors.As(err, &known) {
		return err
	}
	return hub.Errorf(hub.CodeDegraded, op, "%v", err).WithHint("check the disk and the permissions of the folder")
}
