package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/home"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/spans"
)

// openStore opens the store of the options: SQLite in the home, or PostgreSQL.
// A home on PostgreSQL keeps the address of its database in StoreFile, so that a
// hub without --store does not begin an empty database in the same home.
func (s *Server) openStore(ctx context.Context) error {
	o := s.opts
	if o.Store == "" {
		store, err := home.OpenSQLite(o.Home, sqlite.Options{Full: o.FullSync, Log: o.Log, Busy: o.busy})
		if err != nil {
			return fmt.Errorf("server: open %s: %w", o.Home, err)
		}
		s.store = s.traced(store)
		s.sqlite = store
		s.hints = new(bus.Local)
		return nil
	}

	store, err := postgres.Open(ctx, o.Store, &postgres.Options{PasswordFile: o.StorePasswordFile, NoTLSBecause: o.StoreNoTLSBecause, Machine: o.Machine, Log: o.Log})
	if err == nil {
		err = os.WriteFile(filepath.Join(o.Home, StoreFile), []byte(o.Store+"\n"), 0o600)
		if err != nil {
			store.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("server: open the store: %w", err)
	}

	s.store = s.traced(store)
	s.postgres = store
	s.hints = store.Bus()
	return nil
}

// traced returns the store as it is, or one whose changes within calls are spans.
func (s *Server) traced(store home.Engine) home.Engine {
	if s.tracer == nil {
		return store
	}
	return tracedStore{store}
}

// A tracedStore records changes as spans, with the time in the queue of changes.
type tracedStore struct{ home.Engine }

// Update implements hub.Store.
func (s tracedStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	ctx, span := spans.Step(ctx, "store.update")
	err := s.Engine.Update(ctx, d, fn)
	span.End(err)
	return err
}

// hubName tells the trail, the copies of repositories and the runs of checks of this home apart
// from those of other hubs on the same database; "" for the only hub of a store.
func (s *Server) hubName() string {
	if s.postgres == nil {
		return ""
	}
	return s.postgres.Machine() + ":" + s.opts.Home
}

// openArtifacts opens the store of artifacts, whose files lie in a folder of the home. The
// folder must exist, because evidence has it as a root.
func (s *Server) openArtifacts(context.Context) (err error) {
	s.artifactDir = filepath.Join(s.opts.Home, home.ArtifactDir)
	if err := os.MkdirAll(s.artifactDir, 0o700); err != nil {
		return fmt.Errorf("server: %w", err)
	}

	files, err := blobs.Open(s.artifactDir, nil)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.content = files
	if s.postgres != nil {
		s.content = s.postgres.Artifacts(files)
	}
	return nil
}
