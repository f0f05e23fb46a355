package home

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/records"
)

// A StoreCopy says from where to where everything that a hub keeps is copied. No
// hub may use either store meanwhile. One of the two addresses is sqlite:HOME, the
// other one a PostgreSQL database.
type StoreCopy struct {
	From, To     string // sqlite:HOME or postgres://USER@HOST/NAME
	Home         string // of a hub on the PostgreSQL database that is copied; its files are copied, too
	PasswordFile string // with the password of the database; default the environment
	NoTLSBecause string // lets a database beyond loopback be used without verified TLS
	Machine      string // whose folders the hub reads; default the name of the host
	Log          *slog.Logger
}

// sqliteHome returns the home in an address sqlite:HOME.
func sqliteHome(address string) (string, bool) { return strings.CutPrefix(address, "sqlite:") }

// CopyStore copies a store to an engine of the other kind and verifies the copy. The copy
// of a database appears when it is complete, or not at all.
// The audit that it returns is that of the copy: every row, hash and file was
// compared with the journal. The source is not changed.
func CopyStore(ctx context.Context, o StoreCopy) (records.Audit, error) {
	const op = "home.CopyStore"
	from, fromFiles := sqliteHome(o.From)
	to, toFiles := sqliteHome(o.To)
	switch {
	case fromFiles && toFiles:
		return records.Audit{}, hub.Errorf(hub.CodeInvalid, op, "both stores are on SQLite").WithHint("use parley hub backup to copy the hub")
	case !fromFiles && !toFiles:
		return records.Audit{}, hub.Errorf(hub.CodeInvalid, op, "one of the stores must be sqlite:FOLDER").WithHint("pg_dump and pg_restore copy a PostgreSQL database")
	case (fromFiles && from == "") || (toFiles && to == ""):
		return records.Audit{}, hub.Errorf(hub.CodeInvalid, op, "sqlite: needs the home of the hub, as in sqlite:FOLDER")
	case toFiles:
		return o.toFiles(ctx, to)
	}
	return o.toDatabase(ctx, from)
}

// options returns the options of the PostgreSQL side.
func (o StoreCopy) options() *postgres.Options {
	return &postgres.Options{PasswordFile: o.PasswordFile, NoTLSBecause: o.NoTLSBecause, Machine: o.Machine, Log: o.Log}
}

// toDatabase copies the hub in a home into a PostgreSQL database. Its other files stay
// where they are.
// Artifacts follow the rows, each under its hash.
func (o StoreCopy) toDatabase(ctx context.Context, home string) (records.Audit, error) {
	source, err := OpenRecords(home, o.Log)
	if err != nil {
		return records.Audit{}, err
	}
	defer source.Close()

	schema, next, stop := pullRows(ctx, source.store)
	defer stop()
	if err := postgres.Load(ctx, o.To, o.options(), schema, next); err != nil {
		return records.Audit{}, err
	}

	target, err := postgres.Open(ctx, o.To, o.options())
	if err != nil {
		return records.Audit{}, err
	}
	defer target.Close()

	// Artifacts lie in files beside an SQLite database, and inside a PostgreSQL one.
	files, err := blobs.Open(filepath.Join(home, ArtifactDir), nil)
	if err != nil {
		return records.Audit{}, err
	}
	stored := target.Artifacts(files)
	err = files.Each(func(sum string) error {
		f, err := files.Open(sum)
		if err != nil {
			return err
		}
		defer f.Close()
		_, _, _, err = stored.Put(f)
		return err
	})
	if err != nil {
		return records.Audit{}, err
	}

	return NewRecords(target, nil, home, "", records.Options{Log: o.Log}).Verify(ctx)
}

// toFiles makes a home out of a PostgreSQL database and the files of a hub on it.
func (o StoreCopy) toFiles(ctx context.Context, home string) (records.Audit, error) {
	// The lock keeps a hub from starting in the home during the copy.
	lock, err := sqlite.LockHome(o.Home)
	if err != nil {
		return records.Audit{}, err
	}
	defer lock.Close()

	source, err := postgres.Open(ctx, o.From, o.options())
	if err != nil {
		return records.Audit{}, err
	}
	defer source.Close()

	schema, next, stop := pullRows(ctx, source)
	defer stop()
	if err := sqlite.Load(ctx, home, schema, next); err != nil {
		return records.Audit{}, err
	}

	files, err := blobs.Open(filepath.Join(home, ArtifactDir), nil)
	if err == nil {
		err = source.Artifacts(files).Fetch(ctx)
	}

	// The other files of the hub are copied as they are; the trail is written anew from the
	// journal.
	for _, name := range []string{ArchiveDir, SharedDir, RunsDir, SecretsFile, OperatorKeyFile} {
		if err == nil {
			err = copyTree(ctx, o.Home, home, name)
		}
	}
	if err == nil {
		err = completeTrail(ctx, home)
	}
	if err != nil {
		return records.Audit{}, err
	}

	target, err := OpenRecords(home, o.Log)
	if err != nil {
		return records.Audit{}, err
	}
	audit, err := target.Verify(ctx)
	return audit, errors.Join(err, target.Close())
}

// pullRows returns the rows of a dump one after the other, and then io.EOF. stop ends the
// dump.
// It turns the dump, which pushes rows, into a function that the loader pulls. The
// first pull runs the dump up to its version, which the loader needs before the
// rows.
func pullRows(ctx context.Context, store Engine) (schema int, next func() (string, []byte, error), stop func()) {
	var failed error
	pull, stop := iter.Pull2(func(yield func(string, []byte) bool) {
		enough := errors.New("no more rows are wanted")
		failed = store.Dump(ctx, func(version int) error {
			schema = version
			if !yield("", nil) {
				return enough
			}
			return nil
		}, func(table string, row []byte) error {
			if !yield(table, row) {
				return enough
			}
			return nil
		}, true)
	})

	next = func() (string, []byte, error) {
		table, row, ok := pull()
		switch {
		case ok:
			return table, row, nil
		case failed != nil:
			return "", nil, failed
		}
		return "", nil, io.EOF
	}

	if _, _, err := next(); err != nil { // the version comes first
		return schema, func() (string, []byte, error) { return "", nil, err }, stop
	}
	return schema, next, stop
}
