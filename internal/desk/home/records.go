package home

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/service/records"
)

// Records is everything that a hub keeps, as a whole: the store, the files of the
// journal beside it, archives and artifacts. A running hub has one; OpenRecords
// returns that of a home without a hub.
type Records struct {
	*records.Records
	store Engine
	file  *sqlite.Store // nil on PostgreSQL
	home  string

	Proofs *proof.Log // of a hub that runs; else nil
}

// NewRecords returns the records of a store in a home. opts has all but what
// follows from the home.
func NewRecords(store Engine, file *sqlite.Store, home, name string, opts records.Options) *Records {
	opts.EmptyLog = store.EmptyLog
	folders := records.Folders{Trail: filepath.Join(home, TrailDir), Archives: filepath.Join(home, ArchiveDir), Position: filepath.Join(home, positionFile), Name: name}
	return &Records{records.New(store, folders, &opts), store, file, home, nil}
}

// OpenRecords opens the records in a home in which no hub is running. Whoever
// gets them must Close them. log may be nil. It reports CodeConflict for a home that a hub
// uses, also if the database of that hub is elsewhere.
func OpenRecords(home string, log *slog.Logger) (*Records, error) {
	const op = "home.OpenRecords"
	if err := StoredElsewhere(op, home); err != nil {
		if sqlite.Locked(home) {
			return nil, hub.Errorf(hub.CodeConflict, op, "a hub is running in %s", home).WithHint("call it, or stop it first")
		}
		return nil, err
	}
	home, err := Check(home, "")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(home, "hub.db")); err != nil {
		return nil, hub.Errorf(hub.CodeNotFound, op, "no hub in %s", home).WithHint("use another --home")
	}
	store, err := OpenSQLite(home, sqlite.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return NewRecords(store, store, home, "", records.Options{Log: log}), nil
}

// Close releases the home.
func (r *Records) Close() error { return r.store.Close() }

// Verify compares everything with the journal, and the database's schema with
// the one that this version makes.
func (r *Records) Verify(ctx context.Context) (records.Audit, error) {
	return r.addDrift(ctx)(r.Records.Verify(ctx))
}

// VerifyFor is Verify for some time; see records.VerifyFor.
func (r *Records) VerifyFor(ctx context.Context, span time.Duration, resume string) (records.Audit, error) {
	return r.addDrift(ctx)(r.Records.VerifyFor(ctx, span, resume))
}

// addDrift returns a function that adds differences of the schema, and of the tree over the
// journal, to an audit that has come to its end.
func (r *Records) addDrift(ctx context.Context) func(records.Audit, error) (records.Audit, error) {
	return func(got records.Audit, err error) (records.Audit, error) {
		if err != nil || got.Progress != nil {
			return got, err
		}
		drift, err := r.store.SchemaDrift(ctx)
		for _, d := range drift {
			got.Findings = append(got.Findings, records.Finding{Where: "schema", What: d})
		}
		if err != nil {
			return got, err
		}

		tree, err := proof.Check(ctx, r.store)
		for _, f := range tree.Findings {
			got.Findings = append(got.Findings, records.Finding{Where: f.Where, What: f.What})
		}
		got.Unchecked = append(got.Unchecked, tree.Unchecked...)
		got.Leaves, got.Checkpoints = tree.Size, tree.Checkpoints
		return got, err
	}
}

// RebuildTree makes the tree over the journal again, and returns the number of its leaves.
func (r *Records) RebuildTree(ctx context.Context) (int64, error) {
	if r.Proofs == nil {
		return proof.New(r.store, nil, nil).Rebuild(ctx)
	}
	return r.Proofs.Rebuild(ctx)
}

// Export writes everything as JSONL into a folder that does not exist yet.
func (r *Records) Export(ctx context.Context, dir string, restricted bool) (records.Manifest, error) {
	return r.Records.Export(ctx, dir, func(ctx context.Context, begin func(int) error, emit func(string, []byte) error) error {
		return r.store.Dump(ctx, begin, emit, restricted)
	})
}

// Backup copies the home into a folder that does not exist yet, while the hub
// works: the database as SQLite copies it, the trail, the archives, artifacts,
// files that repositories share, and the key files. The folder is a home: a hub
// that is started in it, or in a copy of it, goes on where this one was.
//
// The order makes the parts fit each other. A trail that is copied before the
// database is a beginning of that database's journal, and is completed from it
// at the end. Archives and artifacts that are copied after it include all that
// it names, because both are written before the database names them.
func (r *Records) Backup(ctx context.Context, dir string) error {
	const op = "home.Backup"
	if r.file == nil {
		return StoredElsewhere(op, r.home)
	}
	err := copyHome(ctx, r.home, dir, func(path string) error { return r.file.Backup(ctx, path) }, completeTrail)
	if err != nil && hub.CodeOf(err) == "" && ctx.Err() == nil {
		return hub.Errorf(hub.CodeDegraded, op, "cannot copy %s: %v", r.home, err).WithHint("check the disk and the permissions of the folder")
	}
	return err
}

// copyHome copies a home into a folder that does not exist yet and appears whole or
// not at all. backup copies the database; finish, which may be nil, gets the copy before
// it appears.
// The copy is made in a folder with the ending .partial and renamed at the end.
func copyHome(ctx context.Context, home, dir string, backup func(path string) error, finish func(ctx context.Context, home string) error) error {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return hub.Errorf(hub.CodeConflict, "home.Backup", "%s already exists", dir).WithHint("use a folder that does not exist yet")
	}

	work := dir + ".partial"
	err := os.RemoveAll(work) // left by a crash
	if err == nil {
		err = os.Mkdir(work, 0o700)
	}
	defer os.RemoveAll(work) // which does not exist any more after a success

	// The trail is copied before the database and the other files after it, so that the parts fit
	// each other (see Backup).
	if err == nil {
		err = copyTree(ctx, home, work, TrailDir)
	}
	if err == nil {
		err = backup(filepath.Join(work, "hub.db"))
	}
	for _, name := range []string{ArchiveDir, ArtifactDir, SharedDir, RunsDir, SecretsFile, OperatorKeyFile} {
		if err == nil {
			err = copyTree(ctx, home, work, name)
		}
	}

	if err == nil && finish != nil {
		err = finish(ctx, work)
	}
	if err == nil {
		err = durable.Rename(work, dir)
	}
	return err
}

// OpenSQLite opens the database in a home. Before a newer version changes the tables of
// an older one, the home is copied, so that the older version can go on there; the
// copy from before an earlier upgrade is removed then. The trail of the copy may be behind
// its database, as after a kill: the hub that is started there completes it.
func OpenSQLite(home string, opts sqlite.Options) (*sqlite.Store, error) {
	opts.BeforeUpgrade = func(schema int, backup func(path string) error) error {
		dir := sqlite.UpgradeDir(home, schema)
		if _, err := os.Stat(dir); err == nil {
			return nil // made by an upgrade that was interrupted
		}
		old, err := os.ReadDir(filepath.Dir(dir))
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Mkdir(filepath.Dir(dir), 0o700)
		}
		if err == nil {
			err = copyHome(context.Background(), home, dir, backup, nil)
		}
		for _, o := range old {
			if err == nil {
				err = os.RemoveAll(filepath.Join(filepath.Dir(dir), o.Name()))
			}
		}
		if err != nil {
			return hub.Errorf(hub.CodeDegraded, "home.Upgrade", "cannot copy %s before the upgrade: %v", home, err).
				WithHint("nothing was changed; free disk space, or start the previous version of parley")
		}
		if opts.Log != nil {
			opts.Log.Warn("upgraded the database; the previous home is kept", "schema", schema, "copy", dir)
		}
		return nil
	}
	return sqlite.Open(home, &opts)
}

// copyTree copies a file or a folder, if it exists, from one home to another. A
// file that disappears meanwhile is passed over.
// Links and devices are not copied: a link could lead out of the home.
func copyTree(ctx context.Context, from, to, name string) error {
	return filepath.WalkDir(filepath.Join(from, name), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, relErr := filepath.Rel(from, path)
		if err := errors.Join(err, relErr, ctx.Err()); err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		err = durable.Copy(ctx, path, target)
		if _, gone := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && errors.Is(gone, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// completeTrail writes the trail of a home up to the journal of its database.
func completeTrail(ctx context.Context, home string) error {
	r, err := OpenRecords(home, nil)
	if err != nil {
		return err
	}
	return errors.Join(r.Copy(ctx), r.Close())
}

// Import makes a home out of an export. The home must not hold a hub yet. An export
// has the hashes of keys and no secrets, so the hub makes a new operator's key when it
// starts.
func Import(ctx context.Context, dir, home string) (records.Manifest, error) {
	if _, err := os.Stat(filepath.Join(home, "hub.db")); err == nil { // before anything is put there
		return records.Manifest{}, hub.Errorf(hub.CodeConflict, "home.Import", "%s already has a hub", home).
			WithHint("use a home that does not exist yet")
	}
	m, err := records.Import(dir, filepath.Join(home, ArchiveDir), func(schema int, next func() (string, []byte, error)) error {
		return sqlite.Load(ctx, home, schema, next)
	})
	if err != nil {
		return records.Manifest{}, err
	}
	return m, completeTrail(ctx, home)
}
