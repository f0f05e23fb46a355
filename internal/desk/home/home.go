// Package home opens, checks, copies and verifies the home of a hub: the folder with its database or the name of
// one, its keys, the files of its journal, archives and artifacts.
//
// [OpenRecords], [Import] and [CopyStore] need a home in which no hub runs. A hub that runs has the same
// [Records].
package home

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
)

// Files and folders of a home. The names are part of the format of a home: commands and other programs read
// them.
const (
	OperatorKeyFile = "operator.key" // the operator's secret
	SocketFile      = "hub.sock"     // where the operator's key is accepted, while the hub runs
	URLFile         = "url"          // where the hub listens, while it runs
	StoreFile       = "store"        // names the database of a hub that is not in its home; it holds no secret
	SecretsFile     = "secrets.key"  // from which the hub's own secrets follow
	CountsFile      = "counted"      // calls that are counted for the journal, with the ending .0 or .1

	TrailDir     = "journal"
	ArchiveDir   = "archive"
	ArtifactDir  = "artifacts"
	InboxDir     = "inbox"
	SharedDir    = "shared" // files that repositories share
	TeamspaceDir = "_shared/teamspaces"
	RunsDir      = "runs"         // recordings that parley run keeps beside the hub
	WorksDir     = "works"        // the states of worktrees, by repository and handoff
	CopiesDir    = "repositories" // the hub's own copies of repositories
	WorkshopDir  = "workshop"     // the worktrees and caches of checks

	positionFile = "verify.json" // of a verification that paused
)

// An Engine is the store of a hub, and what the hub needs of it beside hub.Store.
// Package sqlite and package postgres implement it.
type Engine interface {
	hub.Store
	Fault(ctx context.Context) error                   // why it cannot be changed
	EmptyLog(ctx context.Context) error                // leaves no text behind that was removed
	SchemaDrift(ctx context.Context) ([]string, error) // differences from the tables that this version makes
	// Dump emits everything, without the content of restricted handoffs unless asked.
	Dump(ctx context.Context, begin func(schema int) error, emit func(table string, row []byte) error, restricted bool) error
}

// Artifacts keeps content by its SHA-256.
// On SQLite they are files; on PostgreSQL the database has them, and the files are
// a cache.
type Artifacts interface {
	Put(r io.Reader) (path, sha256 string, size int64, err error)
	Open(sha256 string) (*os.File, error)
	Remove(sha256 string) error
}

// Check returns the path of a home from the root, because parts of the hub start programs in
// other folders. It refuses a home that was used before and has no database now, and one whose
// database is another than the store asked for.
// A home with a key and without a database is refused because the disk may be the wrong
// one: a hub with an empty database would look as if its messages were gone.
func Check(given, store string) (home string, err error) {
	const op = "home.New"
	if given == "" {
		return "", hub.Errorf(hub.CodeInvalid, op, "a hub needs a home folder")
	}
	if home, err = filepath.Abs(given); err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "find the home %s: %v", given, err)
	}
	_, keyErr := os.Stat(filepath.Join(home, OperatorKeyFile))
	_, dbErr := os.Stat(filepath.Join(home, "hub.db"))
	_, elsewhere := os.Stat(filepath.Join(home, StoreFile))
	switch {
	case store != "" && dbErr == nil:
		return "", hub.Errorf(hub.CodeConflict, op, "%s has its own database, hub.db, but --store names another", home).WithHint("use another --home, or omit --store")
	case store != "":
		return home, nil
	case elsewhere == nil:
		return "", hub.Errorf(hub.CodeConflict, op, "the hub in %s has its database on a PostgreSQL server", home).WithHint("set it with --store, or use another --home")
	}
	if keyErr == nil && errors.Is(dbErr, fs.ErrNotExist) {
		return "", hub.Errorf(hub.CodeDegraded, op, "%s was used by a hub, but its database hub.db is missing", home).
			WithHint("restore hub.db from a backup, or use another --home to start over")
	}
	return home, nil
}

// Running reports whether a hub runs in a home now. A hub that was killed leaves its
// address behind, where another program may listen by now.
// The lock of the home is the proof, which the system releases with its process.
func Running(home string) bool { return sqlite.Locked(home) }

// StoredElsewhere reports an error if the database of the hub in a home is not there.
func StoredElsewhere(op, home string) error {
	if _, err := os.Stat(filepath.Join(home, StoreFile)); err != nil {
		return nil
	}
	return hub.Errorf(hub.CodeNotEnabled, op, "the hub in %s has its database on a PostgreSQL server", home).
		WithHint("start the hub and call it, or use PostgreSQL tools such as pg_dump")
}
