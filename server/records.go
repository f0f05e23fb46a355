package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/records"
)

// Folders of a hub's home that hold its records outside the database.
const (
	trailDir   = "journal"
	archiveDir = "archive"
)

// Records is everything that a hub keeps, as a whole.
type Records struct {
	*records.Records
	store *sqlite.Store
}

// newRecords returns the records of a store in a home. opts has all but what
// follows from the home.
func newRecords(store *sqlite.Store, home string, opts records.Options) *Records {
	folders := records.Folders{Trail: filepath.Join(home, trailDir), Archives: filepath.Join(home, archiveDir)}
	return &Records{records.New(store, folders, &opts), store}
}

// OpenRecords opens the records in a home in which no hub is running. Whoever
// gets them must Close them. log may be nil.
func OpenRecords(home string, log *slog.Logger) (*Records, error) {
	if err := checkHome(home); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(home, "hub.db")); err != nil {
		return nil, hub.Errorf(hub.CodeNotFound, "server.OpenRecords", "there is no hub in %s", home).WithHint("name another --home")
	}
	store, err := sqlite.Open(home, &sqlite.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return newRecords(store, home, records.Options{Log: log}), nil
}

// Close releases the home.
func (r *Records) Close() error { return r.store.Close() }

// Verify compares everything with the journal, and the database's schema with
// the one that this version makes.
func (r *Records) Verify(ctx context.Context) (records.Audit, error) {
	got, err := r.Records.Verify(ctx)
	if err != nil {
		return got, err
	}
	drift, err := r.store.SchemaDrift(ctx)
	for _, d := range drift {
		got.Findings = append(got.Findings, records.Finding{Where: "schema", What: d})
	}
	return got, err
}

// Export writes everything as JSONL into a folder that does not exist yet.
func (r *Records) Export(ctx context.Context, dir string, restricted bool) (records.Manifest, error) {
	return r.Records.Export(ctx, dir, func(ctx context.Context, emit func(string, []byte) error) (int, error) {
		return r.store.Dump(ctx, emit, sqlite.DumpOptions{Restricted: restricted})
	})
}

// Backup copies the database into a file that does not exist yet. The copy does
// not expect the JSONL files of this home: they are written anew where it is put.
func (r *Records) Backup(ctx context.Context, file string) error {
	return r.store.Backup(ctx, file, nil, records.FilesConsumer)
}

// Import makes a home out of an export. The home must not hold a hub yet.
func Import(ctx context.Context, dir, home string) (records.Manifest, error) {
	e, err := records.OpenExport(dir)
	if err != nil {
		return records.Manifest{}, err
	}
	defer e.Close()
	if _, err := os.Stat(filepath.Join(home, "hub.db")); err == nil { // before anything is put there
		return records.Manifest{}, hub.Errorf(hub.CodeConflict, "server.Import", "there is a hub in %s already", home).
			WithHint("name a home that does not exist yet")
	}
	if err := e.CopyArchives(filepath.Join(home, archiveDir)); err != nil {
		return records.Manifest{}, err
	}
	if err := sqlite.Load(ctx, home, e.Manifest.Schema, e.Next); err != nil {
		return records.Manifest{}, err
	}
	r, err := OpenRecords(home, nil)
	if err != nil {
		return records.Manifest{}, err
	}
	err = r.Copy(ctx)
	return e.Manifest, errors.Join(err, r.Close())
}
