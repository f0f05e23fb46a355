package records

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// The form of exports, in their manifest.
const (
	exportFormat  = "parley-export"
	exportVersion = 1

	manifestName = "manifest.json"
	archivesName = "archives" // the folder in an export
	journalTable = "journal"
	listTable    = "journal_archives"

	maxManifest  = 1 << 20
	maxExportRow = 64 << 20
)

// A Manifest describes an export. It is written last: a folder without one is
// no export.
type Manifest struct {
	Format   string         `json:"format"`
	Version  int            `json:"version"`
	Schema   int            `json:"schema"` // of the tables
	Head     hub.Head       `json:"head"`   // of the journal
	Tables   []ExportedFile `json:"tables"` // in the order in which they are read
	Archives []ExportedFile `json:"archives"`
}

// An ExportedFile is one file of an export.
type ExportedFile struct {
	Name   string `json:"name"` // a table, or the file name of an archive
	Rows   int    `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// A Dump gives out everything that a store holds, as of one moment: it calls
// emit with each row as a JSON object, all rows of a table together, and
// returns the version of the schema.
type Dump func(ctx context.Context, emit func(table string, row []byte) error) (schema int, err error)

// exportNames is what a file of an export may be called, so that a manifest
// cannot lead out of its folder.
var exportNames = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.jsonl)?$`)

// Export writes the store into dir, a JSONL file for each table that is not
// empty, with the archives that it refers to. The same store gives the same bytes. dir appears when everything in
// it is complete and on disk; one that exists and is not empty is refused.
func (r *Records) Export(ctx context.Context, dir string, dump Dump) (Manifest, error) {
	m, err := writeExport(ctx, dir, r.folders.Archives, dump)
	if err != nil {
		return Manifest{}, fmt.Errorf("records: export: %w", diskError("records.Export", err))
	}
	return m, nil
}

func writeExport(ctx context.Context, dir, archives string, dump Dump) (Manifest, error) {
	const op = "records.Export"
	if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, hub.Errorf(hub.CodeConflict, op, "%s exists already and is not an empty folder", dir).
			WithHint("name a folder that does not exist yet")
	}
	work := filepath.Clean(dir) + partial
	if err := os.RemoveAll(work); err != nil { // left by a crash
		return Manifest{}, err
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return Manifest{}, err
	}
	defer os.RemoveAll(work) // gone once it has its name
	e := &exporter{dir: work, manifest: Manifest{Format: exportFormat, Version: exportVersion, Tables: []ExportedFile{}, Archives: []ExportedFile{}}}
	defer e.abandon()
	schema, err := dump(ctx, e.row)
	if err == nil {
		err = e.end()
	}
	if err != nil {
		return Manifest{}, err
	}
	e.manifest.Schema = schema
	for _, a := range e.archives {
		if err := e.archive(archives, a); err != nil {
			return Manifest{}, err
		}
	}
	raw, err := json.MarshalIndent(e.manifest, "", "  ")
	if err != nil {
		return Manifest{}, err
	}
	if err := writeWhole(filepath.Join(work, manifestName), append(raw, '\n')); err != nil {
		return Manifest{}, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty folder
		return Manifest{}, err
	}
	if err := os.Rename(work, dir); err != nil {
		return Manifest{}, err
	}
	return e.manifest, syncFolder(filepath.Dir(filepath.Clean(dir)))
}

// An exporter writes the files of an export one after the other.
type exporter struct {
	dir      string
	manifest Manifest
	archives []hub.Archive // that the rows name

	file *os.File // of the table at hand
	buf  *bufio.Writer
	hash hash.Hash
	last []byte // the last row of the journal
}

// row adds a row to the file of its table.
func (e *exporter) row(table string, row []byte) error {
	if n := len(e.manifest.Tables); n == 0 || e.manifest.Tables[n-1].Name != table {
		if err := e.begin(table); err != nil {
			return err
		}
	}
	t := &e.manifest.Tables[len(e.manifest.Tables)-1]
	t.Rows++
	t.Bytes += int64(len(row)) + 1
	switch table {
	case journalTable:
		e.last = append(e.last[:0], row...)
	case listTable:
		var a hub.Archive
		if err := json.Unmarshal(row, &a); err != nil {
			return fmt.Errorf("a row of %s: %w", table, err)
		}
		e.archives = append(e.archives, a)
	}
	if _, err := e.buf.Write(row); err != nil {
		return err
	}
	return e.buf.WriteByte('\n')
}

// begin ends the file at hand and opens that of the next table.
func (e *exporter) begin(table string) error {
	if err := e.end(); err != nil {
		return err
	}
	if !exportNames.MatchString(table) || slices.ContainsFunc(e.manifest.Tables, func(t ExportedFile) bool { return t.Name == table }) {
		return fmt.Errorf("the table %q cannot be exported", table)
	}
	f, err := os.OpenFile(filepath.Join(e.dir, table+".jsonl"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	e.file, e.hash = f, sha256.New()
	e.buf = bufio.NewWriterSize(io.MultiWriter(f, e.hash), 1<<16)
	e.manifest.Tables = append(e.manifest.Tables, ExportedFile{Name: table})
	return nil
}

// end completes the file at hand.
func (e *exporter) end() error {
	if e.file == nil {
		return nil
	}
	t := &e.manifest.Tables[len(e.manifest.Tables)-1]
	if err := errors.Join(e.buf.Flush(), e.file.Sync(), e.file.Close()); err != nil {
		return err
	}
	e.file = nil
	t.SHA256 = hex.EncodeToString(e.hash.Sum(nil))
	if t.Name == journalTable {
		if err := json.Unmarshal(e.last, &e.manifest.Head); err != nil {
			return fmt.Errorf("the last row of %s: %w", t.Name, err)
		}
	}
	return nil
}

// abandon closes the file at hand after a failure.
func (e *exporter) abandon() {
	if e.file != nil {
		e.file.Close()
	}
}

// archive copies an archive into the export.
func (e *exporter) archive(from string, a hub.Archive) error {
	to := filepath.Join(e.dir, archivesName)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	name := filepath.Base(a.File)
	size, err := copyArchive(filepath.Join(from, name), filepath.Join(to, name), a.SHA256)
	if err != nil {
		return err
	}
	e.manifest.Archives = append(e.manifest.Archives, ExportedFile{Name: name, Rows: a.Entries, Bytes: size, SHA256: a.SHA256})
	return nil
}

// copyArchive copies a file whose content is known by its hash.
func copyArchive(from, to, sum string) (int64, error) {
	const op = "records.copyArchive"
	name := filepath.Base(from)
	src, err := openRegular(from)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, hub.Errorf(hub.CodeNotFound, op, "the archive %s is not there", name).WithHint("put it back where the hub keeps its archives")
	}
	if err != nil {
		return 0, err
	}
	defer src.Close()
	d, err := newDraft(to)
	if err != nil {
		return 0, err
	}
	defer d.drop()
	h := sha256.New()
	size, err := io.Copy(io.MultiWriter(d, h), src)
	if err != nil {
		return 0, err
	}
	if hex.EncodeToString(h.Sum(nil)) != sum {
		return 0, hub.Errorf(hub.CodeHashMismatch, op, "the archive %s is not the one that was recorded", name).WithHint("parley audit verify tells what is wrong")
	}
	return size, d.keep()
}

// An Export is an export that is being read.
type Export struct {
	Manifest Manifest
	dir      string

	at    int // index of the table at hand
	file  *os.File
	lines *bufio.Scanner
	hash  hash.Hash
	rows  int
}

// OpenExport opens the export in dir. It reports CodeNotFound when dir is none,
// and CodeConflict when a newer version made it.
func OpenExport(dir string) (*Export, error) {
	const op = "records.OpenExport"
	f, err := openRegular(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hub.Errorf(hub.CodeNotFound, op, "%s is not a complete export: it has no %s", dir, manifestName)
	}
	if err != nil {
		return nil, fmt.Errorf("records: import: %w", diskError(op, err))
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("records: import: %w", diskError(op, err))
	}
	m, err := decodeManifest(raw)
	if err != nil {
		return nil, err
	}
	return &Export{Manifest: m, dir: dir}, nil
}

// decodeManifest reads a manifest.
func decodeManifest(raw []byte) (Manifest, error) {
	const op = "records.OpenExport"
	var m Manifest
	if len(raw) > maxManifest {
		return m, hub.Errorf(hub.CodeTooLarge, op, "%s has more than %d bytes", manifestName, maxManifest)
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Format != exportFormat {
		return Manifest{}, hub.Errorf(hub.CodeInvalid, op, "%s is not that of an export", manifestName)
	}
	if m.Version != exportVersion {
		return Manifest{}, hub.Errorf(hub.CodeConflict, op, "the export is of version %d, this parley knows %d", m.Version, exportVersion).
			WithHint("upgrade parley")
	}
	for _, f := range slices.Concat(m.Tables, m.Archives) {
		if !exportNames.MatchString(f.Name) {
			return Manifest{}, hub.Errorf(hub.CodeInvalid, op, "%s names a file %q, which no export has", manifestName, f.Name)
		}
	}
	return m, nil
}

// Next returns the next row of the export with its table, and io.EOF at the
// end. A file that is not what the manifest says is reported by name, at its
// end at the latest. The row is good until the next call.
func (e *Export) Next() (table string, row []byte, err error) {
	for e.at < len(e.Manifest.Tables) {
		t := e.Manifest.Tables[e.at]
		if e.file == nil {
			if err := e.open(t); err != nil {
				return "", nil, err
			}
		}
		if e.lines.Scan() {
			e.rows++
			return t.Name, e.lines.Bytes(), nil
		}
		sum := hex.EncodeToString(e.hash.Sum(nil))
		if err := e.lines.Err(); err != nil || sum != t.SHA256 || e.rows != t.Rows {
			return "", nil, changed(t.Name+".jsonl", err)
		}
		e.Close()
		e.at++
	}
	return "", nil, io.EOF
}

// open begins to read a table.
func (e *Export) open(t ExportedFile) error {
	f, err := openRegular(filepath.Join(e.dir, t.Name+".jsonl"))
	if err != nil {
		return changed(t.Name+".jsonl", err)
	}
	e.file, e.rows, e.hash = f, 0, sha256.New()
	// One byte more than there should be is enough to see that it is too long.
	e.lines = bufio.NewScanner(io.TeeReader(io.LimitReader(f, t.Bytes+1), e.hash))
	e.lines.Buffer(nil, maxExportRow)
	return nil
}

// changed reports a file that is not what the manifest says.
func changed(name string, cause error) error {
	if cause == nil {
		cause = errors.New("it was changed or cut off")
	}
	return hub.Errorf(hub.CodeHashMismatch, "records.Import", "%s is not what the manifest says: %v", name, cause).
		WithHint("export again; nothing was changed here")
}

// Close ends the reading.
func (e *Export) Close() error {
	if e.file == nil {
		return nil
	}
	err := e.file.Close()
	e.file = nil
	return err
}

// CopyArchives puts the archives of the export into dir, which is made if there
// are any.
func (e *Export) CopyArchives(dir string) error {
	for _, a := range e.Manifest.Archives {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			_, err = copyArchive(filepath.Join(e.dir, archivesName, a.Name), filepath.Join(dir, a.Name), a.SHA256)
		}
		if err != nil {
			return fmt.Errorf("records: import: %w", diskError("records.CopyArchives", err))
		}
	}
	return nil
}

// openRegular opens a file to read it. What is no regular file is not opened:
// a pipe would wait for a writer.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}
