package server

import (
	"context"
	"log/slog"

	"github.com/parley-agents/parley/internal/desk/home"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/surface/routes"
)

// Records is everything that a hub keeps, as a whole: the store, the files of the journal beside it, archives
// and artifacts.
type Records = home.Records

// A StoreCopy says from where to where everything that a hub keeps is copied.
type StoreCopy = home.StoreCopy

// OpenRecords opens the records in a home in which no hub is running; Close releases the home. log may be nil.
func OpenRecords(folder string, log *slog.Logger) (*Records, error) {
	return home.OpenRecords(folder, log)
}

// Import makes a home out of an export.
func Import(ctx context.Context, dir, folder string) (records.Manifest, error) {
	return home.Import(ctx, dir, folder)
}

// CopyStore copies a store to an engine of the other kind and verifies the copy. No hub may use either store
// meanwhile.
func CopyStore(ctx context.Context, o StoreCopy) (records.Audit, error) {
	return home.CopyStore(ctx, o)
}

// An Artifact is the answer to POST /artifacts.
type Artifact = routes.Artifact

// Running reports whether a hub runs in a home now.
func Running(folder string) bool { return home.Running(folder) }
