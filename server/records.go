package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/journal"
)

// Folders of a hub's home that hold its records outside the database.
const (
	trailDir   = "journal"
	archiveDir = "archive"
)

// Records is everything that a hub keeps, as a whole.
type Records struct {
	store     *sqlite.Store
	journal   *journal.Journal
	home      string
	consumers []string
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
	return &Records{store: store, journal: journal.New(store, &journal.Options{Log: log}), home: home}, nil
}

// Close releases the home.
func (r *Records) Close() error { return r.store.Close() }

// Verify compares everything with the journal, and the database's schema with
// the one that this version makes.
func (r *Records) Verify(ctx context.Context) (journal.Audit, error) {
	got, err := journal.Verify(ctx, r.store, journal.VerifyOptions{
		Trail: filepath.Join(r.home, trailDir), Archives: filepath.Join(r.home, archiveDir),
	})
	if err != nil {
		return got, err
	}
	drift, err := r.store.SchemaDrift(ctx)
	for _, d := range drift {
		got.Findings = append(got.Findings, journal.Finding{Where: "schema", What: d})
	}
	return got, err
}

// archiveOptions says where archives go, and whom they must wait for.
func (r *Records) archiveOptions() journal.ArchiveOptions {
	return journal.ArchiveOptions{Dir: filepath.Join(r.home, archiveDir), Consumers: r.consumers}
}

// Archive moves what is older than keep into a file; 0 means the default.
func (r *Records) Archive(ctx context.Context, actor hub.Caller, keep time.Duration, dryRun bool) (journal.ArchiveReport, error) {
	o := r.archiveOptions()
	o.Keep, o.DryRun = keep, dryRun
	return r.journal.Archive(ctx, actor, o)
}

// Export writes everything as JSONL into a folder that does not exist yet.
func (r *Records) Export(ctx context.Context, dir string, restricted bool) (journal.Manifest, error) {
	return journal.WriteExport(ctx, dir, filepath.Join(r.home, archiveDir), func(ctx context.Context, emit func(string, []byte) error) (int, error) {
		return r.store.Dump(ctx, emit, sqlite.DumpOptions{Restricted: restricted})
	})
}

// Backup copies the database into a file that does not exist yet. The copy does
// not expect the JSONL files of this home: they are written anew where it is put.
func (r *Records) Backup(ctx context.Context, file string) error {
	return r.store.Backup(ctx, file, nil, journal.FilesConsumer)
}

// Import makes a home out of an export. The home must not hold a hub yet.
func Import(ctx context.Context, dir, home string) (journal.Manifest, error) {
	e, err := journal.OpenExport(dir)
	if err != nil {
		return journal.Manifest{}, err
	}
	defer e.Close()
	if _, err := os.Stat(filepath.Join(home, "hub.db")); err == nil { // before anything is put there
		return journal.Manifest{}, hub.Errorf(hub.CodeConflict, "server.Import", "there is a hub in %s already", home).
			WithHint("name a home that does not exist yet")
	}
	if err := e.CopyArchives(filepath.Join(home, archiveDir)); err != nil {
		return journal.Manifest{}, err
	}
	if err := sqlite.Load(ctx, home, e.Manifest.Schema, e.Next); err != nil {
		return journal.Manifest{}, err
	}
	r, err := OpenRecords(home, nil)
	if err != nil {
		return journal.Manifest{}, err
	}
	err = journal.NewFiles(r.store, filepath.Join(home, trailDir), nil).Copy(ctx)
	return e.Manifest, errors.Join(err, r.Close())
}
